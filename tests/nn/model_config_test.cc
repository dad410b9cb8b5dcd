#include "lorica/nn/model_config.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
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

struct BadField {
  const char* key;
  Json value;  // null with erase = true: the key is taken away
  const char* message;
  const char* family = "llama";
  bool erase = false;
};

const std::vector<BadField>& BadFields() {
  static const std::vector<BadField> fields = {
      {"model_type", "gpt2", "model_type: \"gpt2\" is not supported, only llama, qwen2, "},
      {"model_type", 7, "model_type: expected a string"},
      {"vocab_size", nullptr, "vocab_size: expected an integer", "llama", true},
      {"hidden_size", nullptr, "hidden_size: expected an integer, found null"},
      {"vocab_size", 0, "vocab_size: expected a number from 1"},
      {"vocab_size", 1ll << 40, "vocab_size: expected a number from 1"},
      {"hidden_size", -32, "hidden_size: expected a number from 1"},
      {"hidden_size", 1ll << 62, "hidden_size: expected a number from 1"},
      {"hidden_size", 30, "num_attention_heads: expected a divisor of hidden_size 30"},
      {"hidden_size", "32", "hidden_size: expected an integer, found a string"},
      {"hidden_size", 32.5, "hidden_size: expected an integer"},
      {"intermediate_size", 0, "intermediate_size"},
      {"num_hidden_layers", 0, "num_hidden_layers: expected a number from 1 to 10000, found 0"},
      {"num_hidden_layers", 10001, "num_hidden_layers"},
      {"num_attention_heads", 0, "num_attention_heads: expected a positive number, found 0"},
      {"num_attention_heads", -4, "num_attention_heads"},
      {"num_key_value_heads", 3, "expected a multiple of num_key_value_heads 3, found 4"},
      {"num_key_value_heads", 0, "num_key_value_heads"},
      {"num_key_value_heads", nullptr, "num_key_value_heads: expected an integer", "qwen2", true},
      {"head_dim", 7, "head_dim: expected an even number"},
      {"head_dim", 1 << 19, "head_dim: expected 4 heads"},
      {"rms_norm_eps", 0, "rms_norm_eps: expected a number between 0 and 1, found 0"},
      {"rms_norm_eps", "small", "rms_norm_eps: expected a number"},
      {"rope_theta", 0, "rope_theta: expected a positive number, found 0"},
      {"rope_theta", -1, "rope_theta"},
      {"max_position_embeddings", -1, "max_position_embeddings"},
      {"initializer_range", -0.1, "initializer_range"},
      {"hidden_act", "relu2",
       "hidden_act: expected \"silu\", \"gelu\" or \"gelu_pytorch_tanh\", found \"relu2\""},
      {"hidden_activation", "gelu_pytorch_tanh",
       "hidden_activation: expected what hidden_act says"},
      {"rope_scaling", {{"type", "linear"}}, "rope_scaling.factor: expected a number"},
      {"rope_scaling", {{"type", "linear"}, {"factor", -2.0}}, "rope_scaling.factor"},
      {"rope_scaling", {{"rope_type", "mrope"}}, "rope_scaling.rope_type: expected one of"},
      {"rope_scaling",
       {{"rope_type", "linear"}, {"factor", 2}, {"beta_fast", 32}},
       "rope_scaling.beta_fast: expected no such field beside the type \"linear\""},
      {"rope_scaling",
       {{"rope_type", "llama3"}, {"factor", 8.0}, {"original_max_position_embeddings", 64}},
       "rope_scaling.low_freq_factor"},
      {"rope_scaling",
       {{"rope_type", "llama3"},
        {"factor", 8.0},
        {"low_freq_factor", 4},
        {"high_freq_factor", 4},
        {"original_max_position_embeddings", 64}},
       "rope_scaling.high_freq_factor: expected a number above low_freq_factor 4"},
      {"rope_scaling",
       {{"rope_type", "dynamic"}, {"factor", 8.0}},
       "rope_scaling.original_max_position_embeddings: expected a positive number here or in "
       "max_position_embeddings"},
      {"rope_scaling",
       {{"rope_type", "longrope"},
        {"factor", 8.0},
        {"short_factor", {1, 1, 1, 1}},
        {"long_factor", {1, 1, 1}},
        {"original_max_position_embeddings", 64}},
       "rope_scaling.long_factor: expected 4 numbers, found 3"},
      {"rope_scaling",
       {{"rope_type", "longrope"},
        {"factor", 8.0},
        {"short_factor", {1, 1, 1, 0}},
        {"long_factor", {1, 1, 1, 1}},
        {"original_max_position_embeddings", 64}},
       "rope_scaling.short_factor: expected 4 positive numbers"},
      {"rope_scaling", "linear", "rope_scaling: expected an object"},
      {"rope_parameters",
       {{"rope_type", "yarn"}, {"rope_theta", 1e4}},
       "rope_parameters.original_max_position_embeddings"},
      {"rope_parameters", {{"rope_type", "default"}, {"factor", 4}}, "rope_parameters.factor"},
      {"rope_parameters",
       {{"full_attention", {{"rope_theta", 1e4}}}},
       "rope_parameters.full_attention"},
      {"rope_parameters",
       {{"rope_type", "default"}, {"partial_rotary_factor", 1.5}},
       "rope_parameters.partial_rotary_factor: expected a number above 0 and at most 1"},
      {"partial_rotary_factor", 0.4, "partial_rotary_factor: expected an even number of rotated"},
      {"sliding_window", 4096, "sliding_window: 4096 changes the maths"},
      {"sliding_window", 0, "sliding_window: expected a positive number or null", "mistral"},
      {"sliding_window", 1ll << 40, "sliding_window: expected a number from 1 to", "mistral"},
      {"layer_types",
       {"sliding_attention", "full_attention"},
       "layer_types: layer 1 is \"full_attention\", but sliding_window is 4096",
       "mistral"},
      {"layer_types",
       {"full_attention", "sliding_attention"},
       "layer_types: layer 1 is \"sliding_attention\", but no sliding_window is in use",
       "qwen2"},
      {"layer_types", {"full_attention"}, "layer_types: expected a word for each of 2", "qwen3"},
      {"layer_types",
       {"full_attention", "chunked_attention"},
       "layer_types: layer 1 is \"chunked_attention\"",
       "qwen3"},
      {"no_rope_layers", {1}, "no_rope_layers: expected a number for each of 2", "smollm3"},
      {"no_rope_layers", {1, 2}, "no_rope_layers: layer 1: expected 1", "smollm3"},
      {"no_rope_layer_interval", 0, "no_rope_layer_interval: expected a positive", "smollm3"},
      {"residual_multiplier", 0, "residual_multiplier: expected a positive number", "granite"},
      {"query_pre_attn_scalar", -1, "query_pre_attn_scalar: expected a positive", "gemma2"},
      {"attn_logit_softcapping", -1, "attn_logit_softcapping: expected a positive", "gemma2"},
      {"use_bidirectional_attention", true, "use_bidirectional_attention", "gemma2"},
      {"sliding_window_pattern", 0, "sliding_window_pattern: expected a pos", "gemma3_text"},
      {"rope_parameters",
       {{"rope_type", "default"}, {"rope_theta", 1e4}},
       "rope_parameters: expected full_attention and sliding_attention in it",
       "gemma3_text"},
      {"layer_types",
       {"full_attention", "sliding_attention"},
       "layer_types: layer 1 is \"sliding_attention\""},
      {"layer_types", "full", "layer_types: expected an array of strings"},
      {"no_rope_layers", {1, 0}, "no_rope_layers: layer 1 has no rotary"},
      {"quantization_config",
       {{"quant_method", "gptq"}},
       "quantization_config.quant_method: weights quantised by \"gptq\" are not supported"},
      {"quantization_config",
       {{"quant_method", "fp8"}},
       "quantization_config.weight_block_size: fp8 weights without scales of blocks"},
      {"quantization_config",
       {{"quant_method", "fp8"}, {"weight_block_size", {128, 0}}},
       "quantization_config.weight_block_size: expected two positive numbers"},
      {"quantization_config",
       {{"quant_method", "fp8"},
        {"weight_block_size", {128, 128}},
        {"activation_scheme", "static"}},
       "quantization_config.activation_scheme: \"static\" is not supported"},
      {"quantization_config", {{"load_in_4bit", true}}, "quantization_config.quant_method"},
      {"pretraining_tp", 2, "pretraining_tp: 2 changes the maths"},
      {"attn_logit_softcapping", 50.0, "attn_logit_softcapping"},
      {"final_logit_softcapping", 30.0, "final_logit_softcapping"},
      {"query_pre_attn_scalar", 256, "query_pre_attn_scalar"},
      {"embedding_multiplier", 12, "embedding_multiplier: 12 changes the maths"},
      {"logits_scaling", 8, "logits_scaling"},
      {"residual_multiplier", 0.22, "residual_multiplier"},
      {"attention_multiplier", 0.0156, "attention_multiplier"},
      {"use_qk_norm", true, "use_qk_norm"},
      {"qk_norm", true, "qk_norm"},
      {"clip_qkv", 8.0, "clip_qkv"},
      {"num_experts", 8, "num_experts: 8 changes the maths"},
      {"num_local_experts", 8, "num_local_experts"},
      {"rope_interleaved", true, "rope_interleaved"},
      {"use_mrope", true, "use_mrope", "qwen2"},
      {"is_encoder_decoder", true, "is_encoder_decoder"},
      {"resid_pdrop", 0.1, "resid_pdrop"},
      {"tie_word_embeddings", "yes", "tie_word_embeddings: expected true or false"},
      {"attention_bias", 1, "attention_bias: expected true or false"},
      {"eos_token_id", {1, "x"}, "eos_token_id"},
      {"torch_dtype", 32, "torch_dtype: expected a string"},
  };
  return fields;
}

