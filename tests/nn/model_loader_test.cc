#include "lorica/nn/model_loader.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "lorica/autograd/autograd.h"
#include "lorica/io/gguf.h"
#include "lorica/io/safetensors.h"
#include "lorica/nn/load_values.h"
#include "nn/nn_fixture.h"
#include "support/fault_file_system.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::lorica::testing::SameBits;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The tensors of a file, to be spoiled and written again.
struct EditableTensor {
  StoredType type;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};
using EditableTensors = std::map<std::string, EditableTensor>;

EditableTensors TensorsOf(CausalLm& model) {
  EditableTensors tensors;
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    EditableTensor tensor{StoredTypeOf(parameter.compute_dtype()),
                          {parameter.shape().begin(), parameter.shape().end()},
                          {}};
    const auto* data = static_cast<const uint8_t*>(parameter.value().view().data);
    tensor.bytes.assign(data, data + parameter.value().bytes());
    tensors[path] = std::move(tensor);
  });
  return tensors;
}

void WriteFolder(const std::string& folder, const ModelConfig& config,
                 const EditableTensors& tensors) {
  ASSERT_OK(MakeDirectories(PosixFiles(), folder));
  WriteText(JoinPath(folder, "config.json"), *ConfigJson(config, DType::kF32));
  std::vector<SafetensorsTensor> list;
  for (const auto& [name, t] : tensors) list.push_back({name, t.type, t.shape, t.bytes});
  ASSERT_OK(WriteSafetensors(PosixFiles(), JoinPath(folder, "model.safetensors"), list, {}));
}

std::string LoadError(const std::string& path, Backend& backend, DType compute = DType::kF32) {
  const auto loaded = LoadModel(path, backend, compute);
  return loaded.ok() ? "" : std::string(loaded.status().message());
}

class ModelLoaderTest : public NnTest {
 protected:
  // What loading says after `edit`.
  std::string ErrorAfter(const std::function<void(EditableTensors&)>& edit, bool tied = false) {
    const ModelConfig config = TinyConfig(tied);
    auto model = TinyModel(backend_, DType::kF32, config);
    EditableTensors tensors = TensorsOf(*model);
    edit(tensors);
    TempFolder folder;
    WriteFolder(folder / "m", config, tensors);
    return LoadError(folder / "m", backend_);
  }
};

TEST_F(ModelLoaderTest, SavedModelLoadsBitForBit) {
  for (const DType compute : {DType::kF32, DType::kBF16, DType::kF64}) {
    for (const bool tied : {false, true}) {
      auto model = TinyModel(backend_, compute, TinyConfig(tied));
      TempFolder folder;
      ASSERT_OK(SaveModel(*model, folder / "m"));
      EXPECT_FALSE(SaveModel(*model, folder / "m").ok());  // never over something else
      for (const bool borrow : {false, true}) {
        LoadOptions options;
        options.borrow = borrow;
        const auto loaded = LoadModel(folder / "m", backend_, compute, options);
        ASSERT_OK(loaded);
        ForEachParameter(*loaded->model, [&](const std::string& path, Parameter& parameter) {
          Parameter* want = nullptr;
          ForEachParameter(*model, [&](const std::string& other, Parameter& p) {
            if (other == path) want = &p;
          });
          EXPECT_TRUE(SameBits(parameter.value(), want->value())) << path;
          EXPECT_EQ(parameter.value().storage()->read_only(), borrow) << path;
        });
      }
    }
  }
}

TEST_F(ModelLoaderTest, BorrowedModelOutlivesEverythingElse) {
  auto model = TinyModel(backend_, DType::kF32);
  TempFolder folder;
  ASSERT_OK(SaveModel(*model, folder / "m"));
  auto loaded = LoadModel(folder / "m", backend_, DType::kF32);
  ASSERT_OK(loaded);
  const std::unique_ptr<CausalLm> kept = std::move(loaded->model);
  const ForwardContext context = ContextOf({4});
  EXPECT_TRUE(SameBits(kept->Hidden({1, 2, 3, 4}, context), model->Hidden({1, 2, 3, 4}, context)));
}

