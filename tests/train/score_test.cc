#include "lorica/train/score.h"

#include <cmath>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/train/exit_status.h"
#include "support/fault_file_system.h"
#include "support/tensor_matchers.h"
#include "train/golden_run.h"
#include "train/temp_folder.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

std::map<std::string, std::vector<double>> TensorsOf(const std::string& path) {
  absl::StatusOr<std::unique_ptr<TensorSource>> source = OpenSafetensorsSource(path);
  EXPECT_TRUE(source.ok()) << source.status();
  std::map<std::string, std::vector<double>> tensors;
  if (!source.ok()) return tensors;
  for (const std::string& name : (*source)->names()) {
    int64_t count = 1;
    for (const int64_t extent : (*source)->Find(name)->shape) count *= extent;
    tensors[name].resize(static_cast<size_t>(count));
    EXPECT_TRUE((*source)->ReadAll(name, DType::kF64, tensors[name].data()).ok());
  }
  return tensors;
}

class ScoreTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  bool exact() const { return std::string(std::get<1>(GetParam())) == "f64"; }

  ScoreOptions Options() const {
    ScoreOptions options;
    options.model = GoldenPath(name() + "/model");
    options.adapter = GoldenPath(name() + "/adapter");
    options.data = {GoldenPath(name() + "/batches.jsonl")};
    options.dtype = std::get<1>(GetParam());
    options.threads = 1;
    return options;
  }

  TempFolder folder_;
};

TEST_P(ScoreTest, LogitsAndLossesAreThoseOfPeft) {
  ScoreOptions options = Options();
  options.logits = folder_ / "logits.safetensors";
  options.output = folder_ / "scores.jsonl";
  const nlohmann::json want = GoldenJson(name() + "/adapter_loss.json");
  std::vector<RecordScore> scores;
  const absl::StatusOr<ScoreTotals> totals =
      RunScore(options, [&](const RecordScore& score) { scores.push_back(score); });
  ASSERT_TRUE(totals.ok()) << totals.status();
  ASSERT_EQ(scores.size(), 6u);
  const double tolerance = exact() ? 1e-9 : 1e-4;
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const nlohmann::json record = want.is_array() ? want[i] : want[std::to_string(i)];
    EXPECT_EQ(scores[i].trained_tokens, record["num_targets"]);
    EXPECT_NEAR(scores[i].loss / record["mean_loss"].get<double>(), 1, tolerance) << i;
    sum += record["mean_loss"].get<double>() * record["num_targets"].get<double>();
    count += record["num_targets"].get<int64_t>();
    EXPECT_TRUE(std::isnan(scores[i].logprobs[0]));
    EXPECT_EQ(static_cast<int64_t>(scores[i].logprobs.size()), scores[i].tokens);
  }
  EXPECT_NEAR(totals->loss / (sum / static_cast<double>(count)), 1, tolerance);
  EXPECT_NEAR(totals->perplexity, std::exp(totals->loss), 1e-12 * totals->perplexity);

  const auto logits = TensorsOf(options.logits);
  const auto golden = GoldenTensors(name() + "/adapter_logits.safetensors");
  ASSERT_EQ(logits.size(), golden.size());
  for (const auto& [key, values] : golden) {
    ASSERT_EQ(logits.count(key), 1u) << key;
    EXPECT_TRUE(testing::Near(logits.at(key), values, exact() ? 2e-7 : 1e-4)) << key;
  }
  // Log-probabilities follow from the logits.
  std::ifstream lines(options.output);
  std::string line;
  std::ifstream records(options.data[0]);
  std::string record;
  for (int i = 0; std::getline(lines, line); ++i) {
    const nlohmann::json json = nlohmann::json::parse(line);
    std::getline(records, record);
    const std::vector<int32_t> ids = nlohmann::json::parse(record)["input_ids"];
    EXPECT_EQ(json["index"], i);
    EXPECT_EQ(json["tokens"], ids.size());
    EXPECT_TRUE(json["logprobs"][0].is_null());
    const std::vector<double>& all = golden.at("logits." + std::to_string(i));
    const size_t vocab = all.size() / ids.size();
    for (size_t t = 1; t < ids.size(); ++t) {
      double total = 0;
      for (size_t v = 0; v < vocab; ++v) total += std::exp(all[(t - 1) * vocab + v]);
      const double expected = all[(t - 1) * vocab + static_cast<size_t>(ids[t])] - std::log(total);
      EXPECT_NEAR(json["logprobs"][t].get<double>(), expected, exact() ? 1e-5 : 1e-3);
    }
  }
}

