// The text model inside a folder that also holds what takes pictures.
#include "lorica/nn/text_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lorica/autograd/autograd.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/text_part_folder.h"

namespace lorica {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class TextPartTest : public ::testing::Test {
 protected:
  TextPartTest() : backend_(MakeCpuBackend(pool_)) {
    std::string pattern = ::testing::TempDir() + "/lorica_text_part_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~TextPartTest() override { std::filesystem::remove_all(folder_); }

  std::vector<double> Logits(const std::string& folder) {
    auto loaded = LoadModel(folder, *backend_, DType::kF64);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return {};
    const NoGrad no_grad;
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
    const ForwardContext context =
        ForwardContext::ForSequences(Sequences::Single(static_cast<int64_t>(ids.size())));
    return loaded->model->Logits(loaded->model->Hidden(ids, context), context).ToDoubles();
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_;
  std::string folder_;
};

TEST_F(TextPartTest, ItsLogitsAreThoseOfTheTextModel) {
  WriteTextPartFolder(folder_);
  EXPECT_EQ(Logits(folder_), Logits(TextModelFolder()));
  const auto config = ReadModelConfig(folder_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->text_part);
  EXPECT_EQ(config->family, "gemma3_text");
  EXPECT_EQ(config->eos_token_ids, (std::vector<int64_t>{1, 7}));
  EXPECT_THAT(config->notes, Contains(HasSubstr("what takes pictures is left out")));
}

TEST_F(TextPartTest, AMissingTensorIsNamedAsInTheFile) {
  WriteTextPartFolder(folder_, {.prefix = "other_model."});
  const auto loaded = LoadModel(folder_, *backend_, DType::kF32);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("language_model.model."));
}

TEST_F(TextPartTest, OneTensorUnderTwoNamesIsRefused) {
  WriteTextPartFolder(folder_, {.second_name = "model.language_model.norm.weight"});
  const auto loaded = LoadModel(folder_, *backend_, DType::kF32);
  EXPECT_THAT(
      std::string(loaded.status().message()),
      AllOf(HasSubstr("language_model.norm.weight"), HasSubstr("expected one name of the tensor"),
            HasSubstr("language_model.model.norm.weight")));
}

TEST_F(TextPartTest, AWholeModelNeedsItsTextModel) {
  EXPECT_THAT(std::string(ParseModelConfig(R"({"model_type": "gemma3"})", "c").status().message()),
              HasSubstr("text_config"));
  EXPECT_THAT(
      std::string(ParseModelConfig(
                      R"({"model_type": "gemma3", "text_config": {"model_type": "llama"}})", "c")
                      .status()
                      .message()),
      HasSubstr("gemma3_text"));
}

TEST(TextPartNamesTest, BothWays) {
  EXPECT_EQ(NameInTextPart("language_model.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(NameInTextPart("model.language_model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(NameInTextPart("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(NameInTextPart("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(NameInTextPart("vision_tower.probe"), "");
  EXPECT_EQ(NameInTextPart("model.vision_tower.probe"), "");
  EXPECT_EQ(PathOfTextPart("model.layers.0.mlp.up_proj"),
            "model.language_model.layers.0.mlp.up_proj");
  EXPECT_EQ(PathOfTextPart("lm_head"), "lm_head");
}

}  // namespace
}  // namespace lorica
