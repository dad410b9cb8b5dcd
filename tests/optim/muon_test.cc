#include "lorica/optim/muon.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "optim/golden.h"

namespace lorica {
namespace {

class MuonGolden : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(MuonGolden, FollowsTheFormulaStepByStep) {
  const auto [index, dtype] = GetParam();
  const nlohmann::json& c = Golden()["muon"][index];
  SCOPED_TRACE(c["name"].get<std::string>());
  World world;
  const MuonOptions options = {.lr = c["lr"],
                               .momentum = c["momentum"],
                               .nesterov = c["nesterov"],
                               .weight_decay = c["weight_decay"]};
  Muon muon(options, {},
            {Leaf(*world.backend, "w", {c["rows"], c["cols"]}, dtype, c["initial"],
                  ParameterRole::kMatrix)});
  // The iteration multiplies an error of a singular value by at most 3.4445 in each of five rounds;
  // the update is at most a fiftieth of a weight's size.
  const double tolerance = dtype == DType::kF64 ? 1e-12 : 3 * 485 * 6e-8 / 50 + 4 * 6e-8;
  for (size_t step = 0; step < c["gradients"].size(); ++step) {
    SetGrad(muon.parameters()[0], c["gradients"][step]);
    muon.Step({});
    EXPECT_LE(RelativeError(muon.parameters()[0].master.ToDoubles(), c["after"][step]), tolerance)
        << "step " << step;
  }
  int states = 0;
  muon.VisitState([&](const NamedParameter&, absl::string_view kind, Tensor& state) {
    EXPECT_EQ(kind, "momentum");
    EXPECT_LE(RelativeError(state.ToDoubles(), c["momentum_buffer"]), tolerance);
    ++states;
  });
  EXPECT_EQ(states, 1);
}

INSTANTIATE_TEST_SUITE_P(Cases, MuonGolden,
                         testing::Combine(testing::Range(0, 7),
                                          testing::Values(DType::kF64, DType::kF32)));

TEST(Muon, LeavesAdaptersEmbeddingsHeadAndVectorsToAdamW) {
  World world;
  Backend& backend = *world.backend;
  const auto leaf = [&](const char* path, const Shape& shape, ParameterRole role) {
    return Leaf(backend, path, shape, DType::kF32, std::vector<double>(shape.numel(), 1.0), role);
  };
  Muon muon(
      {}, {},
      {leaf("a", {2, 3}, ParameterRole::kLoraA), leaf("b", {3, 2}, ParameterRole::kLoraB),
       leaf("embed", {4, 2}, ParameterRole::kEmbedding), leaf("head", {4, 2}, ParameterRole::kHead),
       leaf("norm", {2}, ParameterRole::kVector), leaf("w", {2, 2}, ParameterRole::kMatrix)});
  std::vector<std::string> states;
  muon.VisitState([&](const NamedParameter& parameter, absl::string_view kind, Tensor&) {
    states.push_back(parameter.path + "." + std::string(kind));
  });
  EXPECT_EQ(states,
            (std::vector<std::string>{"a.adam_m", "a.adam_v", "b.adam_m", "b.adam_v",
                                      "embed.adam_m", "embed.adam_v", "head.adam_m", "head.adam_v",
                                      "norm.adam_m", "norm.adam_v", "w.momentum"}));
  EXPECT_EQ(StateCopies(OptimizerKind::kMuon, ParameterRole::kMatrix, 2), 1);
  EXPECT_EQ(StateCopies(OptimizerKind::kMuon, ParameterRole::kLoraA, 2), 2);
  EXPECT_EQ(StateCopies(OptimizerKind::kAdamW, ParameterRole::kMatrix, 2), 2);
}

TEST(Muon, WithoutMatricesIsAdamW) {
  World world;
  const std::vector<double> initial = {1, 2, 3, 4}, gradient = {0.5, -1, 2, 0.25};
  const AdamWOptions options = {.lr = 0.1, .weight_decay = 0.1};
  Muon muon({}, options,
            {Leaf(*world.backend, "a", {2, 2}, DType::kF64, initial, ParameterRole::kLoraA)});
  AdamW adamw(options,
              {Leaf(*world.backend, "a", {2, 2}, DType::kF64, initial, ParameterRole::kLoraA)});
  for (Optimizer* optimizer : {static_cast<Optimizer*>(&muon), static_cast<Optimizer*>(&adamw)}) {
    SetGrad(optimizer->parameters()[0], gradient);
    optimizer->Step({.rate_factor = 0.5});
  }
  EXPECT_EQ(muon.parameters()[0].master.ToDoubles(), adamw.parameters()[0].master.ToDoubles());
}

TEST(Muon, AnEmptyGroupIsLegal) {
  Muon muon({}, {}, {});
  muon.Step({});
  EXPECT_EQ(muon.clock(), 1);
}

TEST(Muon, ScalesBothRatesByTheSchedule) {
  World world;
  Muon muon({}, {},
            {Leaf(*world.backend, "w", {2, 2}, DType::kF64, {1, 2, 3, 4}, ParameterRole::kMatrix),
             Leaf(*world.backend, "n", {2}, DType::kF64, {1, 2}, ParameterRole::kVector)});
  SetGrad(muon.parameters()[0], {1, 0, 0, 1});
  SetGrad(muon.parameters()[1], {1, 1});
  muon.Step({.rate_factor = 0});
  EXPECT_EQ(muon.parameters()[0].master.ToDoubles(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(muon.parameters()[1].master.ToDoubles(), (std::vector<double>{1, 2}));
}

TEST(Muon, OrthogonalizePutsSingularValuesNearOne) {
  World world;
  // A diagonal matrix keeps its form; the polynomial keeps values in [0.68, 1.13] or so.
  const Tensor x = FromDoubles(*world.backend, {3, 3}, DType::kF64, {5, 0, 0, 0, 2, 0, 0, 0, 1});
  const std::vector<double> y = Orthogonalize(x).ToDoubles();
  for (int i = 0; i < 9; ++i) {
    if (i % 4 == 0) {
      EXPECT_GT(y[i], 0.6);
      EXPECT_LT(y[i], 1.3);
    } else {
      EXPECT_EQ(y[i], 0);
    }
  }
}

}  // namespace
}  // namespace lorica
