#include <cmath>
#include <limits>

#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

Values SoftmaxReference(const Values& x, int64_t cols, bool log) {
  Values y = x;
  for (size_t begin = 0; begin < x.size(); begin += static_cast<size_t>(cols)) {
    double max = -kInfinity, sum = 0;
    for (int64_t c = 0; c < cols; ++c) max = std::max(max, x[begin + static_cast<size_t>(c)]);
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(x[begin + static_cast<size_t>(c)] - max);
    for (int64_t c = 0; c < cols; ++c) {
      double& value = y[begin + static_cast<size_t>(c)];
      value = log ? value - max - std::log(sum) : std::exp(value - max) / sum;
    }
  }
  return y;
}

// Central differences of sum(dy * f(x)) by every element of x.
Values Differences(const Values& x, const Values& dy,
                   const std::function<Values(const Values&)>& f) {
  const double h = 1e-5;
  Values result;
  for (size_t i = 0; i < x.size(); ++i) {
    Values up = x, down = x;
    up[i] += h;
    down[i] -= h;
    const Values fu = f(up), fd = f(down);
    double sum = 0;
    for (size_t j = 0; j < dy.size(); ++j) sum += dy[j] * (fu[j] - fd[j]);
    result.push_back(sum / (2 * h));
  }
  return result;
}

// Tolerance of a gradient against differences, in units of the accumulator type.
double DifferenceUnits(DType dtype, double units) {
  return dtype == DType::kF64 ? 1e-8 / Epsilon(dtype) : units;
}

TEST(SoftmaxTest, MatchesReference) {
  for (DType dtype : ComputeTypes()) {
    for (const Shape& shape : {Shape{5, 1}, Shape{3, 2, 77}, Shape{300, 130}, Shape{0, 4}}) {
      for (bool log : {false, true}) {
        const HostTensor x = HostTensor::Random(shape, dtype, 1, -9, 9);
        const HostTensor y = SameOnAllThreads([&](Backend& backend) {
          HostTensor result(shape, dtype);
          backend.Softmax(x.view(), log, result.mutable_view());
          return result;
        });
        ExpectClose(y, SoftmaxReference(x.ToDoubles(), shape[-1], log), 8);
      }
    }
  }
}

TEST(SoftmaxTest, SpecialValues) {
  Machine machine(1);
  for (DType dtype : ComputeTypes()) {
    for (int64_t n : {3, 67}) {
      for (int64_t at : {int64_t{0}, n - 1}) {
        HostTensor x = HostTensor::Random({n}, dtype, 2), y({n}, dtype);
        x.Set(at, -kInfinity);
        machine->Softmax(x.view(), false, y.mutable_view());
        EXPECT_EQ(y.At(at), 0);
        EXPECT_GT(y.At(1), 0);
        for (double bad : {kNan, kInfinity}) {
          x.Set(at, bad);
          machine->Softmax(x.view(), false, y.mutable_view());
          EXPECT_TRUE(std::isnan(y.At(at))) << dtype << " " << bad;
          machine->Softmax(x.view(), true, y.mutable_view());
          EXPECT_TRUE(std::isnan(y.At(at))) << dtype << " " << bad;
        }
      }
    }
    HostTensor x({2}, dtype, {-kInfinity, -kInfinity}), y({2}, dtype);
    machine->Softmax(x.view(), false, y.mutable_view());
    EXPECT_TRUE(std::isnan(y.At(0)));
  }
}

