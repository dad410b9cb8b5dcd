// The gated delta rule: the recurrence as written, its gradients, lengths, sequences, threads.
#include "lorica/autograd/delta_rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/gradcheck.h"
#include "lorica/autograd/ops.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "support/tensor_matchers.h"

namespace lorica {
namespace {

using testing::Near;
using testing::SameBits;

constexpr int64_t kGroups = 2, kHeads = 4, kKeys = 5, kValues = 7;

struct Inputs {
  std::vector<Tensor> x;  // q, k, v, g, beta
};

class DeltaRuleTest : public ::testing::Test {
 protected:
  Inputs Random(Backend& backend, int64_t tokens, DType dtype) {
    Inputs inputs;
    int which = 0;
    for (const Shape& shape :
         {Shape{tokens, kGroups, kKeys}, Shape{tokens, kGroups, kKeys},
          Shape{tokens, kHeads, kValues}, Shape{tokens, kHeads}, Shape{tokens, kHeads}}) {
      RandomStream stream(5, static_cast<uint64_t>(which));
      std::vector<double> values(static_cast<size_t>(shape.numel()));
      for (double& value : values) {
        value = 0.6 * stream.Normal();
        if (which == 3) value = -std::abs(value);            // decay below 1
        if (which == 4) value = 1 / (1 + std::exp(-value));  // beta in (0, 1)
      }
      // One gate of exactly 0: the gradient must not divide by it.
      if (which == 4 && tokens > 1) values[kHeads + 1] = 0;
      inputs.x.push_back(raw::Cast(Tensor::FromHost<double>(backend, shape, values), dtype));
      ++which;
    }
    return inputs;
  }
  static Tensor Run(const std::vector<Tensor>& x, const Sequences& sequences) {
    return GatedDeltaRule(x[0], x[1], x[2], x[3], x[4], sequences);
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

std::vector<double> Reference(const Inputs& inputs, const Sequences& sequences) {
  const auto q = inputs.x[0].ToDoubles(), k = inputs.x[1].ToDoubles(), v = inputs.x[2].ToDoubles();
  const auto g = inputs.x[3].ToDoubles(), beta = inputs.x[4].ToDoubles();
  std::vector<double> y(v.size());
  for (int s = 0; s < sequences.groups(); ++s) {
    for (int64_t h = 0; h < kHeads; ++h) {
      double state[kKeys][kValues] = {};
      for (int64_t t = sequences.begin(s); t < sequences.begin(s) + sequences.size(s); ++t) {
        const double* qt = &q[(t * kGroups + h / 2) * kKeys];
        const double* kt = &k[(t * kGroups + h / 2) * kKeys];
        for (int64_t j = 0; j < kValues; ++j) {
          double memory = 0;
          for (int64_t i = 0; i < kKeys; ++i) {
            state[i][j] *= std::exp(g[t * kHeads + h]);
            memory += state[i][j] * kt[i];
          }
          const double delta = beta[t * kHeads + h] * (v[(t * kHeads + h) * kValues + j] - memory);
          for (int64_t i = 0; i < kKeys; ++i) {
            state[i][j] += kt[i] * delta;
            y[(t * kHeads + h) * kValues + j] += state[i][j] * qt[i];
          }
        }
      }
    }
  }
  return y;
}

TEST_F(DeltaRuleTest, IsTheRecurrence) {
  const Sequences sequences{{0, 1, 1, 14, 40}};
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const Inputs inputs = Random(*backend_, 40, dtype);
    EXPECT_TRUE(Near(Run(inputs.x, sequences), Reference(inputs, sequences),
                     dtype == DType::kF64 ? 1e-13 : 1e-5));
  }
}

// 13 and 1 tokens: several marks, an incomplete last block, a single step.
TEST_F(DeltaRuleTest, GradientsMatchDifferences) {
  for (const Sequences& sequences : {Sequences{{0, 13}}, Sequences{{0, 1, 6}}}) {
    Inputs inputs = Random(*backend_, sequences.rows(), DType::kF64);
    for (Tensor& x : inputs.x) SetRequiresGrad(x, true);
    EXPECT_EQ(Gradcheck([&](const std::vector<Tensor>& x) { return Run(x, sequences); }, inputs.x),
              "");
  }
}

TEST_F(DeltaRuleTest, ThreadsAndNeighboursChangeNoBit) {
  const auto run = [&](Backend& backend, const Sequences& sequences, int64_t from, int64_t to) {
    Inputs all = Random(backend, 90, DType::kF32);
    std::vector<Tensor> x;
    for (const Tensor& tensor : all.x) {
      x.push_back(raw::Clone(tensor.Narrow(0, from, to - from)));
      SetRequiresGrad(x.back(), true);
    }
    const Tensor y = Run(x, sequences);
    Backward(Sum(Square(y)));
    std::vector<std::vector<double>> results = {y.ToDoubles()};
    for (const Tensor& leaf : x) results.push_back(Grad(leaf).ToDoubles());
    return results;
  };
  ThreadPool one(1), three(3);
  const auto single = MakeCpuBackend(one), many = MakeCpuBackend(three);
  const auto want = run(*single, {{0, 33, 90}}, 0, 90);
  EXPECT_EQ(run(*many, {{0, 33, 90}}, 0, 90), want);
  const auto alone = run(*single, {{0, 57}}, 33, 90);
  for (size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> tail(want[i].end() - static_cast<ptrdiff_t>(alone[i].size()),
                                   want[i].end());
    EXPECT_EQ(alone[i], tail) << i;
  }
}

// Two calls with the state handed over are one.
TEST_F(DeltaRuleTest, StateContinues) {
  const Inputs inputs = Random(*backend_, 11, DType::kF64);
  const std::vector<double> want = Reference(inputs, {{0, 11}});
  Tensor state = Tensor::Zeros(*backend_, {1, kHeads, kKeys, kValues}, DType::kF64);
  std::vector<double> got;
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 4}, {4, 5}, {5, 11}}) {
    std::vector<Tensor> x;
    for (const Tensor& tensor : inputs.x) {
      x.push_back(raw::Contiguous(tensor.Narrow(0, from, to - from)));
    }
    const Sequences sequences = Sequences::Single(to - from);
    Tensor y = Tensor::Empty(*backend_, x[2].shape(), DType::kF64);
    backend_->DeltaRule({.sequences = &sequences,
                         .q = x[0].view(),
                         .k = x[1].view(),
                         .v = x[2].view(),
                         .g = x[3].view(),
                         .beta = x[4].view(),
                         .y = y.mutable_view(),
                         .state = state.mutable_view()});
    for (double value : y.ToDoubles()) got.push_back(value);
  }
  EXPECT_TRUE(Near(got, want, 1e-13));
}

