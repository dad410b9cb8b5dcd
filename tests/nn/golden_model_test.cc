// Tiny models against what transformers computes in float64, and a trained one against its own
// program.
#include <cmath>
#include <nlohmann/json.hpp>

#include "lorica/autograd/autograd.h"
#include "lorica/io/json_file.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::lorica::testing::SameBits;

// Reference tensors are stored as f32.
constexpr double kF64Tolerance = 2e-7;
constexpr double kF32Tolerance = 1e-4;

class GoldenModelTest : public NnTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void Check(const std::string& folder, DType compute, double tolerance) {
    NoGrad no_grad;
    const auto loaded = LoadModel(JoinPath(folder, "model"), backend_, compute);
    ASSERT_OK(loaded);
    CausalLm& model = *loaded->model;
    const auto logits = OpenSafetensorsSource(JoinPath(folder, "logits.safetensors"));
    ASSERT_OK(logits);
    const auto records = ReadBatches(JoinPath(folder, "batches.jsonl"));
    const auto losses = ReadMeanLosses(JoinPath(folder, "loss.json"));
    ASSERT_EQ(records.size(), losses.size());
    for (size_t i = 0; i < records.size(); ++i) {
      const GoldenRecord& record = records[i];
      const ForwardContext context = ContextOf({static_cast<int64_t>(record.ids.size())});
      const Tensor got = model.Logits(model.Hidden(record.ids, context), context);
      EXPECT_TRUE(Near(got, ReadTensor(**logits, "logits." + std::to_string(i)), tolerance))
          << folder << " record " << i;
      CheckLoss(model, record, losses[i], tolerance);
    }
    CheckResidual(folder, model, records[1].ids, tolerance);
  }

  void CheckLoss(CausalLm& model, const GoldenRecord& record, double want, double tolerance) {
    const ForwardContext context = ContextOf({static_cast<int64_t>(record.ids.size())});
    const auto loss = model.Loss(record.ids, record.targets, context).ToDoubles();
    ASSERT_EQ(loss.size(), record.ids.size());
    double sum = 0;
    int64_t count = 0;
    for (size_t t = 0; t < loss.size(); ++t) {
      if (record.targets[t] < 0) {
        EXPECT_EQ(loss[t], 0) << t;
        continue;
      }
      sum += loss[t];
      ++count;
    }
    EXPECT_NEAR(sum / double(count), want, tolerance * want);
  }

  // Where a difference begins.
  void CheckResidual(const std::string& folder, CausalLm& model, const std::vector<int32_t>& ids,
                     double tolerance) {
    const auto source = OpenSafetensorsSource(JoinPath(folder, "debug_hidden.safetensors"));
    ASSERT_OK(source);
    const ForwardContext context = ContextOf({static_cast<int64_t>(ids.size())});
    const int layers = static_cast<int>(model.config().layers);
    for (int k = 0; k <= layers; ++k) {
      const Tensor got =
          k < layers ? model.model().Residual(ids, context, k) : model.Hidden(ids, context);
      EXPECT_TRUE(Near(got, ReadTensor(**source, "hidden.1." + std::to_string(k)), tolerance))
          << folder << " after " << k << " blocks";
    }
  }
};

TEST_P(GoldenModelTest, F64AgreesWithTransformers) {
  Check(GoldenPath(std::string("models/") + GetParam()), DType::kF64, kF64Tolerance);
}

