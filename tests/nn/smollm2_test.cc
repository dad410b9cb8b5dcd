// A published model against transformers with the same file. Runs where LORICA_SMOLLM2_GGUF names
// SmolLM2-135M-Instruct.Q4_1.gguf.
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lorica/autograd/autograd.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/generate.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

// -log p of ids[t + 1] at row t, and the most likely id after each row.
struct Reading {
  std::vector<double> losses;
  std::vector<int32_t> best;
};

Reading Read(CausalLm& model, const std::vector<int32_t>& ids) {
  Reading reading;
  const ForwardContext context = ContextOf({static_cast<int64_t>(ids.size())});
  std::vector<int32_t> targets(ids.begin() + 1, ids.end());
  targets.push_back(-1);
  reading.losses = model.Loss(ids, targets, context).ToDoubles();
  const Tensor logits = model.Logits(model.Hidden(ids, context), context);
  RandomStream unused(0, 0);
  for (int64_t t = 0; t < logits.dim(0); ++t) {
    reading.best.push_back(Sample(logits.Narrow(0, t, 1).ToDoubles(), {}, unused)->id);
  }
  return reading;
}

TEST(SmolLm2Test, AgreesWithTransformers) {
  const char* path = std::getenv("LORICA_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "LORICA_SMOLLM2_GGUF names no model file";
  NoGrad no_grad;
  ThreadPool pool(2);
  const auto backend = MakeCpuBackend(pool, {.packed_cache_bytes = size_t{1} << 30});
  const auto loaded = LoadModel(path, *backend, DType::kF32);
  ASSERT_OK(loaded);
  CausalLm& model = *loaded->model;
  EXPECT_EQ(model.config().notes, std::vector<std::string>());
  EXPECT_EQ(CountParameters(model), 134'515'008);

  const Json golden = *ReadJsonFile(GoldenPath("smollm2.json"));
  for (const Json& text : golden.at("texts")) {
    const std::string name = text.at("name");
    std::vector<int32_t> ids = text.at("ids");
    const size_t prompt = ids.size();
    const std::vector<int32_t> greedy = text.at("greedy_ids");
    const std::vector<double> margins = text.at("greedy_margins");
    ids.insert(ids.end(), greedy.begin(), greedy.end());
    const Reading reading = Read(model, ids);
    for (size_t t = 1; t < prompt; ++t) {
      EXPECT_NEAR(-reading.losses[t - 1], text.at("logprobs")[t].get<double>(), 2e-3)
          << name << " token " << t;
    }
    for (size_t i = 0; i < greedy.size(); ++i) {
      if (margins[i] <= 1e-2) continue;
      EXPECT_EQ(reading.best[prompt - 1 + i], greedy[i]) << name << " new token " << i;
    }
  }

  // One of them with the cache, token by token.
  const Json& text = golden.at("texts")[0];
  GenerateOptions options;
  options.max_tokens = 8;
  const auto generated = Generate(model, {text.at("ids").get<std::vector<int32_t>>()}, options);
  ASSERT_OK(generated);
  const std::vector<int32_t> greedy = text.at("greedy_ids");
  EXPECT_EQ((*generated)[0].ids, std::vector<int32_t>(greedy.begin(), greedy.begin() + 8));
}

TEST(SmolLm2Test, BF16StaysNearTransformersInF32) {
  const char* path = std::getenv("LORICA_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "LORICA_SMOLLM2_GGUF names no model file";
  NoGrad no_grad;
  ThreadPool pool(2);
  const auto backend = MakeCpuBackend(pool, {.packed_cache_bytes = size_t{1} << 30});
  const auto loaded = LoadModel(path, *backend, DType::kBF16);
  ASSERT_OK(loaded);
  double sum = 0, count = 0;
  const Json golden = *ReadJsonFile(GoldenPath("smollm2.json"));
  for (const Json& text : golden.at("texts")) {
    const std::vector<int32_t> ids = text.at("ids");
    const Reading reading = Read(*loaded->model, ids);
    for (size_t t = 1; t < ids.size(); ++t) {
      sum += std::abs(-reading.losses[t - 1] - text.at("logprobs")[t].get<double>());
      ++count;
    }
  }
  EXPECT_LT(sum / count, 0.03);
}

}  // namespace
}  // namespace lorica