TEST_F(ModelLoaderTest, FailedWriteLeavesNothing) {
  auto model = TinyModel(backend_, DType::kF32);
  TempFolder folder;
  EXPECT_FALSE(SaveModel(*model, folder / "absent/m").ok());
  FaultFileSystem counting({});
  ASSERT_OK(SaveModel(*model, folder / "whole", counting));
  ASSERT_GT(counting.operations(), 5);
  // Up to the rename; the two steps after it are the durability of what is complete already.
  for (int at = 0; at + 2 < counting.operations(); ++at) {
    FaultFileSystem failing({.at = at});
    EXPECT_THAT(std::string(SaveModel(*model, folder / "m", failing).message()),
                HasSubstr("No space left"))
        << at;
    EXPECT_EQ(PosixFiles().List(folder / "").value(), std::vector<std::string>{"whole"}) << at;
  }
}

TEST_F(ModelLoaderTest, MissingTensorIsNamed) {
  EXPECT_THAT(ErrorAfter([](EditableTensors& t) {
                t.erase("model.layers.1.mlp.up_proj.weight");
                t.erase("model.layers.2.mlp.up_proj.weight");
              }),
              AllOf(HasSubstr("\"model.layers.1.mlp.up_proj.weight\""), HasSubstr("/m"),
                    HasSubstr("1 more")));
  EXPECT_THAT(ErrorAfter([](EditableTensors& t) { t.erase("lm_head.weight"); }),
              HasSubstr("tie_word_embeddings is false"));
}

TEST_F(ModelLoaderTest, ExtraTensorIsNamed) {
  EXPECT_THAT(
      ErrorAfter([](EditableTensors& t) {
        t["model.layers.1.self_attn.q_norm.weight"] = t["model.norm.weight"];
      }),
      AllOf(HasSubstr("model.safetensors: tensor "),
            HasSubstr("\"model.layers.1.self_attn.q_norm.weight\""), HasSubstr("no place")));
}

TEST_F(ModelLoaderTest, WrongShapeIsShown) {
  EXPECT_THAT(ErrorAfter([](EditableTensors& t) {
                t["model.norm.weight"].shape = {4, 7};
              }),
              AllOf(HasSubstr("\"model.norm.weight\""), HasSubstr("expected shape [28]"),
                    HasSubstr("found [4, 7]")));
  EXPECT_THAT(ErrorAfter([](EditableTensors& t) {
                std::swap(t["model.layers.0.mlp.up_proj.weight"].shape[0],
                          t["model.layers.0.mlp.up_proj.weight"].shape[1]);
              }),
              HasSubstr("expected shape [37, 28] by the configuration, found [28, 37]"));
}

TEST_F(ModelLoaderTest, TypesWithoutConversionAreNamed) {
  EXPECT_THAT(
      ErrorAfter([](EditableTensors& t) { t["model.norm.weight"].type = StoredType::kI32; }),
      AllOf(HasSubstr("\"model.norm.weight\""), HasSubstr("I32")));
}

TEST_F(ModelLoaderTest, NotFiniteWeightsAreNamed) {
  const auto put = [](EditableTensor& tensor, size_t index, float value) {
    std::memcpy(tensor.bytes.data() + 4 * index, &value, 4);
  };
  EXPECT_THAT(ErrorAfter([&](EditableTensors& t) {
                put(t["model.embed_tokens.weight"], 1001, std::numeric_limits<float>::quiet_NaN());
              }),
              AllOf(HasSubstr("\"model.embed_tokens.weight\""), HasSubstr("found NaN"),
                    HasSubstr("element 1001")));
  EXPECT_THAT(ErrorAfter([&](EditableTensors& t) {
                put(t["lm_head.weight"], 0, -std::numeric_limits<float>::infinity());
              }),
              AllOf(HasSubstr("\"lm_head.weight\""), HasSubstr("found infinity at element 0")));
}

TEST_F(ModelLoaderTest, FiniteInTheFileButNotInTheComputeTypeIsAnError) {
  auto model = TinyModel(backend_, DType::kF32);
  EditableTensors tensors = TensorsOf(*model);
  const float huge = std::numeric_limits<float>::max();  // rounds to infinity in bf16
  std::memcpy(tensors["model.norm.weight"].bytes.data() + 8, &huge, 4);
  TempFolder folder;
  WriteFolder(folder / "m", TinyConfig(), tensors);
  EXPECT_EQ(LoadError(folder / "m", backend_), "");
  EXPECT_THAT(LoadError(folder / "m", backend_, DType::kBF16),
              HasSubstr("found infinity at element 2"));
  LoadOptions options;
  options.check_finite = false;
  EXPECT_TRUE(LoadModel(folder / "m", backend_, DType::kBF16, options).ok());
}

