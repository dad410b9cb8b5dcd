// The default of Backend::LinearCrossEntropy against its definition in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "lorica/tensor/cpu_backend.h"
#include "matrix.h"

namespace lorica {
namespace {

using test::Matrix;

struct Problem {
  Matrix x, weight;
  std::vector<int32_t> targets;
};

Problem MakeProblem(int64_t tokens, int64_t channels, int64_t vocabulary, DType dtype) {
  Problem p;
  p.x = Matrix::Random(tokens, channels, dtype, 1);
  p.weight = Matrix::Random(vocabulary, channels, dtype, 2);
  for (int64_t t = 0; t < tokens; ++t) {
    p.targets.push_back(static_cast<int32_t>(t * 7 % vocabulary));
  }
  return p;
}

struct Result {
  Matrix loss, dx;
};

Result Evaluate(Backend& backend, const Problem& p, bool with_grad = true) {
  const DType accumulator = AccumulatorOf(p.x.dtype());
  Result r;
  r.loss = Matrix(1, p.x.rows(), accumulator);
  r.dx = Matrix(p.x.rows(), p.x.columns(), accumulator);
  LinearCrossEntropyArgs args;
  args.x = p.x.view();
  args.weight = p.weight.view();
  args.targets = p.targets;
  args.loss = r.loss.AsVector();
  if (with_grad) args.dx = r.dx.view();
  backend.LinearCrossEntropy(args);
  return r;
}

// One row in f64: loss and d loss / d x.
double Reference(const Problem& p, int64_t t, std::vector<double>& dx) {
  const int64_t vocabulary = p.weight.rows(), channels = p.x.columns();
  std::vector<double> logits(static_cast<size_t>(vocabulary));
  double greatest = -INFINITY, sum = 0;
  for (int64_t v = 0; v < vocabulary; ++v) {
    double& logit = logits[static_cast<size_t>(v)];
    for (int64_t c = 0; c < channels; ++c) logit += p.x.At(t, c) * p.weight.At(v, c);
    greatest = std::max(greatest, logit);
  }
  for (double logit : logits) sum += std::exp(logit - greatest);
  const double lse = greatest + std::log(sum);
  const int32_t target = p.targets[static_cast<size_t>(t)];
  dx.assign(static_cast<size_t>(channels), 0);
  for (int64_t v = 0; v < vocabulary; ++v) {
    const double g = std::exp(logits[static_cast<size_t>(v)] - lse) - (v == target ? 1 : 0);
    for (int64_t c = 0; c < channels; ++c) dx[static_cast<size_t>(c)] += g * p.weight.At(v, c);
  }
  return lse - logits[static_cast<size_t>(target)];
}

class LinearCrossEntropyTest : public testing::Test {
 protected:
  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(LinearCrossEntropyTest, MatchesTheDefinition) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    const Problem p = MakeProblem(13, 12, 50, dtype);
    const Result r = Evaluate(*backend_, p);
    // Operands are rounded before the comparison; what is left are f32 (f64) sums of 12 and 50.
    const double tolerance = dtype == DType::kF64 ? 1e-13 : 2e-5;
    for (int64_t t = 0; t < 13; ++t) {
      std::vector<double> dx;
      EXPECT_NEAR(r.loss.At(0, t), Reference(p, t, dx), tolerance);
      for (int64_t c = 0; c < 12; ++c) {
        EXPECT_NEAR(r.dx.At(t, c), dx[static_cast<size_t>(c)], tolerance);
      }
    }
  }
}

TEST_F(LinearCrossEntropyTest, IgnoredRowsAreExactlyZeroAndChangeNoOther) {
  const Problem all = MakeProblem(40, 16, 70, DType::kF32);
  const Result want = Evaluate(*backend_, all);
  Problem some = all;
  for (int t : {0, 1, 2, 9, 20, 21, 39}) {
    some.targets[static_cast<size_t>(t)] = -1;
    // What is not looked at may be anything.
    for (int64_t c = 0; c < 16; ++c) some.x.Set(t, c, NAN);
  }
  const Result got = Evaluate(*backend_, some);
  for (int64_t t = 0; t < 40; ++t) {
    if (some.targets[static_cast<size_t>(t)] < 0) {
      EXPECT_EQ(got.loss.At(0, t), 0);
      for (int64_t c = 0; c < 16; ++c) EXPECT_EQ(got.dx.At(t, c), 0);
    } else {
      EXPECT_EQ(got.loss.At(0, t), want.loss.At(0, t));
      EXPECT_TRUE(got.dx.SameBits(t, want.dx, t)) << t;
    }
  }
}

TEST_F(LinearCrossEntropyTest, BlocksOfRowsChangeNoBit) {
  // A vocabulary so large that a block holds few rows.
  const Problem p = MakeProblem(120, 3, 520000, DType::kF32);
  const Result whole = Evaluate(*backend_, p);
  Problem last = p;
  last.x = Matrix(1, 3, DType::kF32);
  for (int64_t c = 0; c < 3; ++c) last.x.Set(0, c, p.x.At(119, c));
  last.targets = {p.targets[119]};
  const Result one = Evaluate(*backend_, last);
  EXPECT_EQ(one.loss.At(0, 0), whole.loss.At(0, 119));
  EXPECT_TRUE(one.dx.SameBits(0, whole.dx, 119));
}

TEST_F(LinearCrossEntropyTest, LossAloneIsTheSame) {
  const Problem p = MakeProblem(20, 8, 33, DType::kBF16);
  EXPECT_TRUE(Evaluate(*backend_, p, false).loss.SameBits(Evaluate(*backend_, p).loss));
}

TEST_F(LinearCrossEntropyTest, NoTrainedRow) {
  Problem p = MakeProblem(4, 8, 33, DType::kF32);
  p.targets.assign(4, -1);
  const Result r = Evaluate(*backend_, p);
  for (int64_t t = 0; t < 4; ++t) EXPECT_EQ(r.loss.At(0, t), 0);
}

TEST_F(LinearCrossEntropyTest, ReturnsItsScratch) {
  const Problem p = MakeProblem(20, 8, 33, DType::kF32);
  Evaluate(*backend_, p);
  const MemoryStats before = backend_->allocator().stats();
  Evaluate(*backend_, p);
  const MemoryStats after = backend_->allocator().stats();
  EXPECT_EQ(after.active, before.active);
  EXPECT_EQ(after.raw_allocations, before.raw_allocations) << "a repeated call allocates nothing";
}

}  // namespace
}  // namespace lorica