TEST(ModelConfigTest, WhatChangesTheMathsIsNeverIgnored) {
  for (const BadField& field : BadFields()) {
    Json json = BaseConfig(field.family);
    json[field.key] = field.value;
    if (field.erase) json.erase(field.key);
    const auto config = Parse(json);
    ASSERT_FALSE(config.ok()) << field.key << " = " << field.value;
    EXPECT_THAT(std::string(config.status().message()),
                AllOf(HasSubstr("config.json: "), HasSubstr(field.message)))
        << field.key << " = " << field.value;
  }
}

TEST(ModelConfigTest, BothBasesOfRotationMustAgree) {
  Json json = BaseConfig("llama");
  json["rope_theta"] = 10000.0;
  json["rope_parameters"] = {{"rope_theta", 20000.0}};
  EXPECT_THAT(std::string(Parse(json).status().message()), HasSubstr("rope_theta: expected one"));
  json["rope_parameters"] = {{"rope_theta", 10000}};
  EXPECT_TRUE(Parse(json).ok());
}

TEST(ModelConfigTest, BrokenDocumentsAreErrors) {
  for (const char* text : {"", "[]", "{", "{\"model_type\": \"llama\"}", "null",
                           "{\"model_type\": \"llama\", \"vocab_size\": 1e999}"}) {
    EXPECT_FALSE(ParseModelConfig(text, "config.json").ok()) << text;
  }
  EXPECT_FALSE(ReadModelConfig("/nonexistent/model").ok());
}