TEST_P(GoldenModelTest, F32AgreesWithTransformers) {
  Check(GoldenPath(std::string("models/") + GetParam()), DType::kF32, kF32Tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenModelTest,
    ::testing::Values("llama_gqa", "llama_mqa_bias_tied", "qwen2_patterns", "llama_embed_head",
                      "llama_full", "mistral", "qwen2_window", "qwen3", "smollm3", "granite",
                      "olmo2", "gemma2", "gemma3_text", "phi3", "rope_linear", "rope_dynamic",
                      "rope_llama3", "rope_yarn", "rope_yarn_mscale", "rope_longrope", "mixtral",
                      "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v2_lite",
                      "deepseek_v3", "glm4_moe", "glm4_moe_lite", "deepseek_v32", "glm_moe_dsa",
                      "gpt_oss", "minimax_m2", "qwen3_5_moe"),
    [](const auto& model) { return std::string(model.param); });

using GoldenFilesTest = GoldenModelTest;

TEST_F(GoldenFilesTest, SharedLlamaAgrees) {
  const std::string folder = SharedPath("golden/models/llama_gqa");
  if (folder.empty()) GTEST_SKIP() << "no shared folder";
  Check(folder, DType::kF64, kF64Tolerance);
  Check(folder, DType::kF32, kF32Tolerance);
}

TEST_F(GoldenFilesTest, LegacySpellingGivesTheSameModel) {
  const std::string folder = GoldenPath("models/llama_mqa_bias_tied");
  const auto fresh = ReadModelConfigFile(JoinPath(folder, "model/config.json"));
  const auto legacy = ReadModelConfigFile(JoinPath(folder, "config.legacy.json"));
  ASSERT_OK(fresh);
  ASSERT_OK(legacy);
  EXPECT_EQ(*ConfigJson(*fresh, DType::kF32), *ConfigJson(*legacy, DType::kF32));
  EXPECT_EQ(fresh->rope.theta, 500000);
}

// Mean loss of every parameter's gradient, with the tied table's two shares in one.
TEST_F(GoldenFilesTest, GradientsOfFullTrainingAgree) {
  const std::string folder = GoldenPath("models/llama_full");
  for (const DType compute : {DType::kF64, DType::kF32}) {
    const double tolerance = compute == DType::kF64 ? kF64Tolerance : kF32Tolerance;
    const auto loaded = LoadModel(JoinPath(folder, "model"), backend_, compute);
    ASSERT_OK(loaded);
    CausalLm& model = *loaded->model;
    MakeTrainable(model);
    const auto records = ReadBatches(JoinPath(folder, "batches.jsonl"));
    double sum = 0;
    int64_t counted = 0;
    for (int i = 0; i < 4; ++i) {
      for (int32_t target : records[i].targets) counted += target >= 0;
    }
    for (int i = 0; i < 4; ++i) {
      const Tensor loss = Sum(model.Loss(records[i].ids, records[i].targets,
                                         ContextOf({static_cast<int64_t>(records[i].ids.size())})));
      sum += loss.item();
      Backward(loss, Tensor::Full(backend_, {}, loss.dtype(), 1.0 / double(counted)));
    }
    const Json info = *ReadJsonFile(JoinPath(folder, "full_grads.json"));
    EXPECT_NEAR(sum / double(counted), info.at("loss").get<double>(), tolerance);
    const auto grads = OpenSafetensorsSource(JoinPath(folder, "full_grads.safetensors"));
    ASSERT_OK(grads);
    int checked = 0;
    ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
      EXPECT_TRUE(Near(Grad(parameter.master()), ReadTensor(**grads, path), tolerance)) << path;
      ++checked;
    });
    EXPECT_EQ(static_cast<size_t>(checked), (*grads)->names().size());
  }
}

TEST_F(GoldenFilesTest, TrainedStoriesModelPredictsItsText) {
  const std::string folder = SharedPath("data/stories260k");
  if (folder.empty()) GTEST_SKIP() << "no shared folder";
  NoGrad no_grad;
  const auto loaded = LoadModel(JoinPath(folder, "hf"), backend_, DType::kF64);
  ASSERT_OK(loaded);
  EXPECT_EQ(CountParameters(*loaded->model), 260'032);
  for (const auto& [name, want] : std::vector<std::pair<std::string, double>>{
           {"text1.run_c.json", 0.385739}, {"text2.run_c.json", 6.671287}}) {
    const Json json = *ReadJsonFile(JoinPath(folder, "golden/" + name));
    const auto ids = json.at("ids").get<std::vector<int32_t>>();
    const auto nll = json.at("nll").get<std::vector<double>>();
    std::vector<int32_t> targets(ids.begin() + 1, ids.end());
    targets.push_back(-1);
    const auto loss =
        loaded->model->Loss(ids, targets, ContextOf({static_cast<int64_t>(ids.size())}))
            .ToDoubles();
    double sum = 0;
    for (size_t t = 0; t + 1 < ids.size(); ++t) {
      sum += loss[t];
      EXPECT_NEAR(loss[t], nll[t], 1e-4) << name << " token " << t;  // the program runs in f32
    }
    EXPECT_NEAR(sum / double(ids.size() - 1), want, 1e-6) << name;
  }
}

}  // namespace
}  // namespace lorica