TEST_F(ModelLoaderTest, KnownIdleTensorsAreFine) {
  EXPECT_EQ(ErrorAfter([](EditableTensors& t) {
              t["model.layers.0.self_attn.rotary_emb.inv_freq"] = t["model.norm.weight"];
            }),
            "");
  EXPECT_EQ(
      ErrorAfter([](EditableTensors& t) { t["lm_head.weight"] = t["model.embed_tokens.weight"]; },
                 /*tied=*/true),
      "");
  EXPECT_THAT(ErrorAfter(
                  [](EditableTensors& t) {
                    t["lm_head.weight"] = t["model.embed_tokens.weight"];
                    t["lm_head.weight"].bytes[5] ^= 1;
                  },
                  /*tied=*/true),
              AllOf(HasSubstr("\"lm_head.weight\""), HasSubstr("differs from"),
                    HasSubstr("tie_word_embeddings is true")));
}

TEST_F(ModelLoaderTest, BrokenFilesAreErrors) {
  auto model = TinyModel(backend_, DType::kF32);
  TempFolder folder;
  ASSERT_OK(SaveModel(*model, folder / "m"));
  const std::string weights = ReadText(folder / "m/model.safetensors");
  for (size_t size : {size_t{0}, size_t{7}, size_t{100}, weights.size() / 2, weights.size() - 1}) {
    WriteText(folder / "m/model.safetensors", absl::string_view(weights).substr(0, size));
    EXPECT_THAT(LoadError(folder / "m", backend_), HasSubstr("model.safetensors")) << size;
  }
  ASSERT_OK(PosixFiles().RemoveFile(folder / "m/model.safetensors"));
  EXPECT_THAT(LoadError(folder / "m", backend_), HasSubstr("expected model.safetensors"));
  ASSERT_OK(PosixFiles().RemoveFile(folder / "m/config.json"));
  EXPECT_THAT(LoadError(folder / "m", backend_), HasSubstr("config.json"));
  EXPECT_NE(LoadError(folder / "nothing", backend_), "");
}

TEST_F(ModelLoaderTest, FingerprintTellsModelsApart) {
  auto model = TinyModel(backend_, DType::kF32);
  TempFolder folder;
  const auto print = [&](const char* name, const ModelConfig& config,
                         const EditableTensors& tensors) {
    WriteFolder(folder / name, config, tensors);
    const auto files = OpenModel(folder / name);
    EXPECT_TRUE(files.ok());
    return *Fingerprint(*files);
  };
  EditableTensors tensors = TensorsOf(*model);
  const std::string first = print("a", TinyConfig(), tensors);
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(print("b", TinyConfig(), tensors), first);
  ModelConfig other = TinyConfig();
  other.rope.theta = 20000;
  EXPECT_NE(print("c", other, tensors), first);
  other = TinyConfig();
  other.notes.push_back("no effect");
  other.eos_token_ids = {3};
  EXPECT_EQ(print("d", other, tensors), first);
  tensors["model.layers.2.mlp.down_proj.weight"].bytes[400] ^= 1;
  EXPECT_NE(print("e", TinyConfig(), tensors), first);
}

TEST(FindNonFiniteTest, FindsTheFirstOfEveryType) {
  const auto check = [](auto one, auto infinity, DType dtype) {
    std::vector<decltype(one)> values(10000, one);
    EXPECT_EQ(internal::FindNonFinite(values.data(), 10000, dtype), -1);
    for (int64_t at : {9999, 4096, 4095, 0}) {
      values[at] = infinity;
      EXPECT_EQ(internal::FindNonFinite(values.data(), 10000, dtype), at) << dtype;
    }
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  check(1.0, -kInfinity, DType::kF64);
  check(std::numeric_limits<float>::max(), std::nanf(""), DType::kF32);
  check(BF16(-2.0f), BF16(static_cast<float>(kInfinity)), DType::kBF16);
}

// --- GGUF.

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

TEST_F(ModelLoaderTest, GgufHoldsTheSameModel) {
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

TEST_F(ModelLoaderTest, RowsOfQueriesAndKeysMoveInLlamaOnly) {
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

TEST_F(ModelLoaderTest, GgufMetadataThatChangesTheMathsIsAnError) {
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

TEST_F(ModelLoaderTest, GgufWithoutAnEssentialKeyIsAnError) {
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