TEST(ModelConfigTest, ReadsBothSpellings) {
  Json old = BaseConfig("llama");
  old["rope_theta"] = 500000.0;
  old["rope_scaling"] = nullptr;
  old["torch_dtype"] = "bfloat16";
  Json fresh = BaseConfig("llama");
  fresh["rope_parameters"] = {{"rope_theta", 500000.0}, {"rope_type", "default"}};
  fresh["dtype"] = "bfloat16";
  for (const Json& json : {old, fresh}) {
    const auto config = Parse(json);
    ASSERT_OK(config);
    EXPECT_EQ(config->rope.theta, 500000.0);
    EXPECT_EQ(config->stored_dtype, "bfloat16");
    EXPECT_THAT(config->notes, IsEmpty());
  }
}

TEST(ModelConfigTest, ExplicitHeadDimWins) {
  Json json = BaseConfig("llama");
  EXPECT_EQ(Parse(json)->head_dim, 8);
  json["head_dim"] = nullptr;
  EXPECT_EQ(Parse(json)->head_dim, 8);
  json["head_dim"] = 12;
  EXPECT_EQ(Parse(json)->head_dim, 12);
  EXPECT_EQ(Parse(json)->rope.channels, 12);
}

TEST(ModelConfigTest, BiasesFollowTheFamily) {
  Json json = BaseConfig("llama");
  EXPECT_FALSE(Parse(json)->qkv_bias);
  json["attention_bias"] = true;
  json["mlp_bias"] = true;
  const ModelConfig llama = *Parse(json);
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
  const ModelConfig qwen = *Parse(BaseConfig("qwen2"));
  EXPECT_TRUE(qwen.qkv_bias);
  EXPECT_FALSE(qwen.o_bias || qwen.mlp_bias);
}

