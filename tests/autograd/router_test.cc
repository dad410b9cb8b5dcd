#include "lorica/autograd/router.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/gradcheck.h"
#include "lorica/autograd/kept_choice.h"
#include "lorica/autograd/ops.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "support/tensor_matchers.h"

namespace lorica {
namespace {

using testing::Near;
using testing::SameBits;

class RouterTest : public ::testing::Test {
 protected:
  Tensor Logits(int64_t tokens, int64_t experts, bool leaf = true) {
    RandomStream random(11, 4);
    std::vector<double> values(static_cast<size_t>(tokens * experts));
    for (double& v : values) v = 2 * random.Normal();
    Tensor t = Tensor::FromHost<double>(*backend_, {tokens, experts}, values);
    if (leaf) SetRequiresGrad(t, true);
    return t;
  }
  Tensor Row(const std::vector<float>& values) {
    return Tensor::FromHost<float>(*backend_, {1, static_cast<int64_t>(values.size())}, values);
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

std::vector<RouterOptions> AllOptions() {
  std::vector<RouterOptions> all;
  for (ScoreFunction score :
       {ScoreFunction::kSoftmax, ScoreFunction::kSigmoid, ScoreFunction::kSqrtSoftplus}) {
    for (bool after : {false, true}) {
      for (bool normalize : {false, true}) {
        for (int64_t groups : {1, 4}) {
          if (after && score != ScoreFunction::kSoftmax) continue;
          RouterOptions o;
          o.top_k = 3;
          o.score = score;
          o.softmax_after_topk = after;
          o.normalize = normalize;
          o.groups = groups;
          o.top_groups = 2;
          o.group_score =
              normalize ? RouterOptions::GroupScore::kMax : RouterOptions::GroupScore::kTopTwoSum;
          o.scale = 2.5;
          all.push_back(o);
        }
      }
    }
  }
  return all;
}

TEST_F(RouterTest, GradientsAgreeWithDifferences) {
  for (const RouterOptions& options : AllOptions()) {
    for (bool biased : {false, true}) {
      RouterOptions o = options;
      o.bias_in_weights = biased && o.normalize;
      Tensor logits = Logits(7, 8);
      const std::vector<double> bias = {0.1, -0.2, 0.3, 0, 0.05, -0.1, 0.2, -0.3};
      const Tensor b = biased ? Tensor::FromHost<double>(*backend_, {8}, bias) : Tensor();
      EXPECT_EQ(Gradcheck([&](const auto& x) { return Route(x[0], o, b).weights; }, {logits}), "");
      EXPECT_EQ(Gradcheck(
                    [&](const auto& x) {
                      return LoadBalancingLoss(x[0], o, *Route(x[0], o, b).experts,
                                               {1, 1, 0, 1, 1, 1, 1});
                    },
                    {logits}),
                "");
    }
  }
}

TEST_F(RouterTest, EqualScoresGoToTheLowestNumbers) {
  const Routing routing = Route(Row({1, 3, 3, 1, 3, 0}), {.top_k = 4});
  EXPECT_EQ(*routing.experts, (std::vector<int32_t>{1, 2, 4, 0}));
}

TEST_F(RouterTest, TheCorrectionBiasChoosesButDoesntWeigh) {
  const std::vector<float> bias = {0, 0, 10, 0};
  const Tensor b = Tensor::FromHost<float>(*backend_, {4}, bias);
  const RouterOptions o = {.top_k = 2, .score = ScoreFunction::kSigmoid};
  const Routing routing = Route(Row({2, 1, -3, 0}), o, b);
  EXPECT_EQ(*routing.experts, (std::vector<int32_t>{2, 0}));
  const std::vector<double> want = {1 / (1 + std::exp(3.0)), 1 / (1 + std::exp(-2.0))};
  EXPECT_TRUE(Near(routing.weights, want, 1e-6));
}

TEST_F(RouterTest, AClosedGroupWinsOverNegativeScoresOnlyWithZero) {
  // Biased scores 0.8, -0.18 | 0.65, -0.27 | 0.01, 0.005: the last group is closed.
  const std::vector<float> bias = {0.3f, -0.68f, 0.15f, -0.77f, -0.49f, -0.495f};
  const Tensor b = Tensor::FromHost<float>(*backend_, {6}, bias);
  RouterOptions o = {.top_k = 3, .score = ScoreFunction::kSigmoid, .groups = 3, .top_groups = 2};
  const Tensor logits = Row({0, 0, 0, 0, 0, 0});
  EXPECT_EQ(*Route(logits, o, b).experts, (std::vector<int32_t>{0, 2, 4}));
  o.closed_group = RouterOptions::ClosedGroup::kMinusInfinity;
  EXPECT_EQ(*Route(logits, o, b).experts, (std::vector<int32_t>{0, 2, 1}));
}

TEST_F(RouterTest, GroupsByMaximumDifferFromPlainChoice) {
  // DeepSeek-V2: plain choice takes 0, 2, 4; two groups by their best member leave 0, 1, 2.
  RouterOptions o = {
      .top_k = 3, .groups = 3, .top_groups = 2, .group_score = RouterOptions::GroupScore::kMax};
  EXPECT_EQ(*Route(Row({5, 1, 4, 0, 3, 2}), o).experts, (std::vector<int32_t>{0, 2, 1}));
  o.groups = 1;
  EXPECT_EQ(*Route(Row({5, 1, 4, 0, 3, 2}), o).experts, (std::vector<int32_t>{0, 2, 4}));
}

TEST_F(RouterTest, LoadAndCorrectionBias) {
  const std::vector<int32_t> experts = {0, 1, 0, 2, 0, 1};
  EXPECT_EQ(ExpertLoad(experts, 4, 3), (std::vector<int64_t>{3, 2, 1, 0}));
  EXPECT_EQ(ExpertLoad(experts, 4, 3, {1, 0, 1}), (std::vector<int64_t>{2, 2, 0, 0}));
  Tensor bias = Tensor::Zeros(*backend_, {4}, DType::kF32);
  UpdateCorrectionBias(bias, {3, 2, 1, 2}, 0.001);
  EXPECT_TRUE(Near(bias, {-0.001, 0, 0.001, 0}, 1e-6));
}

TEST_F(RouterTest, ABalancedRouterHasLossOne) {
  // Every expert once, equal probabilities.
  const Tensor logits = Tensor::Zeros(*backend_, {2, 4}, DType::kF64);
  EXPECT_NEAR(LoadBalancingLoss(logits, {.top_k = 2}, {0, 1, 2, 3}).item(), 1, 1e-12);
}

TEST_F(RouterTest, AnAttachedLossGetsItsOwnGradient) {
  Tensor logits = Logits(5, 4);
  const RouterOptions o = {.top_k = 2};
  const Routing routing = Route(logits, o);
  const Tensor loss = LoadBalancingLoss(logits, o, *routing.experts);
  Backward(AttachLoss(routing.weights, loss, 0.25), Tensor::Zeros(*backend_, {5, 2}, DType::kF64));
  const Tensor got = Grad(logits);
  ZeroGrad(logits);
  Backward(LoadBalancingLoss(logits, o, *routing.experts),
           Tensor::Full(*backend_, {}, DType::kF64, 0.25));
  EXPECT_TRUE(SameBits(got, Grad(logits)));
}

TEST_F(RouterTest, ARecomputedBlockKeepsItsExperts) {
  Tensor logits = Logits(6, 8);
  std::vector<std::vector<int32_t>> seen;
  const Tensor y = Recompute(
      [&](const Tensor& x) {
        const Routing routing = Route(x, {.top_k = 2});
        seen.push_back(*routing.experts);
        return routing.weights;
      },
      logits);
  // What the second run would choose by itself is something else by now.
  EXPECT_EQ(seen.size(), 1u);
  int made = 0;
  const auto block = [&](const Tensor& x) {
    const auto outer = KeepChoice<int>([&] { return ++made; });
    const Tensor inner = Recompute(
        [&made, outer](const Tensor& z) {
          const auto choice = KeepChoice<int>([&] { return ++made; });
          EXPECT_EQ(*choice, *outer + 1);
          return Affine(z, *choice);
        },
        x);
    return Affine(inner, *outer);
  };
  Backward(Recompute(block, logits));
  EXPECT_EQ(made, 2);
  Backward(y);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(RouterTest, WrongOptionsAreNamed) {
  EXPECT_THROW(Route(Row({1, 2}), {.top_k = 3}), Error);
  EXPECT_THROW(Route(Row({1, 2, 3}), {.groups = 2, .top_groups = 1}), Error);
}

}  // namespace
}  // namespace lorica
