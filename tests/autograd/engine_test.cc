#include <gtest/gtest.h>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/ops.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/tensor_matchers.h"

namespace lorica {
namespace {

using testing::Near;
using testing::SameBits;

class EngineTest : public ::testing::Test {
 protected:
  Tensor Leaf(const Shape& shape, std::vector<double> values, DType dtype = DType::kF64) {
    Tensor x = raw::Cast(Tensor::FromHost<double>(*backend_, shape, values), dtype);
    SetRequiresGrad(x, true);
    return x;
  }
  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(EngineTest, SumsGradientsOfSeveralUses) {
  const Tensor x = Leaf({2}, {3, -2});
  Backward(Sum(Add(Mul(x, x), x)));
  EXPECT_TRUE(Near(Grad(x), {7, -3}, 1e-15));
}

TEST_F(EngineTest, AddsUpOverBackwardCallsUntilZeroGrad) {
  const Tensor x = Leaf({1}, {2});
  Backward(Mul(x, x));
  Backward(Mul(x, x));
  EXPECT_TRUE(Near(Grad(x), {8}, 1e-15));
  ZeroGrad(x);
  EXPECT_FALSE(Grad(x).defined());
}

TEST_F(EngineTest, Bf16LeavesAccumulateInF32) {
  const Tensor x = Leaf({1}, {1}, DType::kBF16);
  for (int i = 0; i < 300; ++i) Backward(Affine(x, 1.0));
  EXPECT_EQ(Grad(x).dtype(), DType::kF32);
  EXPECT_EQ(Grad(x).item(), 300);  // a bf16 sum would stop at 256
}

TEST_F(EngineTest, ChainOf200000OpsRunsBackwardAndIsTornDown) {
  const Tensor x = Leaf({1}, {1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = Affine(y, 1.0);
  Backward(y);
  EXPECT_EQ(Grad(x).item(), 1);
  Tensor unused = x;
  for (int i = 0; i < 200000; ++i) unused = Affine(unused, 1.0);
  unused = Tensor();  // never run backward
}

TEST_F(EngineTest, ThrowsWhenASavedTensorWasOverwritten) {
  Tensor x = Leaf({2}, {1, 2}), w = Leaf({2}, {3, 4});
  const Tensor y = Mul(x, w);
  w.mutable_data<double>()[0] = 9;
  try {
    Backward(Sum(y));
    FAIL() << "an overwritten tensor was used";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[mul]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("overwritten"), std::string::npos) << error.what();
  }
}

TEST_F(EngineTest, SecondBackwardNeedsRetainGraph) {
  const Tensor x = Leaf({1}, {3});
  const Tensor y = Square(x);
  Backward(y, Tensor(), {.retain_graph = true});
  Backward(y);
  EXPECT_EQ(Grad(x).item(), 12);
  EXPECT_THROW(Backward(y), Error);
}

TEST_F(EngineTest, BackwardWithoutGradientThrows) {
  const Tensor x = Tensor::Full(*backend_, {1}, DType::kF64, 1);
  EXPECT_THROW(Backward(Square(x)), Error);
}

TEST_F(EngineTest, OnlyLeavesCanBeMarked) {
  const Tensor x = Leaf({1}, {3});
  Tensor y = Square(x);
  EXPECT_THROW(SetRequiresGrad(y, true), Error);
  Tensor ids = Tensor::Zeros(*backend_, {1}, DType::kI32);
  EXPECT_THROW(SetRequiresGrad(ids, true), Error);
}

TEST_F(EngineTest, GradientsCaptureIntermediateValues) {
  const Tensor x = Leaf({1}, {3});
  const Tensor y = Square(x), z = Exp(Affine(y, 0.1));
  const std::vector<Tensor> grads = Gradients(z, Tensor(), {{y}});
  EXPECT_TRUE(Near(grads[0], {0.1 * std::exp(0.9)}, 1e-14));
  EXPECT_FALSE(Grad(x).defined());  // the walk stops at y
}

TEST_F(EngineTest, NoGradRecordsNothing) {
  const Tensor x = Leaf({1}, {3});
  NoGrad no_grad;
  EXPECT_FALSE(RequiresGrad(Square(x)));
}

TEST_F(EngineTest, PlacementsMustAgree) {
  Tensor a = Tensor::Full(*backend_, {2}, DType::kF32, 1), b = a.Detach();
  b.set_placement(Placement::Partial());
  EXPECT_THROW(Add(a, b), Error);
  a.set_placement(Placement::Partial());
  EXPECT_EQ(Add(a, b).placement(), Placement::Partial());
}

// A residual block in bf16 whose input is used twice: with and without recompute the same bits,
// less is kept.
TEST_F(EngineTest, RecomputeGivesTheSameBitsAndKeepsLess) {
  const auto run = [&](bool recompute, size_t* saved) {
    Tensor w =
        Leaf({4, 4}, {1, -2, 3, -4, .5, .6, -.7, .8, 2, 1, .1, -.2, 3, .3, -1, 1}, DType::kBF16);
    Tensor x = Leaf({3, 4}, {1, 2, 3, 4, -1, .5, .25, 3, 1.5, -2, 3.5, 1}, DType::kBF16);
    const auto block = [w](const Tensor& in) {
      const Tensor h = Silu(Linear(in, {.weight = w}));
      return Add(in, Mul(Linear(h, {.weight = w}), Sigmoid(h)));
    };
    Tensor y = Affine(x, 1.5);
    for (int i = 0; i < 3; ++i) y = recompute ? Recompute(block, y) : block(y);
    *saved = SavedBytes(y);
    Backward(y);
    return std::vector<Tensor>{y, Grad(w), Grad(x)};
  };
  size_t plain_bytes = 0, recompute_bytes = 0;
  const auto plain = run(false, &plain_bytes), again = run(true, &recompute_bytes);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(SameBits(again[i], plain[i])) << i;
  EXPECT_LT(recompute_bytes, plain_bytes);
}

// The input of a trained linear behind a norm or SwiGLU isn't kept: those ops make it again.
TEST_F(EngineTest, CheapResultsAreMadeAgainInsteadOfKept) {
  const Tensor x = Leaf({2, 3}, {1, -2, 3, 4, 5, -6}), g = Leaf({3}, {1, 2, 3});
  const Tensor w = Leaf({2, 3}, {1, 2, 3, 4, 5, 6}), v = Leaf({2, 3}, {3, 2, 1, 0, -1, -2});
  const Tensor n = RmsNorm(x, g, 1e-6);
  const Tensor y = Add(Linear(n, {.weight = w}), Linear(n, {.weight = v}));
  // x, rstd and the norm's weight; the two weights. Not n.
  EXPECT_EQ(SavedBytes(y), (6 + 2 + 3 + 6 + 6) * sizeof(double));
  Backward(y, Tensor(), {.retain_graph = true});
  const std::vector<double> once = Grad(w).ToDoubles();
  Backward(y);
  EXPECT_TRUE(Near(Grad(w),
                   {2 * once[0], 2 * once[1], 2 * once[2], 2 * once[3], 2 * once[4], 2 * once[5]},
                   1e-15));
  std::vector<double> want(3, 0.0);
  const std::vector<double> values = n.ToDoubles();
  for (int i = 0; i < 6; ++i) want[i % 3] += values[i];
  EXPECT_TRUE(Near(std::vector<double>(once.begin(), once.begin() + 3), want, 1e-15));
}

// Frozen input: the leaves inside the block still get their gradients.
TEST_F(EngineTest, RecomputeReachesLeavesBehindAFrozenInput) {
  const Tensor w = Leaf({1}, {3}), x = Tensor::Full(*backend_, {1}, DType::kF64, 2);
  Backward(Recompute([w](const Tensor& in) { return Mul(in, Square(w)); }, x));
  EXPECT_EQ(Grad(w).item(), 12);
}

}  // namespace
}  // namespace lorica
