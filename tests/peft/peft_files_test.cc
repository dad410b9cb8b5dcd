#include "lorica/peft/peft_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>

#include "lorica/peft/peft_config.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/tensor_matchers.h"
#include "toy_model.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;
using testing::RandomTensor;
using testing::SameBits;
using testing::ToyModel;

class PeftFilesTest : public ::testing::Test {
 protected:
  PeftFilesTest() {
    std::string pattern = ::testing::TempDir() + "lorica_peft_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~PeftFilesTest() override { (void)RemoveTree(PosixFiles(), folder_); }

  AdapterSet MakeAdapter(ToyModel& model, DType dtype = DType::kF32) {
    auto set = InjectLora(model, *backend_, dtype,
                          {.rank = 3,
                           .alpha = 7,
                           .scaling = LoraScaling::kRsLora,
                           .targets = {"q_proj", "*.mlp.up_proj", "embed_tokens", "lm_head"},
                           .rank_pattern = {{"layers.1.*", 2}},
                           .alpha_pattern = {{"lm_head", 4}}});
    EXPECT_TRUE(set.ok()) << set.status();
    uint64_t seed = 1;
    set->ForEachFactor(0, [&](const std::string&, Tensor& master) {
      const Tensor values = RandomTensor(*backend_, master.shape(), master.dtype(), ++seed);
      backend_->Copy(values.view(), master.mutable_view());
    });
    return *std::move(set);
  }
  std::string LoadError(const std::string& folder) {
    ToyModel model(*backend_, DType::kF32, 2);
    return std::string(LoadPeftAdapter(folder, model, *backend_, DType::kF32).status().message());
  }
  // An adapter folder whose files the test then damages.
  std::string Save(const std::string& name) {
    ToyModel model(*backend_, DType::kF32, 2);
    const AdapterSet set = MakeAdapter(model);
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(SavePeftAdapter(PosixFiles(), path, set, {.base_model = "toy"}).ok());
    return path;
  }
  static std::string ReadText(const std::string& path) { return *PosixFiles().Read(path, 1 << 20); }
  static void WriteText(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::trunc | std::ios::binary) << text;
  }
  static void Replace(const std::string& path, const std::string& from, const std::string& to) {
    std::string text = ReadText(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << path;
    WriteText(path, text.replace(at, from.size(), to));
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
  std::string folder_;
};

TEST_F(PeftFilesTest, RoundTripKeepsEveryBitRankAndScale) {
  ToyModel model(*backend_, DType::kF32, 2), other(*backend_, DType::kF32, 2);
  const AdapterSet set = MakeAdapter(model);
  ASSERT_TRUE(SavePeftAdapter(PosixFiles(), folder_ + "/a", set).ok());
  const auto loaded = LoadPeftAdapter(folder_ + "/a", other, *backend_, DType::kF32);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->modules().size(), set.modules().size());
  for (size_t i = 0; i < set.modules().size(); ++i) {
    const LoraFactors &want = set.modules()[i].adapter->factors(0),
                      &got = loaded->modules()[i].adapter->factors(0);
    EXPECT_EQ(loaded->modules()[i].path, set.modules()[i].path);
    EXPECT_TRUE(SameBits(got.a, want.a));
    EXPECT_TRUE(SameBits(got.b, want.b));
    EXPECT_EQ(got.scale(), want.scale()) << set.modules()[i].path;
  }
}

TEST_F(PeftFilesTest, SameAdapterGivesTheSameBytes) {
  EXPECT_EQ(ReadText(Save("a") + "/adapter_model.safetensors"),
            ReadText(Save("b") + "/adapter_model.safetensors"));
}

TEST_F(PeftFilesTest, AnExistingFolderIsNotOverwritten) {
  const std::string path = Save("a");
  ToyModel model(*backend_, DType::kF32, 2);
  const AdapterSet set = MakeAdapter(model);
  EXPECT_EQ(SavePeftAdapter(PosixFiles(), path, set).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(PeftFilesTest, RefusesUnsupportedFeaturesByName) {
  const std::pair<const char*, const char*> rows[] = {
      {"\"use_dora\": false", "\"use_dora\": true"},
      {"\"lora_bias\": false", "\"lora_bias\": true"},
      {"\"bias\": \"none\"", "\"bias\": \"all\""},
      {"\"fan_in_fan_out\": false", "\"fan_in_fan_out\": true"},
      {"\"modules_to_save\": null", "\"target_parameters\": [\"experts.up\"]"},
      {"\"modules_to_save\": null", "\"layer_replication\": [[0, 2]]"},
      {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\""},
      {"\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\""},
  };
  int i = 0;
  for (const auto& [from, to] : rows) {
    const std::string path = Save("row" + std::to_string(i++));
    Replace(path + "/adapter_config.json", from, to);
    const std::string key = std::string(to).substr(1, std::string(to).find('"', 1) - 1);
    EXPECT_THAT(LoadError(path), HasSubstr(key));
  }
}

TEST_F(PeftFilesTest, RefusesWhatDoesNotFit) {
  std::string path = Save("ghost");
  Replace(path + "/adapter_model.safetensors", "layers.0.self_attn.q_proj.lora_A",
          "layers.9.self_attn.q_proj.lora_A");
  EXPECT_THAT(LoadError(path), HasSubstr("layers.9.self_attn.q_proj"));

  path = Save("key");
  Replace(path + "/adapter_model.safetensors", "q_proj.lora_A.weight", "q_proj.lora_A.wei8ht");
  EXPECT_THAT(LoadError(path), HasSubstr("wei8ht"));

  path = Save("rank");
  Replace(path + "/adapter_config.json", "\"r\": 3", "\"r\": 4");
  EXPECT_THAT(LoadError(path), HasSubstr("expected shape"));

  path = Save("extra_target");
  Replace(path + "/adapter_config.json", "\"lm_head\"", "\"lm_head\", \"down_proj\"");
  EXPECT_THAT(LoadError(path), HasSubstr("has no factors"));

  path = Save("less_target");
  Replace(path + "/adapter_config.json", "    \"layers.0.mlp.up_proj\",\n", "");
  EXPECT_THAT(LoadError(path), HasSubstr("doesn't name"));

  path = Save("truncated");
  const std::string whole = ReadText(path + "/adapter_model.safetensors");
  WriteText(path + "/adapter_model.safetensors", whole.substr(0, whole.size() - 4));
  EXPECT_NE(LoadError(path), "");

  path = Save("nan");
  std::string bytes = ReadText(path + "/adapter_model.safetensors");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&bytes[bytes.size() - 4], &nan, 4);
  WriteText(path + "/adapter_model.safetensors", bytes);
  EXPECT_THAT(LoadError(path), HasSubstr("finite"));

  EXPECT_THAT(LoadError(folder_ + "/absent"), HasSubstr("adapter_config.json"));
}

TEST_F(PeftFilesTest, NothingChangesWhenLoadingFails) {
  const std::string path = Save("bad");
  Replace(path + "/adapter_config.json", "\"r\": 3", "\"r\": 4");
  ToyModel model(*backend_, DType::kF32, 2);
  EXPECT_FALSE(LoadPeftAdapter(path, model, *backend_, DType::kF32).ok());
  for (const TargetCandidate& c : ListTargetCandidates(model))
    EXPECT_EQ(c.host->adapter(), nullptr);
}

TEST(PeftConfigTest, PatternsAreRegexesForTheEndOfAPathInFileOrder) {
  const auto config = ParsePeftConfig(R"({"peft_type": "LORA", "r": 5, "lora_alpha": 12,
      "target_modules": ".*(q|v)_proj", "rank_pattern": {"layers\\.1\\.v_proj": 9, "v_proj": 7,
      "proj": 2}, "alpha_pattern": {"^q_proj": 3}, "exclude_modules": ["layers.2.q_proj"]})",
                                      "test");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->targets.Matches("model.layers.0.q_proj"));
  EXPECT_FALSE(config->targets.Matches("model.layers.0.q_proj.x"));
  EXPECT_EQ(config->RankOf("layers.1.v_proj"), 9);
  EXPECT_EQ(config->RankOf("layers.11.v_proj"), 7);
  EXPECT_EQ(config->RankOf("layers.1.q_proj"), 5);  // "proj" must follow a dot
  EXPECT_EQ(config->AlphaOf("q_proj"), 3);
  EXPECT_EQ(config->AlphaOf("layers.1.v_proj"), 12);
  EXPECT_TRUE(config->excludes.Matches("model.layers.2.q_proj"));
  EXPECT_FALSE(config->excludes.Matches("model.layers.12.q_proj"));
}

