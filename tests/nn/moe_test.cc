#include "lorica/nn/moe.h"

#include <cmath>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/gradcheck.h"
#include "lorica/autograd/ops.h"
#include "lorica/tensor/random.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::lorica::testing::SameBits;
using ::testing::ElementsAre;

nn::MoeConfig SmallMoe() {
  nn::MoeConfig config;
  config.hidden = 6;
  config.experts = 5;
  config.expert_width = 4;
  config.router.top_k = 2;
  return config;
}

class MoeTest : public NnTest {
 protected:
  std::unique_ptr<nn::Moe> Make(const nn::MoeConfig& config, DType compute = DType::kF64) {
    auto moe = std::make_unique<nn::Moe>(config, compute);
    uint64_t seed = 40;
    ForEachParameter(*moe, [&](const std::string&, Parameter& p) {
      p.Assign(raw::Cast(Values(p.shape(), ++seed), p.compute_dtype()));
    });
    return moe;
  }
  Tensor Values(const Shape& shape, uint64_t seed) {
    RandomStream random(seed, 1);
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (double& v : values) v = 0.6 * random.Normal();
    return Tensor::FromHost<double>(backend_, shape, values);
  }
};

std::vector<std::string> PathsOf(Module& root) {
  std::vector<std::string> paths;
  ForEachParameter(root, [&](const std::string& path, Parameter&) { paths.push_back(path); });
  return paths;
}

TEST_F(MoeTest, ParametersHaveThePathsOfHuggingFace) {
  nn::MoeConfig config = SmallMoe();
  config.correction_bias = true;
  config.shared_width = 8;
  auto moe = Make(config);
  EXPECT_THAT(PathsOf(*moe),
              ElementsAre("gate.weight", "gate.e_score_correction_bias", "experts.gate_up_proj",
                          "experts.down_proj", "shared_experts.gate_proj.weight",
                          "shared_experts.up_proj.weight", "shared_experts.down_proj.weight"));
  config = SmallMoe();
  config.router_name = "router";
  config.router_bias = config.expert_bias = true;
  EXPECT_THAT(
      PathsOf(*Make(config)),
      ElementsAre("router.weight", "router.bias", "experts.gate_up_proj",
                  "experts.gate_up_proj_bias", "experts.down_proj", "experts.down_proj_bias"));
  config = SmallMoe();
  config.activation.kind = GatedActivation::Kind::kRelu2;
  config.latent = 3;
  config.shared_width = 2;
  config.shared_gate = true;
  config.shared_name = "shared_expert";
  moe = Make(config);
  EXPECT_THAT(PathsOf(*moe),
              ElementsAre("gate.weight", "fc1_latent_proj.weight", "experts.up_proj",
                          "experts.down_proj", "fc2_latent_proj.weight",
                          "shared_expert.gate_proj.weight", "shared_expert.up_proj.weight",
                          "shared_expert.down_proj.weight", "shared_expert_gate.weight"));
  EXPECT_EQ(moe->experts().gate_up().weight_shape(), Shape({5, 4, 3}));
  EXPECT_EQ(moe->experts().down().weight_shape(), Shape({5, 3, 4}));
}

// Rows of x times a parameter, transposed.
std::vector<double> Times(const std::vector<double>& x, const std::vector<double>& w, size_t at,
                          size_t out) {
  std::vector<double> y(out, 0.0);
  for (size_t i = 0; i < out; ++i) {
    for (size_t j = 0; j < x.size(); ++j) y[i] += x[j] * w[at + i * x.size() + j];
  }
  return y;
}
double Sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

TEST_F(MoeTest, AddsGatedSharedExpertsToProjectedRoutedOnes) {
  nn::MoeConfig config = SmallMoe();
  config.router.score = ScoreFunction::kSigmoid;
  config.router.normalize = true;
  config.router.scale = 2.5;
  config.correction_bias = true;
  config.shared_width = 7;
  config.shared_gate = true;
  config.latent = 3;
  auto moe = Make(config);
  std::map<std::string, std::vector<double>> p;
  ForEachParameter(*moe, [&](const std::string& path, Parameter& parameter) {
    p[path] = parameter.value().ToDoubles();
  });
  const Tensor x = Values({5, 6}, 3);
  const Tensor y = moe->Forward(x, ContextOf({5}));
  const std::vector<double> all = x.ToDoubles();
  std::vector<double> want;
  for (size_t t = 0; t < 5; ++t) {
    const std::vector<double> xt(all.begin() + t * 6, all.begin() + (t + 1) * 6);
    const std::vector<double> logits = Times(xt, p["gate.weight"], 0, 5);
    std::vector<size_t> order = {0, 1, 2, 3, 4};
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto& bias = p["gate.e_score_correction_bias"];
      return Sigmoid(logits[a]) + bias[a] > Sigmoid(logits[b]) + bias[b];
    });
    const double sum = Sigmoid(logits[order[0]]) + Sigmoid(logits[order[1]]);
    const std::vector<double> latent = Times(xt, p["fc1_latent_proj.weight"], 0, 3);
    std::vector<double> routed(3, 0.0);
    for (size_t k = 0; k < 2; ++k) {
      const size_t e = order[k];
      const std::vector<double> h = Times(latent, p["experts.gate_up_proj"], e * 8 * 3, 8);
      std::vector<double> a(4);
      for (size_t i = 0; i < 4; ++i) a[i] = h[i] * Sigmoid(h[i]) * h[4 + i];
      const std::vector<double> out = Times(a, p["experts.down_proj"], e * 3 * 4, 3);
      for (size_t i = 0; i < 3; ++i) routed[i] += 2.5 * Sigmoid(logits[e]) / sum * out[i];
    }
    std::vector<double> yt = Times(routed, p["fc2_latent_proj.weight"], 0, 6);
    const std::vector<double> gate = Times(xt, p["shared_experts.gate_proj.weight"], 0, 7);
    std::vector<double> a = Times(xt, p["shared_experts.up_proj.weight"], 0, 7);
    for (size_t i = 0; i < 7; ++i) a[i] *= gate[i] * Sigmoid(gate[i]);
    const std::vector<double> shared = Times(a, p["shared_experts.down_proj.weight"], 0, 6);
    const double open = Sigmoid(Times(xt, p["shared_expert_gate.weight"], 0, 1)[0]);
    for (size_t i = 0; i < 6; ++i) want.push_back(yt[i] + open * shared[i]);
  }
  EXPECT_TRUE(Near(y, want, 1e-12));
}

