// Models in GGUF files.
#include <functional>

#include "lorica/autograd/autograd.h"
#include "lorica/io/gguf.h"
#include "lorica/nn/model_loader.h"
#include "nn/gguf_fixture.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::lorica::testing::SameBits;
using ::testing::AllOf;
using ::testing::HasSubstr;

using GgufModelTest = NnTest;

TEST_F(GgufModelTest, GgufHoldsTheSameModel) {
  NoGrad no_grad;
  for (const char* name : {"llama_gqa", "llama_mqa_bias_tied", "qwen2_patterns"}) {
    const auto loaded =
        LoadModel(GoldenPath(std::string("models/") + name + "/model"), backend_, DType::kF32);
    ASSERT_OK(loaded);
    CausalLm& model = *loaded->model;
    TempFolder folder;
    WriteGguf(folder / "m.gguf", model, MetadataOf(model.config()));
    const auto again = LoadModel(folder / "m.gguf", backend_, DType::kF32);
    ASSERT_OK(again);
    EXPECT_EQ(again->model->config().tied, model.config().tied);
    EXPECT_EQ(again->model->config().eos_token_ids, std::vector<int64_t>{2});
    const std::vector<int32_t> ids = RandomIds(9, 90, 1);
    const ForwardContext context = ContextOf({9});
    EXPECT_TRUE(Near(again->model->Logits(again->model->Hidden(ids, context), context),
                     model.Logits(model.Hidden(ids, context), context), 1e-6))
        << name;
    ForEachParameter(*again->model, [&](const std::string& path, Parameter& parameter) {
      ForEachParameter(model, [&](const std::string& other, Parameter& want) {
        if (other != path) return;
        EXPECT_TRUE(SameBits(parameter.value(), want.value())) << path;
      });
    });
    EXPECT_NE(again->fingerprint, loaded->fingerprint);
  }
}

TEST_F(GgufModelTest, NormsHaveTheNamesOfTheirPlaces) {
  ModelConfig config = TinyConfig();
  const auto name = [&](const std::string& module) {
    return PlaceInGguf("model.layers.3." + module + ".weight", config).name;
  };
  EXPECT_EQ(name("post_attention_layernorm"), "blk.3.ffn_norm.weight");
  EXPECT_EQ(name("self_attn.q_norm"), "blk.3.attn_q_norm.weight");
  config.norms = NormPlacement::kAfter;
  EXPECT_EQ(name("post_attention_layernorm"), "blk.3.post_attention_norm.weight");
  EXPECT_EQ(name("post_feedforward_layernorm"), "blk.3.post_ffw_norm.weight");
  config.norms = NormPlacement::kBoth;
  EXPECT_EQ(name("input_layernorm"), "blk.3.attn_norm.weight");
  EXPECT_EQ(name("post_attention_layernorm"), "blk.3.post_attention_norm.weight");
  EXPECT_EQ(name("pre_feedforward_layernorm"), "blk.3.ffn_norm.weight");
  EXPECT_EQ(name("self_attn.qkv_proj"), "blk.3.attn_qkv.weight");
  EXPECT_EQ(name("mlp.gate_up_proj"), "blk.3.ffn_up.weight");
  config.norm_offset = true;
  EXPECT_EQ(PlaceInGguf("model.norm.weight", config).added, 1);
  EXPECT_EQ(PlaceInGguf("model.layers.0.self_attn.k_norm.weight", config).added, 1);
  EXPECT_EQ(PlaceInGguf("model.layers.0.mlp.up_proj.weight", config).added, 0);
}

TEST_F(GgufModelTest, RowsOfQueriesAndKeysMoveInLlamaOnly) {
  ModelConfig config = TinyConfig();
  const auto heads = [&](absl::string_view path) {
    return PlaceInGguf(path, config).interleaved_heads;
  };
  EXPECT_EQ(heads("model.layers.1.self_attn.q_proj.weight"), 6);
  EXPECT_EQ(heads("model.layers.1.self_attn.k_proj.bias"), 2);
  EXPECT_EQ(heads("model.layers.1.self_attn.v_proj.weight"), 0);
  EXPECT_EQ(PlaceInGguf("model.layers.12.mlp.down_proj.weight", config).name,
            "blk.12.ffn_down.weight");
  EXPECT_EQ(PlaceInGguf("model.norm.weight", config).name, "output_norm.weight");
  EXPECT_EQ(PlaceInGguf("model.layers.0.mlp.other.weight", config).name, "");
  EXPECT_EQ(PlaceInGguf("weight", config).name, "");
  config.family = "qwen2";
  EXPECT_EQ(heads("model.layers.1.self_attn.q_proj.weight"), 0);
}

