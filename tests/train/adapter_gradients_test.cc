// Gradients of an adapter that brings routers in full, beside its factors.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "lorica/train/score.h"
#include "nlohmann/json.hpp"
#include "train/sft_fixture.h"

namespace lorica {
namespace {

constexpr const char* kRouter = "base_model.model.model.layers.1.mlp.gate.weight";
constexpr const char* kCorrectionBias = "e_score_correction_bias";

class AdapterGradients : public SftFixture {
 protected:
  // An adapter of attention, experts and routers after two steps.
  std::string TrainedAdapter() const {
    SftOptions options = Options("run");
    options.model = GoldenPath("deepseek_v3/model");
    options.target = {"*_proj", "*.experts"};
    options.train_router = true;
    options.max_steps = 2;
    return MustRun(options).result_path;
  }

  ScoreOptions Scoring(const std::string& adapter) const {
    ScoreOptions options;
    options.model = GoldenPath("deepseek_v3/model");
    options.adapter = adapter;
    options.data = {GoldenPath("deepseek_v3/batches.jsonl")};
    options.dtype = "f64";
    return options;
  }

  static double LossOf(const ScoreOptions& options) {
    const absl::StatusOr<ScoreTotals> totals = RunScore(options);
    EXPECT_TRUE(totals.ok()) << totals.status();
    return totals.ok() ? totals->loss : 0;
  }

  // Copies `adapter` and adds `delta` to an element of its router. Returns what f32 made of delta.
  double Move(const std::string& adapter, const std::string& copy, size_t element,
              float delta) const {
    std::filesystem::remove_all(copy);
    std::filesystem::copy(adapter, copy);
    const std::string path = copy + "/adapter_model.safetensors";
    std::string bytes = ReadText(path);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    const auto about = nlohmann::json::parse(bytes.substr(8, header)).at(kRouter);
    char* at = bytes.data() + 8 + header + about["data_offsets"][0].get<size_t>() + 4 * element;
    float had = 0;
    std::memcpy(&had, at, 4);
    const float moved = had + delta;
    std::memcpy(at, &moved, 4);
    WriteText(path, bytes);
    return static_cast<double>(moved) - static_cast<double>(had);
  }
};

TEST_F(AdapterGradients, RoutersHaveThoseOfTheLoss) {
  const std::string adapter = TrainedAdapter();
  ScoreOptions options = Scoring(adapter);
  options.gradients = folder_ / "gradients.safetensors";
  LossOf(options);
  absl::StatusOr<std::unique_ptr<TensorSource>> gradients =
      OpenSafetensorsSource(options.gradients);
  absl::StatusOr<std::unique_ptr<TensorSource>> factors =
      OpenSafetensorsSource(adapter + "/adapter_model.safetensors");
  ASSERT_TRUE(gradients.ok() && factors.ok());
  std::set<std::string> got, want;
  for (const std::string& key : (*gradients)->names()) {
    got.insert(key);
    ASSERT_NE((*factors)->Find(key), nullptr) << key;
    EXPECT_EQ((*gradients)->Find(key)->shape, (*factors)->Find(key)->shape) << key;
  }
  for (const std::string& key : (*factors)->names()) {
    if (key.find(kCorrectionBias) == std::string::npos) want.insert(key);
  }
  EXPECT_EQ(got, want);
  ASSERT_EQ(got.count(kRouter), 1u);

  const std::vector<int64_t> shape = (*gradients)->Find(kRouter)->shape;
  std::vector<double> gradient(static_cast<size_t>(shape[0] * shape[1]));
  ASSERT_TRUE((*gradients)->ReadAll(kRouter, DType::kF64, gradient.data()).ok());
  options.gradients.clear();
  const std::string copy = folder_ / "moved";
  options.adapter = copy;
  // The largest, and one of the first row.
  const auto largest = static_cast<size_t>(
      std::max_element(gradient.begin(), gradient.end(),
                       [](double x, double y) { return std::abs(x) < std::abs(y); }) -
      gradient.begin());
  for (const size_t element : {largest, size_t{2}}) {
    const double up = Move(adapter, copy, element, 1e-4f), high = LossOf(options);
    const double down = Move(adapter, copy, element, -1e-4f), low = LossOf(options);
    // The third derivative over a step of 1e-4 and the losses' own rounding.
    EXPECT_NEAR((high - low) / (up - down), gradient[element],
                1e-5 * std::abs(gradient[largest]) + 1e-10)
        << element;
  }
  EXPECT_GT(std::abs(gradient[largest]), 1e-6);
}

}  // namespace
}  // namespace lorica