TEST(SoftmaxTest, GradientMatchesCentralDifferences) {
  Machine machine(2);
  for (DType dtype : ComputeTypes()) {
    for (bool log : {false, true}) {
      const Shape shape{3, 37};
      const HostTensor x = HostTensor::Random(shape, dtype, 3);
      const HostTensor dy = HostTensor::Random(shape, dtype, 4);
      // The gradient is a function of y, so y must not be rounded: the comparison is in f64, or in
      // the accumulator type with y as it is.
      HostTensor y(shape, dtype), dx(shape, dtype);
      machine->Softmax(x.view(), log, y.mutable_view());
      machine->SoftmaxGrad(y.view(), dy.view(), log, dx.mutable_view());
      Values want;
      if (dtype == DType::kF64) {
        want = Differences(x.ToDoubles(), dy.ToDoubles(),
                           [&](const Values& v) { return SoftmaxReference(v, 37, log); });
      } else {
        for (int64_t t = 0; t < 3; ++t) {
          double total = 0;
          for (int64_t c = t * 37; c < (t + 1) * 37; ++c) {
            total += log ? dy.At(c) : dy.At(c) * y.At(c);
          }
          for (int64_t c = t * 37; c < (t + 1) * 37; ++c) {
            want.push_back(log ? dy.At(c) - std::exp(y.At(c)) * total
                               : y.At(c) * (dy.At(c) - total));
          }
        }
      }
      ExpectClose(dx, want, DifferenceUnits(dtype, 16));
    }
  }
}

Values RmsNormReference(const Values& x, const Values& weight, double eps) {
  const size_t n = weight.size();
  Values y = x;
  for (size_t begin = 0; begin < x.size(); begin += n) {
    double squares = 0;
    for (size_t c = 0; c < n; ++c) squares += x[begin + c] * x[begin + c];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
    for (size_t c = 0; c < n; ++c) y[begin + c] *= rstd * weight[c];
  }
  return y;
}

TEST(RmsNormTest, MatchesReferenceForBothWeightTypes) {
  for (DType dtype : ComputeTypes()) {
    for (DType weight_type : {dtype, DType::kF32}) {
      for (const Shape& shape : {Shape{4, 1}, Shape{2, 3, 67}, Shape{100, 576}, Shape{0, 8}}) {
        const HostTensor x = HostTensor::Random(shape, dtype, 5);
        const HostTensor weight = HostTensor::Random({shape[-1]}, weight_type, 6);
        HostTensor rstd({shape.rows()}, AccumulatorOf(dtype));
        const HostTensor y = SameOnAllThreads([&](Backend& backend) {
          HostTensor result(shape, dtype);
          backend.RmsNorm(x.view(), weight.view(), 1e-5, result.mutable_view(),
                          rstd.mutable_view());
          return result;
        });
        ExpectClose(y, RmsNormReference(x.ToDoubles(), weight.ToDoubles(), 1e-5), 16);
      }
    }
  }
}

TEST(RmsNormTest, GradientsMatchCentralDifferences) {
  for (DType dtype : ComputeTypes()) {
    const Shape shape{5, 43};
    const HostTensor x = HostTensor::Random(shape, dtype, 7);
    const HostTensor dy = HostTensor::Random(shape, dtype, 8);
    const HostTensor weight = HostTensor::Random({43}, dtype, 9);
    HostTensor y(shape, dtype), rstd({5}, AccumulatorOf(dtype));
    Machine machine(2);
    machine->RmsNorm(x.view(), weight.view(), 1e-3, y.mutable_view(), rstd.mutable_view());
    const HostTensor dx = SameOnAllThreads([&](Backend& backend) {
      HostTensor result(shape, dtype);
      backend.RmsNormGrad(x.view(), weight.view(), rstd.view(), dy.view(), result.mutable_view());
      return result;
    });
    const HostTensor dweight = SameOnAllThreads([&](Backend& backend) {
      HostTensor result({43}, AccumulatorOf(dtype), Values(43, 0.25));
      backend.RmsNormWeightGrad(x.view(), rstd.view(), dy.view(), {{0, 2, 5}},
                                result.mutable_view());
      return result;
    });
    const Values xs = x.ToDoubles(), ws = weight.ToDoubles(), dys = dy.ToDoubles();
    ExpectClose(
        dx, Differences(xs, dys, [&](const Values& v) { return RmsNormReference(v, ws, 1e-3); }),
        DifferenceUnits(dtype, 32));
    Values want =
        Differences(ws, dys, [&](const Values& v) { return RmsNormReference(xs, v, 1e-3); });
    for (double& value : want) value += 0.25;
    ExpectClose(dweight, want, DifferenceUnits(dtype, 32));
  }
}