TEST_P(ScoreTest, GradientsAreThoseOfPeft) {
  ScoreOptions options = Options();
  // The expected gradients are those of the first four records.
  std::ifstream records(options.data[0]);
  std::string text, line;
  for (int i = 0; i < 4 && std::getline(records, line); ++i) text += line + "\n";
  WriteText(folder_ / "four.jsonl", text);
  options.data = {folder_ / "four.jsonl"};
  options.gradients = folder_ / "gradients.safetensors";
  const absl::StatusOr<ScoreTotals> totals = RunScore(options);
  ASSERT_TRUE(totals.ok()) << totals.status();
  EXPECT_NEAR(totals->loss / GoldenJson(name() + "/grads.json")["loss"].get<double>(), 1,
              exact() ? 1e-9 : 1e-4);
  const auto gradients = TensorsOf(options.gradients);
  const auto golden = GoldenTensors(name() + "/grads.safetensors");
  ASSERT_EQ(gradients.size(), golden.size());
  for (const auto& [key, values] : golden) {
    ASSERT_EQ(gradients.count(key), 1u) << key;
    EXPECT_TRUE(testing::Near(gradients.at(key), values, exact() ? 2e-7 : 1e-4)) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ScoreTest,
                         ::testing::Combine(::testing::Values("llama_gqa", "llama_mqa_bias_tied",
                                                              "qwen2_patterns", "llama_embed_head",
                                                              "mistral", "qwen2_window", "qwen3",
                                                              "smollm3", "granite", "olmo2",
                                                              "gemma2", "gemma3_text", "phi3"),
                                            ::testing::Values("f64", "f32")));
INSTANTIATE_TEST_SUITE_P(
    Experts, ScoreTest,
    ::testing::Combine(::testing::Values("mixtral", "qwen2_moe", "qwen3_moe", "olmoe",
                                         "deepseek_v2", "deepseek_v2_lite", "deepseek_v3",
                                         "glm4_moe", "glm4_moe_lite", "deepseek_v32", "glm_moe_dsa",
                                         "gpt_oss", "minimax_m2", "qwen3_5_moe"),
                       ::testing::Values("f64", "f32")));

TEST(Score, WithoutAdapterTheModelAloneSpeaks) {
  ScoreOptions options;
  options.model = GoldenPath("llama_gqa/model");
  options.data = {GoldenPath("llama_gqa/batches.jsonl")};
  options.dtype = "f64";
  const nlohmann::json want = GoldenJson("llama_gqa/loss.json");
  std::vector<RecordScore> scores;
  ASSERT_TRUE(RunScore(options, [&](const RecordScore& s) { scores.push_back(s); }).ok());
  for (size_t i = 0; i < scores.size(); ++i) {
    const nlohmann::json record = want.is_array() ? want[i] : want[std::to_string(i)];
    EXPECT_NEAR(scores[i].loss / record["mean_loss"].get<double>(), 1, 1e-9);
  }
}

TEST(Score, RefusalsLeaveNoFile) {
  TempFolder folder;
  ScoreOptions options;
  EXPECT_EQ(ExitStatus(RunScore(options).status()), kExitUsage);
  options.model = GoldenPath("llama_gqa/model");
  EXPECT_EQ(ExitStatus(RunScore(options).status()), kExitUsage);
  options.data = {folder / "absent.jsonl"};
  EXPECT_EQ(ExitStatus(RunScore(options).status()), kExitInput);
  options.data = {GoldenPath("llama_gqa/batches.jsonl")};
  options.gradients = folder / "g.safetensors";
  EXPECT_THAT(std::string(RunScore(options).status().message()), HasSubstr("needs --adapter"));
  options.gradients.clear();
  options.output = folder / "scores.jsonl";
  options.logits = folder / "logits.safetensors";
  EXPECT_EQ(ExitStatus(RunScore(options, {}, [] { return true; }).status()), kExitInterrupted);
  EXPECT_TRUE(ReadTree(folder.path()).empty());
  // A full disk, early and late.
  for (const int at : {0, 3, 5, 9}) {
    FaultFileSystem files({.at = at, .action = FaultPlan::Action::kFailForever});
    EXPECT_EQ(ExitStatus(RunScore(options, {}, {}, files).status()), kExitFailed) << at;
    EXPECT_FALSE(std::filesystem::exists(options.output));
  }
}

}  // namespace
}  // namespace lorica
