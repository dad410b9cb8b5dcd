// Activations of experts and the sum of a token's rows.
#include <cmath>
#include <limits>

#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

using Kind = GatedActivation::Kind;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<GatedActivation> Functions() {
  return {{},
          {.limit = 0.7},
          {.slope = 1.702, .offset = 1, .limit = 1.1},
          {.slope = 1.702, .offset = 1, .interleaved = true},
          {.kind = Kind::kGeluTanh},
          {.kind = Kind::kGeluTanh, .limit = 0.9, .interleaved = true},
          {.kind = Kind::kRelu2}};
}

// f, and its derivatives by gate and up.
struct Value {
  double f, by_gate, by_up;
};
Value Formula(const GatedActivation& a, double g, double u) {
  if (a.kind == Kind::kRelu2) return {g > 0 ? g * g : g < 0 ? 0 : g * g, g > 0 ? 2 * g : 0, 0};
  const bool g_cut = a.limit > 0 && g >= a.limit, u_cut = a.limit > 0 && std::abs(u) >= a.limit;
  if (g_cut) g = a.limit;
  if (u_cut) u = u > 0 ? a.limit : -a.limit;
  double glu, slope, factor = u;
  if (a.kind == Kind::kGeluTanh) {
    const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (g + 0.044715 * g * g * g));
    glu = 0.5 * g * (1 + t);
    slope = 0.5 * (1 + t) + 0.5 * g * (1 - t * t) * c * (1 + 3 * 0.044715 * g * g);
  } else {
    const double s = 1 / (1 + std::exp(-a.slope * g));
    glu = g * s;
    slope = s + a.slope * g * s * (1 - s);
    factor = u + a.offset;
  }
  return {glu * factor, g_cut ? 0 : slope * factor, u_cut ? 0 : glu};
}

struct Columns {
  int64_t gate, up;
};
Columns ColumnsOf(const GatedActivation& a, int64_t width, int64_t i) {
  if (!a.gated()) return {i, i};
  return a.interleaved ? Columns{2 * i, 2 * i + 1} : Columns{i, width + i};
}

TEST(GatedActivationTest, MatchesItsFormulas) {
  for (const GatedActivation& function : Functions()) {
    for (DType dtype : ComputeTypes()) {
      for (int64_t width : {1, 7, 48, 131}) {
        for (bool with_factor : {false, true}) {
          const int64_t rows = 9, full = width * (function.gated() ? 2 : 1);
          const HostTensor h = HostTensor::Random({rows, full}, dtype, 1, -3, 3);
          const HostTensor dy = HostTensor::Random({rows, width}, dtype, 2);
          const HostTensor w = HostTensor::Random({rows}, AccumulatorOf(dtype), 3);
          const TensorView factor = with_factor ? w.view() : TensorView();
          std::vector<double> y(static_cast<size_t>(rows * width)), dh(rows * full), dot(rows, 0.0);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t i = 0; i < width; ++i) {
              const Columns at = ColumnsOf(function, width, i);
              const Value v = Formula(function, h.At(r * full + at.gate), h.At(r * full + at.up));
              const double m = with_factor ? w.At(r) : 1, d = dy.At(r * width + i);
              y[static_cast<size_t>(r * width + i)] = m * v.f;
              if (function.gated()) dh[static_cast<size_t>(r * full + at.up)] = m * d * v.by_up;
              dh[static_cast<size_t>(r * full + at.gate)] = m * d * v.by_gate;
              dot[static_cast<size_t>(r)] += d * v.f;
            }
          }
          const HostTensor got = SameOnAllThreads([&](Backend& backend) {
            HostTensor result({rows, width}, dtype);
            backend.GatedActivationForward({.function = function,
                                            .h = h.view(),
                                            .factor = factor,
                                            .y = result.mutable_view()});
            return result;
          });
          ExpectClose(got, y, 8);
          ThreadPool pool(2);
          const auto backend = MakeCpuBackend(pool);
          HostTensor got_dh({rows, full}, dtype), got_dot({rows}, AccumulatorOf(dtype));
          HostTensor again({rows, width}, dtype);
          backend->GatedActivationGrad({.function = function,
                                        .h = h.view(),
                                        .dy = dy.view(),
                                        .factor = factor,
                                        .dh = got_dh.mutable_view(),
                                        .dot = got_dot.mutable_view(),
                                        .y = again.mutable_view(),
                                        .factor_in_y = with_factor});
          ExpectClose(got_dh, dh, 16);
          ExpectClose(got_dot, dot, 16 + static_cast<double>(width));
          EXPECT_TRUE(SameBits(again, got));
        }
      }
    }
  }
}

