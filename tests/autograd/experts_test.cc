#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lorica/autograd/gradcheck.h"
#include "lorica/autograd/ops.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/expert_toy.h"
#include "support/tensor_matchers.h"

namespace lorica {
namespace {

using testing::ExpertToy;
using testing::Near;
using testing::SameBits;
using testing::ToyActivations;
using testing::ToyKind;
using testing::ToyOptions;

constexpr RouterWeightPlacement kPlacements[] = {RouterWeightPlacement::kBeforeDown,
                                                 RouterWeightPlacement::kAfterDown};
constexpr ToyKind kKinds[] = {ToyKind::kFused, ToyKind::kSplit, ToyKind::kSharedOuter};

class ExpertsTest : public ::testing::Test {
 protected:
  // Gradients of sum(y g) of every leaf.
  std::vector<Tensor> GradientsOf(ExpertToy& toy, bool reference = false) {
    for (const Tensor& leaf : toy.Leaves()) ZeroGrad(leaf);
    Tensor y = toy.Run(reference);
    RandomStream random(3, 3);
    std::vector<double> g(static_cast<size_t>(y.numel()));
    for (double& v : g) v = random.Uniform() - 0.3;
    Backward(y, raw::Cast(Tensor::FromHost<double>(*backend_, y.shape(), g), y.dtype()));
    std::vector<Tensor> grads = {y.Detach()};
    for (const Tensor& leaf : toy.Leaves()) grads.push_back(Grad(leaf));
    return grads;
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(ExpertsTest, GradientsAgreeWithDifferences) {
  for (const auto& [name, activation] : ToyActivations()) {
    for (RouterWeightPlacement placement : kPlacements) {
      for (ToyKind kind : kKinds) {
        ToyOptions options;
        options.activation = activation;
        options.placement = placement;
        options.kind = kind;
        options.bias = options.train_weights = true;
        ExpertToy toy(*backend_, options);
        EXPECT_EQ(Gradcheck([&](const auto&) { return toy.Run(); }, toy.Leaves()), "")
            << name << " kind " << static_cast<int>(kind);
      }
    }
  }
}

TEST_F(ExpertsTest, GradientsWithDropoutAgreeWithDifferences) {
  for (ToyKind kind : kKinds) {
    ToyOptions options;
    options.kind = kind;
    options.dropout = 0.4;
    ExpertToy toy(*backend_, options);
    EXPECT_EQ(Gradcheck([&](const auto&) { return toy.Run(); }, toy.Leaves()), "");
  }
}

TEST_F(ExpertsTest, AgreesWithTheReference) {
  for (int64_t top_k : {1, 3, 5}) {
    for (const auto& [name, activation] : ToyActivations()) {
      for (RouterWeightPlacement placement : kPlacements) {
        ToyOptions options;
        options.tokens = 37;
        options.top_k = top_k;
        options.experts = 7;
        options.width = 24;
        options.inner = 18;
        options.rank = 5;
        options.activation = activation;
        options.placement = placement;
        options.kind = kKinds[top_k % 3];
        options.bias = true;
        options.slots = 2;
        options.dropout = top_k == 3 ? 0.3 : 0;
        ExpertToy toy(*backend_, options);
        toy.spans = AdapterSpans({{1, 0, 11}, {-1, 11, 20}, {0, 20, 37}}, 37);
        toy.sequences.offsets = {0, 5, 5, 23, 37};
        const auto got = GradientsOf(toy), want = GradientsOf(toy, true);
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(Near(got[i], want[i], 1e-12)) << name << " K " << top_k << " tensor " << i;
        }
      }
    }
  }
}

TEST_F(ExpertsTest, StepwiseNumericsRoundLikeTheReference) {
  for (const auto& [name, activation] : ToyActivations()) {
    for (RouterWeightPlacement placement : kPlacements) {
      for (ToyKind kind : {ToyKind::kFused, ToyKind::kSharedOuter}) {
        ToyOptions options;
        options.tokens = 20;
        options.width = 16;
        options.inner = 8;
        options.activation = activation;
        options.placement = placement;
        options.kind = kind;
        options.numerics = ExpertNumerics::kAutomodel;
        options.dtype = DType::kBF16;
        options.bias = placement == RouterWeightPlacement::kAfterDown;  // see ExpertsReference
        ExpertToy toy(*backend_, options);
        const auto got = GradientsOf(toy), want = GradientsOf(toy, true);
        EXPECT_TRUE(SameBits(got[0], want[0])) << name;
        for (size_t i = 1; i < got.size(); ++i) {
          EXPECT_TRUE(Near(got[i], want[i], 2e-2)) << name << " tensor " << i;
        }
      }
    }
  }
}

TEST_F(ExpertsTest, AZeroAdapterChangesNoBit) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (ExpertNumerics numerics : {ExpertNumerics::kFast, ExpertNumerics::kAutomodel}) {
      for (RouterWeightPlacement placement : kPlacements) {
        ToyOptions options;
        options.tokens = 40;
        options.width = 20;
        options.inner = 12;
        options.dtype = dtype;
        options.numerics = numerics;
        options.placement = placement;
        options.zero_b = true;
        options.bias = true;
        ExpertToy toy(*backend_, options);
        const auto with = GradientsOf(toy);
        toy.options.kind = ToyKind::kNone;
        const auto without = GradientsOf(toy);
        for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(SameBits(with[i], without[i])) << i;
        // The branch did run: B has a gradient.
        double largest = 0;
        for (double v : with.back().ToDoubles()) largest = std::max(largest, std::abs(v));
        EXPECT_GT(largest, 1e-3);
      }
    }
  }
}

TEST_F(ExpertsTest, IdleExpertsAreNeverReadAndGetZeros) {
  for (RouterWeightPlacement placement : kPlacements) {
    ToyOptions options;
    options.dtype = DType::kF32;
    options.idle = 2;
    options.placement = placement;
    options.train_weights = options.bias = true;
    ExpertToy toy(*backend_, options);
    for (Tensor* t : {&toy.w1, &toy.w2, &toy.b1, &toy.b2}) {
      const int64_t size = t->numel() / options.experts;
      for (int64_t i = 0; i < size; ++i) {
        t->mutable_data<float>()[2 * size + i] = std::numeric_limits<float>::infinity();
      }
    }
    const auto leaves = toy.Leaves();
    const auto grads = GradientsOf(toy);
    for (double v : grads[0].ToDoubles()) EXPECT_TRUE(std::isfinite(v));
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].dim(0) != options.experts || leaves[i].rank() < 2) continue;
      const Tensor idle = raw::Contiguous(grads[i + 1].Narrow(0, 2, 1));
      for (double v : idle.ToDoubles()) EXPECT_EQ(v, 0) << "leaf " << i;
    }
  }
}