// Two sequences, each in two pieces, one of which may be empty. The state given stays as it is.
TEST_F(DeltaRuleTest, ContinuingIsTheWholeSequence) {
  const NoGrad no_grad;
  const Sequences whole{{0, 11, 20}};
  const Inputs inputs = Random(*backend_, 20, DType::kF64);
  const Tensor want = Run(inputs.x, whole);
  const auto rows = [](const Tensor& x, int64_t from, int64_t to) {
    return x.Narrow(0, from, to - from);
  };
  const auto step = [&](const std::vector<Tensor>& x, const Sequences& sequences,
                        const Tensor& state) {
    return ContinueDeltaRule(x[0], x[1], x[2], x[3], x[4], sequences, state);
  };
  const Tensor zeros = Tensor::Zeros(*backend_, {2, kHeads, kKeys, kValues}, DType::kF64);
  for (const auto& [first, second] : {std::pair<int64_t, int64_t>{4, 7}, {1, 9}, {0, 3}, {11, 8}}) {
    std::vector<Tensor> before, after;
    for (const Tensor& x : inputs.x) {
      const Tensor a = rows(x, 0, 11), b = rows(x, 11, 20);
      before.push_back(Concat({rows(a, 0, first), rows(b, 0, second)}, 0));
      after.push_back(Concat({rows(a, first, 11), rows(b, second, 9)}, 0));
    }
    const int32_t cut = static_cast<int32_t>(first);
    const Sequences head{{0, cut, static_cast<int32_t>(first + second)}};
    const Sequences tail{{0, 11 - cut, static_cast<int32_t>(20 - first - second)}};
    const DeltaRuleStep one = step(before, head, zeros);
    EXPECT_EQ(zeros.ToDoubles(), std::vector<double>(static_cast<size_t>(zeros.numel())));
    const std::vector<double> handed_over = one.state.ToDoubles();
    const DeltaRuleStep two = step(after, tail, one.state);
    EXPECT_EQ(one.state.ToDoubles(), handed_over);
    EXPECT_TRUE(Near(
        Concat({rows(one.y, 0, first), rows(two.y, 0, 11 - first),
                rows(one.y, first, first + second), rows(two.y, 11 - first, 20 - first - second)},
               0),
        want, 1e-12));
    EXPECT_TRUE(Near(two.state, step(inputs.x, whole, zeros).state, 1e-12));
  }
}

TEST_F(DeltaRuleTest, ContinuingChecksItsState) {
  const Inputs inputs = Random(*backend_, 6, DType::kF64);
  const auto step = [&](const Shape& shape, DType dtype) {
    const std::vector<Tensor>& x = inputs.x;
    ContinueDeltaRule(x[0], x[1], x[2], x[3], x[4], {{0, 2, 6}},
                      Tensor::Zeros(*backend_, shape, dtype));
  };
  EXPECT_THROW(step({2, kHeads, kKeys, kValues}, DType::kF64), Error);  // records nothing
  const NoGrad no_grad;
  EXPECT_NO_THROW(step({2, kHeads, kKeys, kValues}, DType::kF64));
  EXPECT_THROW(step({1, kHeads, kKeys, kValues}, DType::kF64), Error);
  EXPECT_THROW(step({2, kGroups, kKeys, kValues}, DType::kF64), Error);
  EXPECT_THROW(step({2, kHeads, kValues, kKeys}, DType::kF64), Error);
  EXPECT_THROW(step({2, kHeads, kKeys, kValues}, DType::kF32), Error);
}

TEST_F(DeltaRuleTest, ShapesAreChecked) {
  const Inputs inputs = Random(*backend_, 3, DType::kF32);
  std::vector<Tensor> x = inputs.x;
  x[2] = Tensor::Zeros(*backend_, {3, 3, kValues}, DType::kF32);  // 3 heads on 2
  EXPECT_THROW(Run(x, {{0, 3}}), Error);
  EXPECT_THROW(Run(inputs.x, {{0, 2}}), Error);
}

}  // namespace
}  // namespace lorica