TEST(GatedActivationTest, NanGoesThrough) {
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  for (const GatedActivation& function : Functions()) {
    HostTensor h({1, 2}, DType::kF32, {kNan, 0.5}), y({1, function.gated() ? 1 : 2}, DType::kF32);
    backend->GatedActivationForward({.function = function, .h = h.view(), .y = y.mutable_view()});
    EXPECT_TRUE(std::isnan(y.At(0)));
  }
}

TEST(GatedActivationTest, TheDerivativeAtTheLimitsIsZero) {
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  const HostTensor h({3, 2}, DType::kF32, {0.5, 0.25, 0.25, 0.5, 0.25, -0.5});
  const HostTensor dy({3, 1}, DType::kF32, {1, 1, 1});
  HostTensor dh({3, 2}, DType::kF32);
  backend->GatedActivationGrad(
      {.function = {.limit = 0.5}, .h = h.view(), .dy = dy.view(), .dh = dh.mutable_view()});
  EXPECT_EQ(dh.At(0), 0);
  EXPECT_NE(dh.At(1), 0);
  EXPECT_NE(dh.At(2), 0);
  EXPECT_EQ(dh.At(3), 0);
  EXPECT_EQ(dh.At(5), 0);
}

TEST(CombineRowsTest, AddsInTheOrderGivenAndSkipsWhatIsMissing) {
  for (DType dtype : ComputeTypes()) {
    for (int64_t width : {1, 5, 200}) {
      const HostTensor x = HostTensor::Random({6, width}, dtype, 4);
      const HostTensor w = HostTensor::Random({6}, AccumulatorOf(dtype), 5);
      const std::vector<int32_t> rows = {3, 0, -1, -1, -1, -1, 5, -1, 3};
      const HostTensor got = SameOnAllThreads([&](Backend& backend) {
        HostTensor result({3, width}, dtype);
        backend.CombineRows({x.view(), w.view(), rows, result.mutable_view()});
        return result;
      });
      std::vector<double> want;
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t c = 0; c < width; ++c) {
          double sum = 0;
          for (int64_t k = 0; k < 3; ++k) {
            const int32_t r = rows[static_cast<size_t>(3 * t + k)];
            if (r >= 0) sum += w.At(r) * x.At(r * width + c);
          }
          want.push_back(sum);
        }
      }
      ExpectClose(got, want, 4);
    }
  }
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  const HostTensor x({3, 1}, DType::kF32, {3, 1e20, -1e20});
  HostTensor y({2, 1}, DType::kF32);
  const std::vector<int32_t> rows = {0, 1, 2, 1, 2, 0};
  backend->CombineRows({x.view(), {}, rows, y.mutable_view()});
  EXPECT_EQ(y.At(0), 0);
  EXPECT_EQ(y.At(1), 3);
}

TEST(CombineRowsTest, RoundsSumsOfWideRowsOnce) {
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  // 1 + 2^-9 + 2^-9 is 1 + 2^-8 in f32, which bf16 rounds to 1; each step rounded it would be 1
  // too, so three halves of a unit tell: 1 + 3 * 2^-9 rounds up to 1 + 2^-7.
  const HostTensor x({4, 1}, DType::kF32, {1, 0x1p-9, 0x1p-9, 0x1p-9});
  HostTensor y({1, 1}, DType::kBF16);
  const std::vector<int32_t> rows = {0, 1, 2, 3};
  backend->CombineRows({x.view(), {}, rows, y.mutable_view()});
  EXPECT_EQ(y.At(0), 1 + 0x1p-7);
}

}  // namespace
}  // namespace lorica::test