// An f32 residual stream before a bf16 layer: what f32 gives, y rounded once.
TEST(RmsNormTest, WideInputGivesNarrowOutputRoundedOnce) {
  const Shape shape{9, 43};
  const HostTensor x = HostTensor::Random(shape, DType::kF32, 7);
  const HostTensor weight = HostTensor::Random({43}, DType::kBF16, 9);
  const HostTensor dy = HostTensor::Random(shape, DType::kBF16, 8);
  const HostTensor wide_dy(shape, DType::kF32, dy.ToDoubles());
  HostTensor wide(shape, DType::kF32), narrow(shape, DType::kBF16);
  HostTensor rstd({9}, DType::kF32), want_dx(shape, DType::kF32), dx = want_dx;
  HostTensor want_dw({43}, DType::kF32), dw = want_dw;
  Machine machine(2);
  machine->RmsNorm(x.view(), weight.view(), 1e-3, wide.mutable_view(), rstd.mutable_view());
  machine->RmsNorm(x.view(), weight.view(), 1e-3, narrow.mutable_view(), rstd.mutable_view());
  EXPECT_TRUE(SameBits(narrow, HostTensor(shape, DType::kBF16, wide.ToDoubles())));
  machine->RmsNormGrad(x.view(), weight.view(), rstd.view(), wide_dy.view(),
                       want_dx.mutable_view());
  machine->RmsNormGrad(x.view(), weight.view(), rstd.view(), dy.view(), dx.mutable_view());
  EXPECT_TRUE(SameBits(dx, want_dx));
  machine->RmsNormWeightGrad(x.view(), rstd.view(), wide_dy.view(), {{0, 9}},
                             want_dw.mutable_view());
  machine->RmsNormWeightGrad(x.view(), rstd.view(), dy.view(), {{0, 9}}, dw.mutable_view());
  EXPECT_TRUE(SameBits(dw, want_dw));
}

TEST(RmsNormTest, WeightGradientOfMicroBatchesHasTheSameBits) {
  Machine machine(2);
  const HostTensor x = HostTensor::Random({600, 70}, DType::kBF16, 10);
  const HostTensor dy = HostTensor::Random({600, 70}, DType::kBF16, 11);
  const HostTensor rstd = HostTensor::Random({600}, DType::kF32, 12, 0.5, 1);
  HostTensor whole = HostTensor::Random({70}, DType::kF32, 13), parts = whole;
  machine->RmsNormWeightGrad(x.view(), rstd.view(), dy.view(), {{0, 260, 600}},
                             whole.mutable_view());
  machine->RmsNormWeightGrad(x.Strided({260, 70}, {70, 1}), rstd.Strided({260}, {1}),
                             dy.Strided({260, 70}, {70, 1}), {{0, 260}}, parts.mutable_view());
  machine->RmsNormWeightGrad(x.Strided({340, 70}, {70, 1}, 260 * 70), rstd.Strided({340}, {1}, 260),
                             dy.Strided({340, 70}, {70, 1}, 260 * 70), {{0, 340}},
                             parts.mutable_view());
  EXPECT_TRUE(SameBits(whole, parts));
}

