// What configurations of single families say.
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/model_config.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

// What a file doesn't say of partial rotation is the family's, and written out again.
TEST(FamilyConfigTest, PartialRotationHasAStandardOfItsFamily) {
  for (const auto& [family, standard] : {std::pair("glm4_moe", 0.5), {"qwen3_5_moe", 0.25}}) {
    auto json = ReadJsonFile(GoldenPath(absl::StrCat("models/", family, "/model/config.json")));
    ASSERT_OK(json);
    const auto read = [&](const Json& config) {
      const auto parsed = Parse(config);
      if (!parsed.ok()) throw Error(std::string(parsed.status().message()));
      const auto back = Parse(*ParseJson(*ConfigJson(*parsed, DType::kF32), "back"));
      if (!back.ok()) throw Error(std::string(back.status().message()));
      EXPECT_EQ(back->rope.channels, parsed->rope.channels);
      return static_cast<double>(parsed->rope.channels) / static_cast<double>(parsed->head_dim);
    };
    (*json)["rope_parameters"]["partial_rotary_factor"] = 1;
    EXPECT_EQ(read(*json), 1);
    (*json)["rope_parameters"].erase("partial_rotary_factor");
    EXPECT_EQ(read(*json), standard);
  }
}

TEST(FamilyConfigTest, LatentAttentionRotatesItsChannelsAsAWhole) {
  auto json = ReadJsonFile(GoldenPath("models/deepseek_v3/model/config.json"));
  ASSERT_OK(json);
  (*json)["partial_rotary_factor"] = 0.5;
  EXPECT_THAT(std::string(Parse(*json).status().message()),
              ::testing::HasSubstr("partial_rotary_factor: expected 1"));
}

// Layers without an indexer of their own, "" where all have one.
std::string SharingLayers(const Json& json) {
  const auto config = Parse(json);
  if (!config.ok()) return std::string(config.status().message());
  std::string layers;
  for (int i = 0; i < static_cast<int>(config->layers); ++i) {
    if (config->Layer(i).shares_choice) absl::StrAppend(&layers, i, " ");
  }
  return layers;
}

Json SparseConfig(const std::string& family, int64_t layers) {
  Json json = *ReadJsonFile(GoldenPath(absl::StrCat("models/", family, "/model/config.json")));
  json["num_hidden_layers"] = layers;
  for (const char* key : {"indexer_types", "layer_types", "mlp_layer_types"}) json.erase(key);
  return json;
}

TEST(FamilyConfigTest, EverySpellingOfSharedIndexersIsRead) {
  Json json = SparseConfig("glm_moe_dsa", 8);
  EXPECT_EQ(SharingLayers(json), "");
  json["index_topk_freq"] = 4;  // one of four from the layer before the second on
  EXPECT_EQ(SharingLayers(json), "2 3 4 6 7 ");
  json["index_skip_topk_offset"] = 3;
  EXPECT_EQ(SharingLayers(json), "3 4 5 7 ");
  json["index_topk_pattern"] = "FFFSSSFS";
  EXPECT_EQ(SharingLayers(json), "3 4 5 7 ");
  json["index_topk_pattern"] = {"full",   "full",   "full", "shared",
                                "shared", "shared", "full", "shared"};
  EXPECT_EQ(SharingLayers(json), "3 4 5 7 ");
  json["indexer_types"] = json["index_topk_pattern"];
  json["indexer_types"].push_back("full");  // of the predictor behind the last layer
  EXPECT_EQ(SharingLayers(json), "3 4 5 7 ");
  json["indexer_types"][4] = "full";
  EXPECT_THAT(SharingLayers(json), HasSubstr("index_topk_pattern: expected what indexer_types"));
}

TEST(FamilyConfigTest, NamesThatTransformersDoesNotReadMustAgree) {
  Json json = *ReadJsonFile(GoldenPath("models/gpt_oss/model/config.json"));
  json["experts_per_token"] = json["num_experts_per_tok"];
  EXPECT_TRUE(Parse(json).ok()) << Parse(json).status();
  json["experts_per_token"] = 1000;
  EXPECT_THAT(std::string(Parse(json).status().message()),
              HasSubstr("experts_per_token: expected num_experts_per_tok"));
  json = *ReadJsonFile(GoldenPath("models/qwen3_5_moe/model/config.json"));
  json["attn_output_gate"] = true;
  EXPECT_TRUE(Parse(json).ok()) << Parse(json).status();
  json["attn_output_gate"] = false;
  EXPECT_THAT(std::string(Parse(json).status().message()),
              HasSubstr("attn_output_gate: expected true, found false"));
}