TEST_F(ExpertsTest, NoRouteGivesZerosEverywhere) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int64_t tokens : {0, 6}) {
      for (RouterWeightPlacement placement : kPlacements) {
        ToyOptions options;
        options.tokens = tokens;
        options.dtype = dtype;
        options.placement = placement;
        options.bias = options.train_weights = true;
        ExpertToy toy(*backend_, options);
        // Numbers of other ranks' experts, the count of all, and -1.
        const std::vector<int32_t> away = {-1, 5, 7, 5, -1, 6, 5, 5, 9, -1, 5, 5};
        toy.plan = std::make_shared<const DispatchPlan>(
            MakeDispatchPlan(absl::MakeConstSpan(away).subspan(0, 2 * tokens), tokens, 2, 5));
        const auto leaves = toy.Leaves();
        const auto grads = GradientsOf(toy);
        for (size_t i = 0; i < grads.size(); ++i) {
          ASSERT_TRUE(grads[i].defined()) << i;
          if (i > 0) {
            EXPECT_EQ(grads[i].shape(), leaves[i - 1].shape());
          }
          for (double v : grads[i].ToDoubles()) ASSERT_EQ(v, 0) << i;
        }
      }
    }
  }
}

TEST_F(ExpertsTest, AdapterGradientsDependNeitherOnBatchNorThreads) {
  ThreadPool one(1), three(3);
  const auto backend_one = MakeCpuBackend(one), backend_three = MakeCpuBackend(three);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (ToyKind kind : kKinds) {
      ToyOptions options;
      options.tokens = 700;
      options.top_k = 3;
      options.width = 24;
      options.inner = 16;
      options.kind = kind;
      options.dtype = dtype;
      // All tokens at once, as sequences of 290, 10 and 400 tokens.
      std::vector<std::vector<Tensor>> runs;
      for (Backend* backend : {backend_one.get(), backend_three.get()}) {
        ExpertToy toy(*backend, options);
        toy.sequences.offsets = {0, 290, 300, 700};
        Backward(toy.Run(), toy.Random({700, 24}, dtype, false));
        runs.emplace_back();
        for (const Tensor& leaf : toy.Leaves()) runs.back().push_back(Grad(leaf));
      }
      // One sequence after the other.
      ExpertToy toy(*backend_one, options);
      const Tensor all_x = toy.x, all_weights = toy.weights;
      const Tensor g = toy.Random({700, 24}, dtype, false);
      const std::vector<int32_t> choices = toy.choices;
      const int64_t offsets[] = {0, 290, 300, 700};
      for (int s = 0; s < 3; ++s) {
        const int64_t begin = offsets[s], count = offsets[s + 1] - begin;
        toy.x = all_x.Narrow(0, begin, count);
        toy.weights = raw::Contiguous(all_weights.Narrow(0, begin, count));
        toy.plan = std::make_shared<const DispatchPlan>(MakeDispatchPlan(
            absl::MakeConstSpan(choices).subspan(3 * begin, 3 * count), count, 3, 5));
        toy.sequences = Sequences::Single(count);
        Backward(toy.Run(), raw::Contiguous(g.Narrow(0, begin, count)));
      }
      const auto leaves = toy.Leaves();
      for (size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_TRUE(SameBits(runs[0][i], runs[1][i])) << "threads, leaf " << i;
        if (i < 2) continue;  // x and weights were cut
        EXPECT_TRUE(SameBits(Grad(leaves[i]), runs[0][i])) << "batches, leaf " << i;
      }
    }
  }
}