TEST(SwiGluTest, MatchesReferenceOnHalvesOfOneMatrix) {
  Machine machine(2);
  for (DType dtype : ComputeTypes()) {
    const int64_t rows = 19, n = 75;
    const HostTensor both = HostTensor::Random({rows, 2 * n}, dtype, 14, -8, 8);
    const HostTensor dy = HostTensor::Random({rows, n}, dtype, 15);
    const TensorView gate = both.Strided({rows, n}, {2 * n, 1});
    const TensorView up = both.Strided({rows, n}, {2 * n, 1}, n);
    HostTensor y({rows, n}, dtype), dgate({rows, n}, dtype), dup({rows, n}, dtype);
    machine->SwiGlu(gate, up, y.mutable_view());
    machine->SwiGluGrad(gate, up, dy.view(), dgate.mutable_view(), dup.mutable_view());
    const auto value = [](double g, double u) { return g / (1 + std::exp(-g)) * u; };
    Values want, want_gate, want_up;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        const double g = both.At(r * 2 * n + c), u = both.At(r * 2 * n + n + c), h = 1e-5;
        const double d = dy.At(r * n + c);
        want.push_back(value(g, u));
        want_gate.push_back(d * (value(g + h, u) - value(g - h, u)) / (2 * h));
        want_up.push_back(d * value(g, 1));
      }
    }
    ExpectClose(y, want, 4);
    ExpectClose(dgate, want_gate, DifferenceUnits(dtype, 8));
    ExpectClose(dup, want_up, 4);
  }
}

TEST(SwiGluTest, NanPropagates) {
  Machine machine(1);
  for (DType dtype : ComputeTypes()) {
    HostTensor gate = HostTensor::Random({1, 5}, dtype, 16), up = gate, y({1, 5}, dtype);
    gate.Set(1, kNan);
    up.Set(3, kNan);
    machine->SwiGlu(gate.view(), up.view(), y.mutable_view());
    for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(std::isnan(y.At(i)), i == 1 || i == 3);
  }
}

TEST(RowsTest, RowDoesNotDependOnTheOthers) {
  Machine machine(1);
  for (DType dtype : ComputeTypes()) {
    const int64_t rows = 20, n = 91;
    const HostTensor x = HostTensor::Random({rows, n}, dtype, 17);
    const HostTensor weight = HostTensor::Random({n}, dtype, 18);
    HostTensor softmax({rows, n}, dtype), norm({rows, n}, dtype),
        rstd({rows}, AccumulatorOf(dtype));
    machine->Softmax(x.view(), false, softmax.mutable_view());
    machine->RmsNorm(x.view(), weight.view(), 1e-5, norm.mutable_view(), rstd.mutable_view());
    for (int64_t r : {0, 7, 19}) {
      HostTensor one_softmax({1, n}, dtype), one_norm({1, n}, dtype),
          one({1}, AccumulatorOf(dtype));
      const TensorView row = x.Strided({1, n}, {n, 1}, r * n);
      machine->Softmax(row, false, one_softmax.mutable_view());
      machine->RmsNorm(row, weight.view(), 1e-5, one_norm.mutable_view(), one.mutable_view());
      for (int64_t c = 0; c < n; ++c) {
        EXPECT_EQ(one_softmax.At(c), softmax.At(r * n + c));
        EXPECT_EQ(one_norm.At(c), norm.At(r * n + c));
      }
    }
  }
}

TEST(RowsTest, InstructionSetsAgree) {
  const HostTensor x = HostTensor::Random({11, 203}, DType::kF32, 19);
  const HostTensor dy = HostTensor::Random({11, 203}, DType::kF32, 20);
  const HostTensor weight = HostTensor::Random({203}, DType::kF32, 21);
  std::vector<HostTensor> first;
  ForEachTarget([&] {
    Machine machine(1);
    std::vector<HostTensor> results(5, HostTensor({11, 203}, DType::kF32));
    HostTensor rstd({11}, DType::kF32);
    machine->Softmax(x.view(), false, results[0].mutable_view());
    machine->SoftmaxGrad(results[0].view(), dy.view(), false, results[1].mutable_view());
    machine->RmsNorm(x.view(), weight.view(), 1e-5, results[2].mutable_view(), rstd.mutable_view());
    machine->RmsNormGrad(x.view(), weight.view(), rstd.view(), dy.view(),
                         results[3].mutable_view());
    machine->SwiGlu(x.view(), dy.view(), results[4].mutable_view());
    if (first.empty()) first = results;
    for (size_t i = 0; i < results.size(); ++i) {
      ExpectClose(results[i], first[i].ToDoubles(), 16, 0, CpuTargetName());
    }
  });
}

}  // namespace
}  // namespace lorica::test