TEST(FamilyConfigTest, WhatAnIndexerCantBeIsRefusedByName) {
  const struct {
    const char* family;
    const char* key;
    Json value;
    const char* message;
  } rows[] = {
      {"glm_moe_dsa", "index_topk", 0, "index_topk: expected a positive number"},
      {"glm_moe_dsa", "index_topk", -3, "index_topk: expected a positive number"},
      {"glm_moe_dsa", "index_n_heads", 0, "index_n_heads: expected a number from 1"},
      {"glm_moe_dsa", "index_head_dim", 3, "index_head_dim: expected at least qk_rope_head_dim 4"},
      {"glm_moe_dsa", "q_lora_rank", nullptr, "q_lora_rank: expected a positive number"},
      {"glm_moe_dsa", "rope_interleave", false, "rope_interleave: expected true"},
      {"glm_moe_dsa", "indexer_rope_interleave", false, "indexer_rope_interleave: expected true"},
      {"deepseek_v32", "indexer_rope_interleave", true, "indexer_rope_interleave: expected false"},
      {"deepseek_v32", "indexer_types", {"full"}, "indexer_types: expected none"},
      {"glm_moe_dsa", "indexer_types", {"full"}, "expected a word for each of 3 layers, found 1"},
      {"glm_moe_dsa", "indexer_types", {"shared", "full", "full"}, "layer 0 shares the keys"},
      {"glm_moe_dsa", "indexer_types", {"full", "none", "full"}, "layer 1 is \"none\""},
      {"glm_moe_dsa", "index_topk_pattern", "FXF", "layer 1 is"},
      {"glm_moe_dsa", "indexer_types", {"full", "full", "full", "none"}, "layer 3 is \"none\""},
      {"glm_moe_dsa",
       "layer_types",
       {"indexed_attention", "full_attention", "indexed_attention"},
       "only \"indexed_attention\""},
      {"deepseek_v32",
       "layer_types",
       {"indexed_attention"},
       "a word for each of 3 layers, found 1"},
      {"deepseek_v3", "index_topk", 2048, "index_topk: 2048 changes the maths"},
  };
  for (const auto& row : rows) {
    Json json = SparseConfig(row.family, 3);
    json[row.key] = row.value;
    EXPECT_THAT(std::string(Parse(json).status().message()), HasSubstr(row.message)) << row.key;
  }
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

// Published sizes, from what the published files say.
TEST(FamilyConfigTest, PublishedModelsAreReadInFull) {
  struct Published {
    const char* name;
    const char* config;
    int64_t parameters;
  };
  const Published published[] = {
      {"Llama-3.2-1B",
       R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": false,
           "attention_dropout": 0.0, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
           "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
           "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 16,
           "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
           "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                            "original_max_position_embeddings": 8192, "rope_type": "llama3"},
           "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
           "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})",
       1'235'814'400},
      {"Mistral-7B-v0.1",
       R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "hidden_act": "silu",
           "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
           "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
           "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
           "tie_word_embeddings": false, "vocab_size": 32000})",
       7'241'732'096},
      {"Qwen3-0.6B",
       R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
           "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072,
           "max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16,
           "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
           "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
           "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})",
       596'049'920},
      {"SmolLM3-3B",
       R"({"model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"],
           "attention_bias": false, "hidden_act": "silu", "hidden_size": 2048,
           "intermediate_size": 11008, "max_position_embeddings": 65536, "max_window_layers": 28,
           "mlp_bias": false, "no_rope_layer_interval": 4, "num_attention_heads": 16,
           "num_hidden_layers": 36, "num_key_value_heads": 4, "pretraining_tp": 2,
           "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5000000.0,
           "sliding_window": null, "use_sliding_window": false, "vocab_size": 128256})",
       3'075'098'624},
      {"gemma-2-2b",
       R"({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
           "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid",
           "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
           "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
           "intermediate_size": 9216, "max_position_embeddings": 8192, "num_attention_heads": 8,
           "num_hidden_layers": 26, "num_key_value_heads": 4, "query_pre_attn_scalar": 256,
           "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
           "vocab_size": 256000})",
       2'614'341'888},
      {"gemma-3-1b",
       R"({"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"],
           "attention_bias": false, "attn_logit_softcapping": null,
           "cache_implementation": "hybrid", "final_logit_softcapping": null, "head_dim": 256,
           "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
           "intermediate_size": 6912, "max_position_embeddings": 32768, "num_attention_heads": 4,
           "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256,
           "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null,
           "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
           "vocab_size": 262144})",
       999'885'952},
      {"Phi-3-mini-4k",
       R"({"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "attention_bias": false,
           "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "embd_pdrop": 0.0,
           "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
           "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
           "num_key_value_heads": 32, "original_max_position_embeddings": 4096,
           "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
           "sliding_window": 2047, "tie_word_embeddings": false, "vocab_size": 32064})",
       3'821'079'552},
  };
  for (const Published& model : published) {
    const auto config = ParseModelConfig(model.config, model.name);
    ASSERT_OK(config);
    EXPECT_THAT(config->notes, IsEmpty()) << model.name;
    EXPECT_EQ(CountParameters(*config), model.parameters) << model.name;
  }
}

}  // namespace
}  // namespace lorica