TEST_F(ExpertsTest, SlotsOfOneBatchDontTouchEachOther) {
  ToyOptions options;
  options.slots = 2;
  options.dtype = DType::kF32;
  ExpertToy both(*backend_, options);
  both.spans = AdapterSpans({{0, 0, 4}, {1, 4, 9}}, 9);
  const auto mixed = GradientsOf(both);
  both.spans = AdapterSpans({{0, 0, 4}, {-1, 4, 9}}, 9);
  const auto alone = GradientsOf(both);
  // Slot 0's factors come first in gate_up and in down.
  for (size_t i : {3, 4, 7, 8}) EXPECT_TRUE(SameBits(mixed[i], alone[i])) << i;
  for (size_t i : {5, 6, 9, 10}) {
    for (double v : alone[i].ToDoubles()) EXPECT_EQ(v, 0);
  }
}

TEST_F(ExpertsTest, ChoicesAreAddedInTheirOrderAfterDown) {
  // Contributions 3, 1e20 and -1e20 in the order of the choices, which isn't that of the experts.
  const std::vector<float> w2 = {1e20f, -1e20f, 3.0f};
  ExpertsArgs args;
  args.gate_up.weight = Weight(Tensor::Full(*backend_, {3, 1, 1}, DType::kF32, 1), Tensor());
  args.down.weight = Weight(Tensor::FromHost<float>(*backend_, {3, 1, 1}, w2), Tensor());
  args.activation.kind = GatedActivation::Kind::kRelu2;
  args.plan = std::make_shared<const DispatchPlan>(MakeDispatchPlan({2, 0, 1}, 1, 3, 3));
  const Tensor x = Tensor::Full(*backend_, {1, 1}, DType::kF32, 1);
  const Tensor w = Tensor::Full(*backend_, {1, 3}, DType::kF32, 1);
  EXPECT_EQ(Experts(x, w, args).item(), 0);
  args.placement = RouterWeightPlacement::kBeforeDown;
  EXPECT_EQ(Experts(x, w, args).item(), 3);
}