TEST(ModelConfigTest, DefaultsAreThoseOfTransformers) {
  Json json = BaseConfig("llama");
  for (const char* key : {"num_key_value_heads", "hidden_act", "rms_norm_eps"}) json.erase(key);
  const auto config = Parse(json);
  ASSERT_OK(config);
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->rms_norm_eps, 1e-6);
  EXPECT_EQ(config->rope.theta, 10000);
  EXPECT_FALSE(config->tied);
}

TEST(ModelConfigTest, NeutralValuesPass) {
  Json json = BaseConfig("llama");
  json["pretraining_tp"] = 1;
  json["logits_scaling"] = 1.0;
  json["sliding_window"] = nullptr;
  json["layer_types"] = {"full_attention", "full_attention"};
  json["no_rope_layers"] = {1, 1};
  json["rope_interleaved"] = false;
  json["rope_scaling"] = {{"type", "default"}, {"factor", 1.0}};
  json["quantization_config"] = nullptr;
  json["transformers.js_config"] = {{"kv_cache_dtype", "float16"}};
  json["use_cache"] = true;
  const auto config = Parse(json);
  ASSERT_OK(config);
  EXPECT_THAT(config->notes, IsEmpty());
}

TEST(ModelConfigTest, IdleWindowOfQwen2Passes) {
  Json json = BaseConfig("qwen2");
  json["use_sliding_window"] = false;
  json["sliding_window"] = 32768;
  json["max_window_layers"] = 1;
  EXPECT_TRUE(Parse(json).ok());
  json["use_sliding_window"] = true;
  json["max_window_layers"] = 2;  // from layer 2 of two on
  EXPECT_TRUE(Parse(json).ok());
  EXPECT_THAT(Parse(json)->layer_configs, IsEmpty());
  json["max_window_layers"] = 1;
  json["sliding_window"] = nullptr;
  EXPECT_TRUE(Parse(json).ok());
  EXPECT_THAT(Parse(json)->layer_configs, IsEmpty());
}

TEST(ModelConfigTest, UnknownFieldsAndIdleDropoutAreNoted) {
  Json json = BaseConfig("llama");
  json["my_field"] = 3;
  json["attention_dropout"] = 0.1;
  json["architectures"] = {"LlamaForSequenceClassification"};
  const auto config = Parse(json);
  ASSERT_OK(config);
  EXPECT_THAT(config->notes, Contains(HasSubstr("unknown field \"my_field\" (3) has no effect")));
  EXPECT_THAT(config->notes, Contains(HasSubstr("attention_dropout 0.1 is not applied")));
  EXPECT_THAT(config->notes, Contains(HasSubstr("LlamaForSequenceClassification")));
  for (int i = 0; i < 1000; ++i) json["field" + std::to_string(i)] = i;
  EXPECT_LE(Parse(json)->notes.size(), 20u);
}

