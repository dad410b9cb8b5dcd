// Small fine-tuning runs: a golden model, token data, a folder.
#ifndef LORICA_TESTS_TRAIN_SFT_FIXTURE_H_
#define LORICA_TESTS_TRAIN_SFT_FIXTURE_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/train/sft.h"
#include "train/golden_run.h"
#include "train/temp_folder.h"

namespace lorica {

// `count` records of token ids in 2 to 20, some masked at the front, from a fixed formula.
inline std::string TokenData(int count, uint64_t seed = 1) {
  std::string text;
  uint64_t state = seed;
  const auto next = [&](uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  for (int i = 0; i < count; ++i) {
    nlohmann::json ids = nlohmann::json::array(), labels = nlohmann::json::array();
    const uint64_t length = 2 + next(19);
    for (uint64_t t = 0; t < length; ++t) {
      // A pattern that can be learned: the same few tokens again and again.
      ids.push_back(10 + next(5));
      labels.push_back(t < length / 3 ? nlohmann::json(-100) : ids.back());
    }
    text += nlohmann::json{{"input_ids", ids}, {"labels", labels}}.dump() + "\n";
  }
  return text;
}

class SftFixture : public ::testing::Test {
 protected:
  SftFixture() {
    WriteText(data_, TokenData(21));
    WriteText(held_out_, TokenData(6, 99));
  }

  // A run of 6 steps of 2 epochs that has everything: dropout, shuffling, checkpoints, evaluation.
  SftOptions Options(const std::string& output) const {
    SftOptions options;
    options.model = GoldenPath("llama_gqa/model");
    options.data = {data_};
    options.output = folder_ / output;
    options.lora_rank = 4;
    options.lora_dropout = 0.2;
    options.epochs = 2;
    options.batch_size = 8;
    options.lr = 0.01;
    options.schedule = "linear";
    options.warmup_steps = 1;
    options.save_every = 2;
    options.eval_data = {held_out_};
    options.eval_every = 2;
    options.seed = 5;
    options.threads = 1;
    options.resume = "auto";
    return options;
  }

  static SftResult MustRun(const SftOptions& options, const SftCallbacks& callbacks = {}) {
    absl::StatusOr<SftResult> result = RunSft(options, callbacks);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : SftResult();
  }

  // The lines of metrics.jsonl without what differs from run to run.
  static std::vector<std::string> Metrics(const std::string& output) {
    std::vector<std::string> lines;
    std::ifstream file(output + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      nlohmann::json json = nlohmann::json::parse(line);
      for (const char* key : {"seconds", "tokens_per_second", "peak_rss_bytes"}) json.erase(key);
      lines.push_back(json.dump());
    }
    return lines;
  }

  // Adapter, tensors of the last checkpoint, metrics: what two equal runs share.
  static void ExpectSameRun(const std::string& a, const std::string& b) {
    EXPECT_EQ(ReadText(a + "/adapter/adapter_model.safetensors"),
              ReadText(b + "/adapter/adapter_model.safetensors"));
    EXPECT_EQ(ReadText(a + "/adapter/adapter_config.json"),
              ReadText(b + "/adapter/adapter_config.json"));
    const auto steps = ReadTree(a + "/checkpoints");
    ASSERT_FALSE(steps.empty());
    for (const auto& [name, content] : steps) {
      if (name.find(".safetensors") == std::string::npos) continue;
      EXPECT_TRUE(content == ReadText(b + "/checkpoints/" + name)) << name;
    }
    EXPECT_EQ(Metrics(a), Metrics(b));
  }

  TempFolder folder_;
  const std::string data_ = folder_ / "data/train.jsonl";
  const std::string held_out_ = folder_ / "data/held_out.jsonl";
};

}  // namespace lorica

#endif  // LORICA_TESTS_TRAIN_SFT_FIXTURE_H_
