#include "lorica/optim/adamw.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "optim/golden.h"

namespace lorica {
namespace {

class AdamWGolden : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(AdamWGolden, FollowsPyTorchStepByStep) {
  const auto [index, dtype] = GetParam();
  const nlohmann::json& c = Golden()["adamw"][index];
  SCOPED_TRACE(c["name"].get<std::string>());
  World world;
  const int64_t size = c["size"];
  const AdamWOptions options = {.lr = 1,
                                .beta1 = c["betas"][0],
                                .beta2 = c["betas"][1],
                                .eps = c["eps"],
                                .weight_decay = c["weight_decay"]};
  AdamW adamw(options,
              {Leaf(*world.backend, "w", {size}, dtype, c["initial"], ParameterRole::kLoraA)});
  // f32: a few roundings of each of the five updates.
  const double tolerance = dtype == DType::kF64 ? 1e-12 : 5 * 4 * 6e-8;
  for (size_t step = 0; step < c["lrs"].size(); ++step) {
    SetGrad(adamw.parameters()[0], c["gradients"][step]);
    adamw.Step({.rate_factor = c["lrs"][step]});
    EXPECT_EQ(adamw.clock(), static_cast<int64_t>(step) + 1);
    EXPECT_LE(RelativeError(adamw.parameters()[0].master.ToDoubles(), c["after"][step]), tolerance)
        << "step " << step;
  }
  adamw.VisitState([&](const NamedParameter& parameter, absl::string_view kind, Tensor& state) {
    EXPECT_EQ(parameter.path, "w");
    EXPECT_LE(RelativeError(state.ToDoubles(), c[kind == "adam_m" ? "exp_avg" : "exp_avg_sq"]),
              tolerance)
        << kind;
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, AdamWGolden,
                         testing::Combine(testing::Range(0, 4),
                                          testing::Values(DType::kF64, DType::kF32)));

TEST(AdamW, ScalesTheGradientSumOnlyOnce) {
  World world;
  const std::vector<double> initial = {1, -2, 3}, sum = {8, -4, 2}, mean = {2, -1, 0.5};
  AdamW a({}, {Leaf(*world.backend, "w", {3}, DType::kF64, initial, ParameterRole::kVector)});
  AdamW b({}, {Leaf(*world.backend, "w", {3}, DType::kF64, initial, ParameterRole::kVector)});
  SetGrad(a.parameters()[0], sum);
  a.Step({.grad_scale = 0.25});
  SetGrad(b.parameters()[0], mean);
  b.Step({});
  EXPECT_EQ(a.parameters()[0].master.ToDoubles(), b.parameters()[0].master.ToDoubles());
}

TEST(AdamW, AParameterWithoutGradientOnlyDecays) {
  World world;
  AdamW adamw({.lr = 0.1, .weight_decay = 0.5},
              {Leaf(*world.backend, "w", {2}, DType::kF64, {1, -4}, ParameterRole::kVector)});
  adamw.Step({});
  EXPECT_EQ(adamw.parameters()[0].master.ToDoubles(), (std::vector<double>{0.95, -3.8}));
}

TEST(AdamW, ThreadsChangeNoBit) {
  std::vector<double> initial(5000), gradient(5000);
  for (size_t i = 0; i < initial.size(); ++i) {
    initial[i] = std::sin(static_cast<double>(i));
    gradient[i] = std::cos(static_cast<double>(7 * i));
  }
  std::vector<double> first;
  for (int threads : {1, 2, 3}) {
    World world(threads);
    AdamW adamw(
        {}, {Leaf(*world.backend, "w", {50, 100}, DType::kF32, initial, ParameterRole::kLoraB)});
    SetGrad(adamw.parameters()[0], gradient);
    adamw.Step({.grad_scale = 1.0 / 3});
    const std::vector<double> after = adamw.parameters()[0].master.ToDoubles();
    if (first.empty()) first = after;
    EXPECT_EQ(after, first) << threads;
  }
}

TEST(Optimizer, RefusesATensorThatNeedsNoGradient) {
  World world;
  NamedParameter plain{"w", Tensor::Zeros(*world.backend, {2}, DType::kF32)};
  EXPECT_THROW(AdamW({}, {plain}), Error);
}

TEST(Optimizer, RefusesTwoParametersOfOneName) {
  World world;
  const NamedParameter leaf =
      Leaf(*world.backend, "w", {1}, DType::kF32, {1}, ParameterRole::kVector);
  EXPECT_THROW(AdamW({}, {leaf, leaf}), Error);
}

TEST(Optimizer, NamesTheOptionThatIsOutOfRange) {
  OptimizerOptions options;
  EXPECT_TRUE(Validate(options).ok());
  options.adamw.beta2 = 1;
  EXPECT_EQ(Validate(options).message(), "beta2: expected a value in [0, 1), found 1");
  options = {};
  options.adamw.lr = std::nan("");
  EXPECT_TRUE(absl::StrContains(Validate(options).message(), "lr"));
  options = {};
  options.muon.momentum = -0.1;
  EXPECT_TRUE(absl::StrContains(Validate(options).message(), "muon-momentum"));
}

}  // namespace
}  // namespace lorica
