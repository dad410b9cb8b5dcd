#include "lorica/optim/clip.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "optim/golden.h"

namespace lorica {
namespace {

TEST(Clip, EqualsPyTorch) {
  World world;
  for (const nlohmann::json& c : Golden()["clip"]) {
    ParameterGroup group;
    for (const nlohmann::json& values : c["gradients"]) {
      const std::vector<double> gradient = values;
      group.push_back(Leaf(*world.backend, absl::StrCat("p", group.size()),
                           {static_cast<int64_t>(gradient.size())}, DType::kF64, gradient,
                           ParameterRole::kVector));
      SetGrad(group.back(), gradient);
    }
    const double norm = GradientNorm(group);
    EXPECT_DOUBLE_EQ(norm, c["norm"].get<double>());
    const double coefficient = ClipCoefficient(norm, c["max_norm"]);
    for (size_t i = 0; i < group.size(); ++i) {
      std::vector<double> clipped = Grad(group[i].master).ToDoubles();
      for (double& value : clipped) value *= coefficient;
      EXPECT_LE(RelativeError(clipped, c["clipped"][i]), 1e-15);
    }
  }
}

TEST(Clip, ZeroMeansOff) { EXPECT_EQ(ClipCoefficient(1e30, 0), 1); }

TEST(Clip, NormOfTheScaledSum) {
  World world;
  const NamedParameter p =
      Leaf(*world.backend, "p", {2}, DType::kF32, {0, 0}, ParameterRole::kVector);
  EXPECT_EQ(GradientNorm({p}), 0);  // no gradient has arrived
  SetGrad(p, {30, 40});
  EXPECT_DOUBLE_EQ(GradientNorm({p}, 0.1), 5);
  ZeroGrad({p});
  EXPECT_EQ(GradientNorm({p}), 0);
}

TEST(Clip, ANotFiniteGradientShows) {
  World world;
  const NamedParameter p =
      Leaf(*world.backend, "p", {2}, DType::kF32, {0, 0}, ParameterRole::kVector);
  SetGrad(p, {1, std::nan("")});
  EXPECT_TRUE(std::isnan(GradientNorm({p})));
  SetGrad(p, {1, INFINITY});
  EXPECT_FALSE(std::isfinite(GradientNorm({p})));
  // Values whose squares overflow f32 are still finite.
  SetGrad(p, {1e30, 1e30});
  EXPECT_NEAR(GradientNorm({p}) / (1e30 * std::sqrt(2.0)), 1, 1e-6);
}

}  // namespace
}  // namespace lorica