TEST_F(ExpertsTest, RecomputeGivesTheSameBits) {
  ToyOptions options;
  options.tokens = 30;
  options.dtype = DType::kF32;
  ExpertToy toy(*backend_, options);
  const Tensor g = toy.Random({30, 6}, DType::kF32, false);
  std::vector<std::vector<Tensor>> runs;
  for (bool recompute : {false, true}) {
    for (const Tensor& leaf : toy.Leaves()) ZeroGrad(leaf);
    const auto block = [&](const Tensor& x) { return toy.RunOn(Mul(x, x)); };
    Backward(recompute ? Recompute(block, toy.x) : block(toy.x), g);
    runs.emplace_back();
    for (const Tensor& leaf : toy.Leaves()) runs.back().push_back(Grad(leaf));
  }
  for (size_t i = 0; i < runs[0].size(); ++i) EXPECT_TRUE(SameBits(runs[1][i], runs[0][i])) << i;
}

TEST_F(ExpertsTest, SavesOneInputAndTheNarrowProducts) {
  ToyOptions options;
  options.tokens = 64;
  options.dtype = DType::kF32;
  options.kind = ToyKind::kNone;
  ExpertToy bare(*backend_, options);
  const size_t base = SavedBytes(bare.Run());
  options.kind = ToyKind::kFused;
  ExpertToy toy(*backend_, options);
  const size_t rows = 64 * 2, padded = 4;
  // x once; t of both projections; the padded copies of A and B.
  const size_t copies = 5 * padded * ((6 + 8) + (4 + 6));
  EXPECT_EQ(SavedBytes(toy.Run()) - base, 4 * (64 * 6 + 2 * rows * padded + copies));
}

TEST_F(ExpertsTest, WrongShapesAreNamed) {
  ToyOptions options;
  ExpertToy toy(*backend_, options);
  toy.w2 = toy.Random({5, 6, 5}, DType::kF64, false);
  try {
    toy.Run();
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("[experts] down must be [5, out, 4]"), std::string::npos)
        << e.what();
  }
}

TEST(DispatchPlanTest, RowsAreSortedStablyByExpert) {
  const DispatchPlan plan = MakeDispatchPlan({2, 0, 1, 0, 0, 2}, 3, 2, 3, {}, 0);
  EXPECT_EQ(plan.offsets.offsets, (std::vector<int32_t>{0, 3, 4, 6}));
  EXPECT_EQ(plan.token_of_row, (std::vector<int32_t>{0, 1, 2, 1, 0, 2}));
  EXPECT_EQ(plan.choice_of_row, (std::vector<int32_t>{1, 3, 4, 2, 0, 5}));
  EXPECT_EQ(plan.rows_in_slots, (std::vector<int32_t>{4, 0, 3, 1, 2, 5}));
  EXPECT_EQ(plan.rows_by_expert, (std::vector<int32_t>{0, 4, 1, 3, 2, 5}));
}

TEST(DispatchPlanTest, MaskedTokensAndOtherRanksExpertsHaveNoRow) {
  const std::vector<uint8_t> valid = {1, 0, 1};
  const DispatchPlan plan = MakeDispatchPlan({2, 3, 2, 3, 4, -1}, 3, 2, 2, valid, 2);
  EXPECT_EQ(plan.offsets.offsets, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(plan.rows_in_slots, (std::vector<int32_t>{0, 1, -1, -1, -1, -1}));
  EXPECT_EQ(plan.rows_by_expert, (std::vector<int32_t>{0, 1, -1, -1, -1, -1}));
}

}  // namespace
}  // namespace lorica
