// Models in GGUF files.
#include <cstring>
#include <functional>

#include "lorica/autograd/autograd.h"
#include "lorica/io/gguf.h"
#include "lorica/nn/model_loader.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::lorica::testing::SameBits;
using ::testing::AllOf;
using ::testing::HasSubstr;

using GgufModelTest = NnTest;

std::vector<uint8_t> Interleaved(const EditableTensor& tensor, int64_t heads) {
  const int64_t rows = tensor.shape[0], head = rows / heads, half = head / 2;
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(rows);
  std::vector<uint8_t> moved(tensor.bytes.size());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t in_head = r % head;
    const int64_t to = r - in_head + 2 * (in_head % half) + in_head / half;
    std::memcpy(moved.data() + static_cast<size_t>(to) * row_bytes,
                tensor.bytes.data() + static_cast<size_t>(r) * row_bytes, row_bytes);
  }
  return moved;
}

GgufMetadata MetadataOf(const ModelConfig& config) {
  GgufMetadata metadata;
  const std::string a = config.family;
  metadata.SetString("general.architecture", a);
  metadata.SetU32(a + ".block_count", static_cast<uint32_t>(config.layers));
  metadata.SetU32(a + ".embedding_length", static_cast<uint32_t>(config.hidden_size));
  metadata.SetU32(a + ".feed_forward_length", static_cast<uint32_t>(config.intermediate_size));
  metadata.SetU32(a + ".attention.head_count", static_cast<uint32_t>(config.heads));
  metadata.SetU32(a + ".attention.head_count_kv", static_cast<uint32_t>(config.kv_heads));
  metadata.SetU32(a + ".attention.key_length", static_cast<uint32_t>(config.head_dim));
  metadata.SetU32(a + ".attention.value_length", static_cast<uint32_t>(config.head_dim));
  metadata.SetU32(a + ".rope.dimension_count", static_cast<uint32_t>(config.head_dim));
  metadata.SetF32(a + ".rope.freq_base", static_cast<float>(config.rope.theta));
  metadata.SetF32(a + ".attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_eps));
  metadata.SetU32(a + ".context_length", 128);
  metadata.SetU32("tokenizer.ggml.eos_token_id", 2);
  return metadata;
}

// The model as a GGUF file, rows of q and k moved as its architecture wants; `extra` adds a tensor.
void WriteGguf(const std::string& path, CausalLm& model, const GgufMetadata& metadata,
               const std::string& extra = "") {
  const ModelConfig& config = model.config();
  std::vector<GgufTensorSpec> specs;
  std::vector<std::vector<uint8_t>> bytes;
  for (const auto& [name, tensor] : TensorsOf(model)) {
    const GgufPlace place = PlaceInGguf(name, config);
    ASSERT_NE(place.name, "") << name;
    specs.push_back({place.name, tensor.type, tensor.shape});
    bytes.push_back(place.interleaved_heads > 0 ? Interleaved(tensor, place.interleaved_heads)
                                                : tensor.bytes);
  }
  if (!extra.empty()) {
    specs.push_back({extra, StoredType::kF32, {2}});
    bytes.push_back(std::vector<uint8_t>(8, 0));
  }
  auto file = PosixFiles().Open(path, OpenMode::kReplace);
  ASSERT_OK(file);
  auto writer = GgufWriter::Begin(**file, metadata, specs);
  ASSERT_OK(writer);
  for (const auto& one : bytes) ASSERT_OK(writer->AppendTensor(one));
  ASSERT_OK(writer->Finish());
  ASSERT_OK((*file)->Close());
}

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
  EXPECT_EQ(PlaceInGguf("model.layers.0.mlp.router.weight", config).name, "");
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
      {[](GgufMetadata& m) { m.SetString("llama.rope.scaling.type", "yarn"); },
       "llama.rope.scaling.type: string \"yarn\" changes the maths"},
      {[](GgufMetadata& m) { m.SetF32("llama.rope.scaling.factor", 4); }, "rope.scaling.factor"},
      {[](GgufMetadata& m) { m.SetF32("llama.rope.scale_linear", 4); }, "rope.scale_linear"},
      {[](GgufMetadata& m) { m.SetU32("llama.expert_count", 8); }, "expert_count: u32 8"},
      {[](GgufMetadata& m) { m.SetU32("llama.attention.sliding_window", 8); }, "sliding_window"},
      {[](GgufMetadata& m) { m.SetF32("llama.logit_scale", 2); }, "logit_scale"},
      {[](GgufMetadata& m) { m.SetF32("llama.attention.clamp_kqv", 2); }, "clamp_kqv"},
      {[](GgufMetadata& m) { m.SetBool("llama.attention.causal", false); }, "attention.causal"},
      {[](GgufMetadata& m) { m.SetString("llama.expert_count", "x"); }, "expert_count"},
      {[](GgufMetadata& m) { m.SetU32("split.count", 3); }, "split.count"},
  };
  TempFolder folder;
  for (const Case& one : cases) {
    GgufMetadata metadata = MetadataOf(model->config());
    one.edit(metadata);
    WriteGguf(folder / "m.gguf", *model, metadata);
    EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
                AllOf(HasSubstr("m.gguf"), HasSubstr(one.message)));
  }
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
  WriteGguf(folder / "m.gguf", *model, MetadataOf(model->config()), "rope_freqs.weight");
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
              AllOf(HasSubstr("rope_freqs.weight"), HasSubstr("rotary frequencies")));
  WriteGguf(folder / "m.gguf", *model, MetadataOf(model->config()), "blk.0.attn_q_norm.weight");
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_), HasSubstr("no place"));
}

}  // namespace
}  // namespace lorica
