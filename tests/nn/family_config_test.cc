// What configurations of single families say.
#include <cmath>
#include <nlohmann/json.hpp>

#include "lorica/io/json_file.h"
#include "lorica/nn/model_config.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Json BaseConfig(const std::string& family) {
  return {{"model_type", family},     {"vocab_size", 64},       {"hidden_size", 32},
          {"intermediate_size", 48},  {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"hidden_act", "silu"},   {"rms_norm_eps", 1e-5}};
}

absl::StatusOr<ModelConfig> Parse(const Json& json) {
  return ParseModelConfig(json.dump(), "config.json");
}

TEST(FamilyConfigTest, LayersGetTheirWindowsAndRotations) {
  using Rope = LayerConfig::Rope;
  Json json = BaseConfig("qwen2");
  json["use_sliding_window"] = true;
  json["max_window_layers"] = 1;
  EXPECT_THAT(Parse(json)->layer_configs,
              ElementsAre(LayerConfig{}, LayerConfig{Rope::kMain, 4096}));
  json["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_THAT(Parse(json)->layer_configs,
              ElementsAre(LayerConfig{Rope::kMain, 4096}, LayerConfig{}));

  // Absent it is a window; null it is none.
  json = BaseConfig("mistral");
  EXPECT_EQ(Parse(json)->Layer(1).window, 4096);
  json["sliding_window"] = nullptr;
  EXPECT_THAT(Parse(json)->layer_configs, IsEmpty());

  json = BaseConfig("smollm3");
  json["num_hidden_layers"] = 4;
  const ModelConfig smollm3 = *Parse(json);
  EXPECT_EQ(smollm3.Layer(2).rope, Rope::kMain);
  EXPECT_EQ(smollm3.Layer(3).rope, Rope::kNone);
  EXPECT_TRUE(smollm3.tied);
  EXPECT_EQ(smollm3.rope.theta, 2e6);
}

// Gemma 3 as files before transformers 5 have it.
TEST(FamilyConfigTest, OldSpellingOfGemma3) {
  Json json = BaseConfig("gemma3_text");
  json.erase("hidden_act");
  json["num_hidden_layers"] = 4;
  json["sliding_window"] = 512;
  json["sliding_window_pattern"] = 3;
  json["rope_theta"] = 1e6;
  json["rope_local_base_freq"] = 12345;
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
  json["cache_implementation"] = "hybrid";
  const auto old = Parse(json);
  ASSERT_OK(old);
  EXPECT_THAT(old->notes, IsEmpty());
  EXPECT_EQ(old->head_dim, 256);
  EXPECT_EQ(old->rope.kind, RopeConfig::Kind::kLinear);
  EXPECT_EQ(old->local_rope.kind, RopeConfig::Kind::kDefault);
  EXPECT_EQ(old->local_rope.theta, 12345);
  EXPECT_EQ(old->Layer(1), (LayerConfig{LayerConfig::Rope::kLocal, 512}));
  EXPECT_EQ(old->Layer(2), LayerConfig{});
  EXPECT_EQ(old->activation, Activation::kGeluTanh);

  for (const char* key :
       {"rope_theta", "rope_local_base_freq", "rope_scaling", "sliding_window_pattern"}) {
    json.erase(key);
  }
  json["layer_types"] = {"sliding_attention", "sliding_attention", "full_attention",
                         "sliding_attention"};
  json["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 1e6}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 12345}}}};
  const auto fresh = Parse(json);
  ASSERT_OK(fresh);
  EXPECT_EQ(MathsText(*fresh), MathsText(*old));
}

TEST(FamilyConfigTest, KindsOfRotationFillWhatIsAbsent) {
  Json json = BaseConfig("llama");
  json["max_position_embeddings"] = 256;
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"original_max_position_embeddings", 64}};
  ModelConfig config = *Parse(json);
  EXPECT_EQ(config.rope.factor, 4);
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, 0.1 * std::log(4) + 1);
  EXPECT_EQ(config.rope.beta_fast, 32);
  json["rope_scaling"]["mscale"] = 1;
  json["rope_scaling"]["mscale_all_dim"] = 1;
  EXPECT_EQ(Parse(json)->rope.attention_factor, 1);
  json["rope_scaling"]["attention_factor"] = 1.5;
  EXPECT_EQ(Parse(json)->rope.attention_factor, 1.5);
  // Beside the object it wins.
  json["original_max_position_embeddings"] = 128;
  EXPECT_EQ(Parse(json)->rope.original_positions, 128);
  EXPECT_EQ(Parse(json)->rope.factor, 2);

  json = BaseConfig("llama");
  json["rope_parameters"] = {{"rope_theta", 500.0}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(Parse(json)->rope.channels, 4);
}

}  // namespace
}  // namespace lorica