TEST_F(GgufModelTest, GgufMetadataThatChangesTheMathsIsAnError) {
  auto model = TinyModel(backend_, DType::kF32);
  struct Case {
    std::function<void(GgufMetadata&)> edit;
    const char* message;
  };
  const std::vector<Case> cases = {
      {[](GgufMetadata& m) { m.SetString("llama.rope.scaling.type", "ntk"); },
       "llama.rope.scaling.type: expected \"none\", "},
      {[](GgufMetadata& m) { m.SetF32("llama.rope.scaling.factor", -4); }, "factor"},
      {[](GgufMetadata& m) { m.SetF32("llama.rope.scaling.attn_factor", 2); }, "attn_factor: 2"},
      {[](GgufMetadata& m) { m.SetF32("llama.rope.scaling.yarn_log_multiplier", 2); },
       "yarn_log_multiplier"},
      {[](GgufMetadata& m) { m.SetU32("llama.expert_count", 8); },
       "llama.expert_used_count\": expected an integer"},
      {[](GgufMetadata& m) { m.SetI32("llama.attention.sliding_window", -8); }, "sliding_window"},
      {[](GgufMetadata& m) { m.SetF32("llama.embedding_scale", 12); }, "embedding_scale"},
      {[](GgufMetadata& m) { m.SetF32("llama.logit_scale", 2); }, "logit_scale"},
      {[](GgufMetadata& m) { m.SetF32("llama.attention.clamp_kqv", 2); }, "clamp_kqv"},
      {[](GgufMetadata& m) { m.SetBool("llama.attention.causal", false); }, "attention.causal"},
      {[](GgufMetadata& m) { m.SetString("llama.expert_count", "x"); }, "expert_count"},
      {[](GgufMetadata& m) { m.SetU32("split.count", 3); }, "split.no"},
  };
  TempFolder folder;
  for (const Case& one : cases) {
    GgufMetadata metadata = MetadataOf(model->config());
    one.edit(metadata);
    WriteGguf(folder / "m.gguf", *model, metadata);
    EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
                AllOf(HasSubstr("m.gguf"), HasSubstr(one.message)));
  }
  ModelConfig partial = model->config();
  partial.rope.channels = 4;
  WriteGguf(folder / "m.gguf", *model, MetadataOf(partial));
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
              HasSubstr("llama.rope.dimension_count: expected the key_length 10, found 4"));

  GgufMetadata neutral = MetadataOf(model->config());
  neutral.SetString("llama.rope.scaling.type", "none");
  neutral.SetU32("llama.expert_count", 0);
  neutral.SetBool("llama.attention.causal", true);
  neutral.SetU32("llama.mystery", 1);
  WriteGguf(folder / "m.gguf", *model, neutral);
  const auto loaded = LoadModel(folder / "m.gguf", backend_, DType::kF32);
  ASSERT_OK(loaded);
  EXPECT_THAT(loaded->model->config().notes, ::testing::ElementsAre(HasSubstr("llama.mystery")));
}

TEST_F(GgufModelTest, GgufWithoutAnEssentialKeyIsAnError) {
  auto model = TinyModel(backend_, DType::kF32);
  TempFolder folder;
  for (const char* family : {"llama", "gpt2"}) {
    GgufMetadata metadata;
    metadata.SetString("general.architecture", family);
    WriteGguf(folder / "m.gguf", *model, metadata);
    EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
                HasSubstr(family == std::string("llama") ? "llama.embedding_length"
                                                         : "\"gpt2\" is not supported"));
  }
  WriteGguf(folder / "m.gguf", *model, MetadataOf(model->config()),
            {{"rope_freqs.weight", {1, 2}}});
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
              HasSubstr("rope_freqs.weight: expected F32 [5], found F32 [2]"));
  WriteGguf(folder / "m.gguf", *model, MetadataOf(model->config()),
            {{"rope_factors_long.weight", {1, 2, 3, 4, 5}}});
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
              HasSubstr("expected the tensor \"rope_freqs.weight\" or both of"));
  WriteGguf(folder / "m.gguf", *model, MetadataOf(model->config()),
            {{"blk.0.attn_q_norm.weight", {1, 2}}});
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_), HasSubstr("no place"));
}

}  // namespace
}  // namespace lorica
