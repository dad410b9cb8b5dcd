// Adapters that PEFT wrote (tests/golden/peft_variants) against the logits that it gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/io_fixture.h"
#include "lorica/autograd/autograd.h"
#include "lorica/io/safetensors.h"
#include "lorica/io/tensor_source.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/layouts/adapter_layout.h"
#include "lorica/peft/layouts/base_facts.h"
#include "lorica/peft/merge.h"
#include "lorica/peft/peft_files.h"
#include "lorica/tensor/cpu_backend.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

const std::string kGolden = LORICA_SOURCE_ROOT "/tests/golden/";

class PeftVariantsTest : public ::testing::TestWithParam<const char*> {
 protected:
  PeftVariantsTest() : backend_(MakeCpuBackend(pool_)) {}

  void Load(const std::string& variant) {
    folder_ = kGolden + "peft_variants/" + variant;
    std::ifstream file(folder_ + "/meta.json");
    meta_ = nlohmann::json::parse(file);
    const std::string path = kGolden + "models/" + meta_["model"].get<std::string>() + "/model";
    absl::StatusOr<LoadedModel> loaded = LoadModel(path, *backend_, DType::kF64);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    model_ = std::move(loaded->model);
  }

  std::vector<double> Logits() {
    const NoGrad no_grad;
    const std::vector<int32_t> ids = meta_["input_ids"];
    const ForwardContext context =
        ForwardContext::ForSequences(Sequences::Single(static_cast<int64_t>(ids.size())));
    return model_->Logits(model_->Hidden(ids, context), context).ToDoubles();
  }

  std::vector<double> Wanted() {
    auto source = OpenSafetensorsSource(folder_ + "/logits.safetensors");
    EXPECT_TRUE(source.ok()) << source.status();
    const std::vector<int64_t>& shape = (*source)->Find("logits")->shape;
    std::vector<double> values(static_cast<size_t>(shape[0] * shape[1]));
    EXPECT_TRUE((*source)->ReadAll("logits", DType::kF64, values.data()).ok());
    return values;
  }

  // The expected values are stored as f32.
  static void ExpectNear(const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    double largest = 0;
    for (const double value : want) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 2e-7 * largest) << "element " << i;
    }
  }

  TempFolder temporary_;
  std::string folder_;
  nlohmann::json meta_;
  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<CausalLm> model_;
};

TEST_P(PeftVariantsTest, LogitsAreThoseOfPeftAndGoAwayAgain) {
  ASSERT_NO_FATAL_FAILURE(Load(GetParam()));
  const std::vector<double> base = Logits();
  const bool was_tied = model_->lm_head().tied();
  auto set = LoadPeftAdapter(folder_, *model_, *backend_, DType::kF64);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->modules().size(), meta_["modules"].size());
  for (const AdaptedModule& module : set->modules()) {
    EXPECT_EQ(module.adapter->factors(0).rank(), meta_["modules"][module.path]["rank"])
        << module.path;
    EXPECT_EQ(module.adapter->factors(0).scale(), meta_["modules"][module.path]["scaling"])
        << module.path;
  }
  ExpectNear(Logits(), Wanted());

  set->Detach();
  EXPECT_EQ(Logits(), base);
  EXPECT_EQ(model_->lm_head().tied(), was_tied);
  set->Attach();
  ExpectNear(Logits(), Wanted());
  {
    auto merged = MergedWeights::Merge(*model_, *set);
    ASSERT_TRUE(merged.ok()) << merged.status();
    ExpectNear(Logits(), Wanted());
  }
  ExpectNear(Logits(), Wanted());
  set->Detach();
  EXPECT_EQ(Logits(), base);
}

TEST_P(PeftVariantsTest, WrittenAgainItIsTheSame) {
  ASSERT_NO_FATAL_FAILURE(Load(GetParam()));
  const std::string copy = temporary_ / "written";
  {
    auto set = LoadPeftAdapter(folder_, *model_, *backend_, DType::kF64);
    ASSERT_TRUE(set.ok()) << set.status();
    const absl::Status saved = SavePeftAdapter(PosixFiles(), copy, *set);
    ASSERT_TRUE(saved.ok()) << saved;
    set->Detach();
  }
  auto set = LoadPeftAdapter(copy, *model_, *backend_, DType::kF64);
  ASSERT_TRUE(set.ok()) << set.status();
  ExpectNear(Logits(), Wanted());
}

// Any layout attaches to a model that is here.
class AdaptersAsGgufTest : public PeftVariantsTest {};

TEST_P(AdaptersAsGgufTest, Attach) {
  ASSERT_NO_FATAL_FAILURE(Load(GetParam()));
  const auto read = ReadStoredAdapter(folder_, *backend_, {});
  ASSERT_TRUE(read.ok()) << read.status();
  const BaseFacts base = BaseFactsOf(model_->config());
  const std::string path = temporary_ / "adapter.gguf";
  const absl::Status written = WriteStoredAdapter(read->adapter, AdapterLayout::kGguf, path, &base);
  ASSERT_TRUE(written.ok()) << written;
  auto set = LoadPeftAdapter(path, *model_, *backend_, DType::kF64);
  ASSERT_TRUE(set.ok()) << set.status();
  ExpectNear(Logits(), Wanted());
}