TEST(PeftConfigTest, HostilePatternsEnd) {
  const auto config =
      ParsePeftConfig(R"({"peft_type": "LORA", "target_modules": "(a*)*b"})", "test");
  ASSERT_TRUE(config.ok());
  EXPECT_FALSE(config->targets.Matches(std::string(200, 'a')));
  EXPECT_FALSE(ParsePeftConfig(R"({"peft_type": "LORA", "target_modules": "("})", "test").ok());
}

TEST(PeftConfigTest, RefusesWrongTypes) {
  for (const char* text :
       {"[]", "{}", R"({"peft_type": 3})", R"({"peft_type": "LORA"})",
        R"({"peft_type": "LORA", "target_modules": []})",
        R"({"peft_type": "LORA", "target_modules": [3]})",
        R"({"peft_type": "LORA", "target_modules": ["a"], "r": 0})",
        R"({"peft_type": "LORA", "target_modules": ["a"], "r": 1.5})",
        R"({"peft_type": "LORA", "target_modules": ["a"], "r": "8"})",
        R"({"peft_type": "LORA", "target_modules": ["a"], "rank_pattern": {"a": "b"}})",
        R"({"peft_type": "LORA", "target_modules": ["a"], "rank_pattern": {"a": 0}})",
        R"({"peft_type": "LORA", "target_modules": ["a"], "rank_pattern": []})",
        R"({"peft_type": "LORA", "target_modules": ["a"], "lora_alpha": null, "use_rslora": 1})"}) {
    EXPECT_FALSE(ParsePeftConfig(text, "test").ok()) << text;
  }
}

}  // namespace
}  // namespace lorica
