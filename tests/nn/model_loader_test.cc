#include "lorica/nn/model_loader.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "lorica/nn/load_values.h"
#include "nn/nn_fixture.h"
#include "support/fault_file_system.h"

namespace lorica {
namespace {

using ::lorica::testing::SameBits;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST_F(ModelLoaderTest, OneTensorUnderOldAndNewNamesIsRefused) {
  const auto model = LoadModel(GoldenPath("models/mixtral/model"), backend_, DType::kF32);
  ASSERT_OK(model);
  EditableTensors tensors = TensorsOf(*model->model);
  TempFolder folder;
  WriteFolder(folder / "once", model->model->config(), tensors);
  EXPECT_EQ(LoadError(folder / "once", backend_), "");
  tensors["model.layers.1.block_sparse_moe.gate.weight"] =
      tensors.at("model.layers.1.mlp.gate.weight");
  WriteFolder(folder / "twice", model->model->config(), tensors);
  EXPECT_THAT(LoadError(folder / "twice", backend_),
              AllOf(HasSubstr("model.layers.1.mlp.gate.weight"),
                    HasSubstr("expected one name of the tensor, found "
                              "\"model.layers.1.block_sparse_moe.gate.weight\" too")));
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

// A layer that predicts a later token, behind the last one. GLM-5 has one whether its
// configuration says so or not.
TEST_F(ModelLoaderTest, PredictorsBehindTheLastLayerAreSkippedByName) {
  const std::string golden = GoldenPath("models/glm_moe_dsa/model");
  const auto loaded = LoadModel(golden, backend_, DType::kF32);
  ASSERT_OK(loaded);
  const auto error_with = [&](const std::string& name) {
    EditableTensors tensors = TensorsOf(*loaded->model);
    tensors[name] = tensors["model.norm.weight"];
    TempFolder folder;
    WriteFolder(folder / "m", loaded->model->config(), tensors);
    WriteText(folder / "m/config.json", ReadText(JoinPath(golden, "config.json")));
    return LoadError(folder / "m", backend_);
  };
  EXPECT_EQ(error_with("model.layers.3.eh_proj.weight"), "");
  EXPECT_EQ(error_with("model.layers.3.self_attn.indexer.k_norm.weight"), "");
  EXPECT_THAT(error_with("model.layers.4.enorm.weight"), HasSubstr("no place for it"));
  EXPECT_THAT(error_with("model.layers.2.enorm.weight"), HasSubstr("no place for it"));
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

}  // namespace
}  // namespace lorica