TEST_F(MoeTest, FullTrainingAgreesWithDifferences) {
  nn::MoeConfig config = SmallMoe();
  config.router.normalize = true;
  config.correction_bias = true;
  config.expert_bias = true;
  config.shared_width = 3;
  auto moe = Make(config);
  MakeTrainable(*moe);
  EXPECT_FALSE(moe->router().correction_bias().trainable());
  std::vector<Tensor> leaves = {Values({4, 6}, 9)};
  SetRequiresGrad(leaves[0], true);
  ForEachParameter(*moe, [&](const std::string&, Parameter& p) {
    if (p.trainable()) leaves.push_back(p.master());
  });
  EXPECT_EQ(leaves.size(), 9u);
  const ForwardContext context = ContextOf({4});
  EXPECT_EQ(Gradcheck([&](const auto& x) { return moe->Forward(x[0], context); }, leaves), "");
}

// Blocks of a mixture with a trained router and a balancing loss, with and without recompute.
TEST_F(MoeTest, RecomputeChangesNoBitAndCountsOnce) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    nn::MoeConfig config = SmallMoe();
    config.aux_loss_coefficient = 0.1;
    std::vector<std::vector<Tensor>> runs;
    std::vector<nn::MoeStatistics> statistics;
    for (bool recompute : {false, true}) {
      auto moe = Make(config, dtype);
      MakeTrainable(*moe);
      Tensor x = raw::Cast(Values({10, 6}, 8), dtype);
      SetRequiresGrad(x, true);
      const ForwardContext context = ContextOf({7, 3});
      const auto block = [&](const Tensor& in) { return moe->Forward(Mul(in, in), context); };
      Tensor y = recompute ? Recompute(block, x) : block(x);
      Backward(recompute ? Recompute(block, y) : block(y));
      runs.emplace_back();
      runs.back() = {y, Grad(x)};
      ForEachParameter(
          *moe, [&](const std::string&, Parameter& p) { runs.back().push_back(Grad(p.master())); });
      statistics.push_back(moe->TakeStatistics());
      EXPECT_EQ(moe->TakeStatistics().batches, 0);
    }
    for (size_t i = 0; i < runs[0].size(); ++i) {
      EXPECT_TRUE(SameBits(runs[1][i], runs[0][i])) << i;
    }
    EXPECT_EQ(statistics[0].load, statistics[1].load);
    EXPECT_EQ(statistics[1].batches, 2);
    int64_t total = 0;
    for (int64_t l : statistics[1].load) total += l;
    EXPECT_EQ(total, 2 * 10 * 2);
    EXPECT_GT(statistics[1].aux_loss, 1);
    EXPECT_EQ(statistics[0].aux_loss, statistics[1].aux_loss);
  }
}

TEST_F(MoeTest, TheBalancingLossTrainsTheRouterAlone) {
  nn::MoeConfig config = SmallMoe();
  const Tensor x = Values({10, 6}, 8);
  std::vector<std::vector<Tensor>> runs;
  for (double coefficient : {0.0, 0.5}) {
    config.aux_loss_coefficient = coefficient;
    auto moe = Make(config);
    MakeTrainable(*moe);
    Backward(moe->Forward(x, ContextOf({10})));
    runs.emplace_back();
    ForEachParameter(
        *moe, [&](const std::string&, Parameter& p) { runs.back().push_back(Grad(p.master())); });
  }
  EXPECT_FALSE(SameBits(runs[0][0], runs[1][0]));
  for (size_t i = 1; i < runs[0].size(); ++i) EXPECT_TRUE(SameBits(runs[0][i], runs[1][i]));
}

TEST_F(MoeTest, NoTokensGiveNoRows) {
  auto moe = Make(SmallMoe(), DType::kF32);
  const Tensor y = moe->Forward(Tensor::Empty(backend_, {0, 6}, DType::kF32), ContextOf({0}));
  EXPECT_EQ(y.shape(), Shape({0, 6}));
}

TEST_F(MoeTest, WideLogitsDecideInF32) {
  // Two experts whose logits only f32 tells apart.
  nn::RouterConfig config;
  config.hidden = 2;
  config.experts = 2;
  for (bool wide : {false, true}) {
    config.wide = wide;
    nn::Router router(config, DType::kBF16);
    const std::vector<float> w = {1, 0, 1, 1}, x = {1, 0.00390625f};
    router.weight().Assign(raw::Cast(Tensor::FromHost<float>(backend_, {2, 2}, w), DType::kBF16));
    const Tensor logits = router.Logits(
        raw::Cast(Tensor::FromHost<float>(backend_, {1, 2}, x), DType::kBF16), ContextOf({1}));
    EXPECT_EQ(logits.dtype(), wide ? DType::kF32 : DType::kBF16);
    EXPECT_EQ((*router.Choose(logits).experts)[0], wide ? 1 : 0);
  }
}

}  // namespace
}  // namespace lorica