INSTANTIATE_TEST_SUITE_P(All, AdaptersAsGgufTest,
                         ::testing::Values("one_layer", "layers", "regex", "all_linear"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(All, PeftVariantsTest,
                         ::testing::Values("save_both", "save_head_of_tied",
                                           "save_embedding_of_tied", "save_tied_together",
                                           "one_layer", "layers", "regex", "all_linear"),
                         [](const auto& test) { return std::string(test.param); });

class SavedModulesTest : public PeftVariantsTest {
 protected:
  // A copy of a variant whose configuration says something else.
  std::string ErrorWith(const std::string& key, const nlohmann::json& value) {
    const std::filesystem::path copy = temporary_ / key;
    std::filesystem::remove_all(copy);
    std::filesystem::copy(folder_, copy);
    std::ifstream in(folder_ + "/adapter_config.json");
    nlohmann::json config = nlohmann::json::parse(in);
    config[key] = value;
    std::ofstream(copy / "adapter_config.json") << config;
    return std::string(
        LoadPeftAdapter(copy.string(), *model_, *backend_, DType::kF64).status().message());
  }
};

TEST_F(SavedModulesTest, WhatTheFileLacksOrTheModelHasNotIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Load("save_head_of_tied"));
  EXPECT_THAT(ErrorWith("modules_to_save", {"lm_head", "embed_tokens"}),
              HasSubstr("has no weight of \"model.embed_tokens\", which modules_to_save"));
  EXPECT_THAT(ErrorWith("modules_to_save", {"lm_head", "norm"}),
              HasSubstr("names \"norm\", but only the embedding, the head and routers"));
  // Not named: then it can only be a copy of the model's own, which it isn't.
  EXPECT_THAT(ErrorWith("modules_to_save", nullptr), HasSubstr("the model's own weights"));
  EXPECT_TRUE(model_->lm_head().tied());
}

// A copy of an adapter with experts without the tensors of one module.
absl::Status LoadWithout(const std::string& module) {
  const std::string source = kGolden + "models/qwen3_moe/adapter";
  const TempFolder temporary;
  const std::string copy = temporary / "without";
  std::filesystem::create_directories(copy);
  std::filesystem::copy(source + "/adapter_config.json", copy);
  const auto file = SafetensorsFile::Open(source + "/adapter_model.safetensors");
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<SafetensorsTensor> kept;
  for (const SafetensorsEntry& entry : file->entries()) {
    if (entry.name.find(module) != std::string::npos) continue;
    kept.push_back({entry.name, entry.type, entry.shape, file->Bytes(entry)});
  }
  EXPECT_TRUE(WriteSafetensors(PosixFiles(), copy + "/adapter_model.safetensors", kept, {}).ok());
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  auto loaded = LoadModel(kGolden + "models/qwen3_moe/model", *backend, DType::kF32);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  const auto set = LoadPeftAdapter(copy, *loaded->model, *backend, DType::kF32);
  if (set.ok()) set->Detach();
  return set.status();
}

TEST(AdaptersWithExpertsTest, AModuleThatIsNamedAndAbsentIsAnError) {
  EXPECT_TRUE(LoadWithout("no such module").ok());
  EXPECT_THAT(std::string(LoadWithout("layers.1.self_attn.q_proj").message()),
              HasSubstr("has no factors for \"model.layers.1.self_attn.q_proj\", which "
                        "adapter_config.json names"));
  EXPECT_THAT(
      std::string(LoadWithout("layers.1.mlp.up_proj").message()),
      HasSubstr("has no factors for \"layers.1.mlp.up_proj.weight\", which target_parameters"));
  EXPECT_THAT(std::string(LoadWithout("layers.0.mlp.experts").message()),
              HasSubstr("has no factors for \"model.layers.0.mlp.experts.gate_up_proj\", which "
                        "adapter_config.json names"));
}

// Factors of one of the two, in one layer alone: a configuration says less than that of the rest.
TEST(AdaptersWithExpertsTest, APartOfTheExpertsLoadsFromWhatWasWritten) {
  const TempFolder temporary;
  const std::string folder = temporary / "part";
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  for (const AdapterLayout layout : {AdapterLayout::kPeft2d, AdapterLayout::kPeft3d}) {
    for (const char* target :
         {"*.layers.0.*.experts.gate_up_proj", "*.layers.2.*.experts.down_proj"}) {
      SCOPED_TRACE(target);
      auto loaded = LoadModel(kGolden + "models/qwen3_moe/model", *backend, DType::kF32);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      auto set =
          InjectLora(*loaded->model, *backend, DType::kF32, {.rank = 2, .targets = {target}});
      ASSERT_TRUE(set.ok()) << set.status();
      ASSERT_EQ(set->modules().size(), 1);
      const std::string path = set->modules()[0].path;
      std::filesystem::remove_all(folder);
      const ExpertForm form = BaseFactsOf(loaded->model->config()).form;
      const absl::Status saved =
          SavePeftAdapter(PosixFiles(), folder, *set, {.layout = layout, .form = form});
      ASSERT_TRUE(saved.ok()) << saved;
      set->Detach();
      const auto again = LoadPeftAdapter(folder, *loaded->model, *backend, DType::kF32);
      ASSERT_TRUE(again.ok()) << again.status();
      ASSERT_EQ(again->modules().size(), 1);
      EXPECT_EQ(again->modules()[0].path, path);
    }
  }
}

}  // namespace
}  // namespace lorica