TEST(ModelConfigTest, EndTokensMayBeOneOrMany) {
  Json json = BaseConfig("llama");
  json["eos_token_id"] = 2;
  EXPECT_THAT(Parse(json)->eos_token_ids, ElementsAre(2));
  json["eos_token_id"] = {2, 5};
  EXPECT_THAT(Parse(json)->eos_token_ids, ElementsAre(2, 5));
  json["eos_token_id"] = nullptr;
  EXPECT_THAT(Parse(json)->eos_token_ids, IsEmpty());
}

TEST(ModelConfigTest, WrittenConfigurationReadsBack) {
  for (const char* family : {"llama", "qwen2"}) {
    ModelConfig config = TinyConfig(true);
    config.family = family;
    if (config.family == "qwen2") config.o_bias = config.mlp_bias = false;
    config.rms_norm_eps = 9.9999997473787516e-06;
    config.rope.theta = 123456.789;
    config.eos_token_ids = {1, 2};
    const auto text = ConfigJson(config, DType::kBF16);
    ASSERT_OK(text);
    const auto back = ParseModelConfig(*text, "config.json");
    ASSERT_OK(back);
    EXPECT_EQ(back->rms_norm_eps, config.rms_norm_eps);
    EXPECT_EQ(back->rope, config.rope);
    EXPECT_EQ(back->stored_dtype, "bfloat16");
    EXPECT_EQ(back->eos_token_ids, config.eos_token_ids);
    EXPECT_EQ(back->o_bias, config.o_bias);
    EXPECT_EQ(CountParameters(*back), CountParameters(config));
    EXPECT_THAT(back->notes, IsEmpty());
  }
  ModelConfig odd = TinyConfig();
  odd.o_bias = false;
  EXPECT_FALSE(ConfigJson(odd, DType::kF32).ok());
  odd = TinyConfig();
  odd.qk_norm = QkNorm::kHead;
  EXPECT_THAT(std::string(ConfigJson(odd, DType::kF32).status().message()),
              HasSubstr("config.json of a llama model can't say what this configuration says"));
}

TEST(ModelConfigTest, LargestAcceptedConfigurationDoesNotOverflow) {
  Json json = BaseConfig("llama");
  json["vocab_size"] = 1 << 24;
  json["hidden_size"] = 1 << 20;
  json["intermediate_size"] = 1 << 20;
  json["num_hidden_layers"] = 10000;
  json["num_attention_heads"] = 1 << 10;
  json["num_key_value_heads"] = 1 << 10;
  json["head_dim"] = 1 << 10;
  const auto config = Parse(json);
  ASSERT_OK(config);
  EXPECT_GT(CountParameters(*config), int64_t{1} << 52);
}

// The published number of parameters, from the configuration alone.
TEST(ModelConfigTest, PublishedMixturesHaveTheirSizes) {
  const std::string folder = SharedPath("data/configs");
  if (folder.empty()) GTEST_SKIP() << "no shared folder";
  const auto counts = ReadJsonFile(JoinPath(folder, "counts.json"));
  ASSERT_OK(counts);
  for (const char* name :
       {"deepseek-v3", "glm-4.7-flash", "gpt-oss-120b", "mixtral-8x7b", "qwen3-30b-a3b",
        "olmoe-1b-7b-shape", "qwen3.6-35b-a3b-text", "glm-5.2"}) {
    const auto config = ReadModelConfigFile(JoinPath(folder, std::string(name) + ".json"));
    ASSERT_OK(config);
    EXPECT_EQ(CountParameters(*config), counts->at(name).at("total_parameters").get<int64_t>())
        << name;
  }
}

TEST(ModelConfigTest, OtherFamiliesAreRefusedByName) {
  for (const char* name : {"kimi_linear", "deepseek_v4"}) {
    const auto config = ParseModelConfig(absl::StrCat("{\"model_type\": \"", name, "\"}"), "c");
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(name));
  }
}

}  // namespace
}  // namespace lorica
