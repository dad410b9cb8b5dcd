// What every SIMD loop needs, once per instruction set: loading and storing the three compute types
// as lanes of the accumulator type, reductions along a row, exp and its relatives.
//
// NaN and infinity go through every function here: a loss that isn't finite must be seen.
#if defined(LORICA_TENSOR_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_LANES_INL_H_
#undef LORICA_TENSOR_CPU_LANES_INL_H_
#else
#define LORICA_TENSOR_CPU_LANES_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "lorica/tensor/cpu/matrix_view.h"
#include "lorica/tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using hn::TFromD;  // named by HWY_IF_LANE_SIZE_D

// Full vectors of the accumulator type of T.
template <typename T>
using LanesOf = hn::ScalableTag<AccumulatorType<T>>;

template <class D>
HWY_INLINE hn::Vec<D> Constant(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

// --- Loading and storing.

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadLanes(D d, const T* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadLanes(D d, const BF16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreLanes(hn::Vec<D> v, D d, T* p) {
  hn::StoreU(v, d, p);
}
// To nearest, ties to even, as BF16(float); Highway's own demotion truncates.
template <class D>
HWY_INLINE void StoreLanes(hn::Vec<D> v, D d, BF16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const hn::Rebind<int32_t, D> di32;
  const auto bits = hn::BitCast(d32, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFFu))));
  const auto quiet = hn::Or(upper, hn::Set(d32, 0x40u));
  const auto result = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, result)), d16, reinterpret_cast<uint16_t*>(p));
}

// The first n < Lanes(d) lanes; the others are `fill`. Nothing is read past p[n - 1]. The same
// arithmetic runs on them as on full vectors, so a value never depends on where in a row it stands.
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadSome(D d, const T* p, size_t n, hn::TFromD<D> fill = 0) {
  HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(D())];
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    buffer[i] = i < n ? static_cast<hn::TFromD<D>>(p[i]) : fill;
  }
  return hn::Load(d, buffer);
}

template <class D, typename T>
HWY_INLINE void StoreSome(hn::Vec<D> v, D d, T* p, size_t n) {
  HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(D())];
  hn::Store(v, d, buffer);
  for (size_t i = 0; i < n; ++i) p[i] = static_cast<T>(buffer[i]);
}

// The vector at p, or its first n lanes when n is less than a vector: one call for body and tail.
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadUpTo(D d, const T* p, size_t n, hn::TFromD<D> fill = 0) {
  return n >= hn::Lanes(d) ? LoadLanes(d, p) : LoadSome(d, p, n, fill);
}
template <class D, typename T>
HWY_INLINE void StoreUpTo(hn::Vec<D> v, D d, T* p, size_t n) {
  if (n >= hn::Lanes(d)) {
    StoreLanes(v, d, p);
  } else {
    StoreSome(v, d, p, n);
  }
}

// --- Reductions over lanes.

template <class D>
HWY_INLINE hn::TFromD<D> SumOf(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}
template <class D>
HWY_INLINE hn::TFromD<D> MaxOf(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

// Sum over a row of n elements. term.Add(d, sum, i, count) adds the terms of elements i to
// i + count - 1 to the lanes of `sum`, and zero to the lanes beyond. Four chains hide the latency
// of addition; the order depends on n alone.
template <class D, class Term>
HWY_INLINE hn::TFromD<D> SumTerms(D d, size_t n, const Term& term) {
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = term.Add(d, s0, i, lanes);
    s1 = term.Add(d, s1, i + lanes, lanes);
    s2 = term.Add(d, s2, i + 2 * lanes, lanes);
    s3 = term.Add(d, s3, i + 3 * lanes, lanes);
  }
  for (; i < n; i += lanes) s0 = term.Add(d, s0, i, HWY_MIN(lanes, n - i));
  return SumOf(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

// Greatest value of a row; -infinity for an empty one. What it gives for a row with a NaN is
// unspecified.
template <typename T>
HWY_INLINE AccumulatorType<T> RowMax(const T* x, size_t n) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const size_t lanes = hn::Lanes(d);
  constexpr Acc kLowest = -std::numeric_limits<Acc>::infinity();
  auto m0 = hn::Set(d, kLowest), m1 = m0;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    m0 = hn::Max(m0, LoadLanes(d, x + i));
    m1 = hn::Max(m1, LoadLanes(d, x + i + lanes));
  }
  for (; i < n; i += lanes) m0 = hn::Max(m0, LoadUpTo(d, x + i, n - i, kLowest));
  return MaxOf(d, hn::Max(m0, m1));
}

// --- Functions.

// The scalar function on every lane: libm where its precision is wanted (f64) or speed isn't.
template <class D, typename Function>
HWY_INLINE hn::Vec<D> MapLanes(D d, hn::Vec<D> x, const Function& function) {
  HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(D())];
  hn::Store(x, d, buffer);
  for (size_t i = 0; i < hn::Lanes(d); ++i) buffer[i] = function(buffer[i]);
  return hn::Load(d, buffer);
}

struct LibmExp {
  template <typename T>
  T operator()(T x) const {
    return std::exp(x);
  }
};
struct LibmLog {
  template <typename T>
  T operator()(T x) const {
    return std::log(x);
  }
};
struct LibmTanh {
  template <typename T>
  T operator()(T x) const {
    return std::tanh(x);
  }
};
struct LibmErfc {
  template <typename T>
  T operator()(T x) const {
    return std::erfc(x);
  }
};

// Minimax fit of (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, relative error of exp 5e-11.
constexpr float kExpCoefficients[] = {0.5f,          0.1666666567f,  0.0416662954f,
                                      0.0083334977f, 0.00139447046f, 0.000197902977f};

// exp(x); f32: within 0.7 units in the last place, 0 below the normal range.
template <class D, HWY_IF_LANE_SIZE_D(D, 8)>
HWY_INLINE hn::Vec<D> ExpLanes(D d, hn::Vec<D> x) {
  return MapLanes(d, x, LibmExp());
}
template <class D, HWY_IF_LANE_SIZE_D(D, 4)>
HWY_INLINE hn::Vec<D> ExpLanes(D d, hn::Vec<D> x) {
  const hn::Rebind<uint32_t, D> d32;
  // x = n ln 2 + r with |r| <= ln(2) / 2. Adding 1.5 * 2^23 leaves n, rounded to nearest, in the
  // low bits.
  const auto shifter = hn::Set(d, 12582912.0f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.442695041f), shifter);
  const auto n = hn::Sub(shifted, shifter);
  // ln 2 in two parts, the first with few enough bits that n times it is exact without FMA, too.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, kExpCoefficients[5]);
  for (int i = 4; i >= 0; --i) p = hn::MulAdd(p, r, hn::Set(d, kExpCoefficients[i]));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  // Times 2^n: into the exponent field.
  const auto bits = hn::Add(hn::BitCast(d32, p), hn::ShiftLeft<23>(hn::BitCast(d32, shifted)));
  auto y = hn::BitCast(d, bits);
  y = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.7228317f)),
                     hn::Set(d, std::numeric_limits<float>::infinity()), y);
  y = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3365402f)), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, HWY_IF_LANE_SIZE_D(D, 8)>
HWY_INLINE hn::Vec<D> LogLanes(D d, hn::Vec<D> x) {
  return MapLanes(d, x, LibmLog());
}
// Highway's is for positive finite numbers.
template <class D, HWY_IF_LANE_SIZE_D(D, 4)>
HWY_INLINE hn::Vec<D> LogLanes(D d, hn::Vec<D> x) {
  const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  auto y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  const auto nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), nan, y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, HWY_IF_LANE_SIZE_D(D, 8)>
HWY_INLINE hn::Vec<D> TanhLanes(D d, hn::Vec<D> x) {
  return MapLanes(d, x, LibmTanh());
}
template <class D, HWY_IF_LANE_SIZE_D(D, 4)>
HWY_INLINE hn::Vec<D> TanhLanes(D d, hn::Vec<D> x) {
  // Beyond 10 it is 1 within rounding; Highway's gives nonsense at infinity.
  const auto clamped = hn::Max(hn::Min(x, hn::Set(d, 10.0f)), hn::Set(d, -10.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, clamped));
}

// erfc(x), lane by lane.
template <class D>
HWY_INLINE hn::Vec<D> ErfcLanes(D d, hn::Vec<D> x) {
  return MapLanes(d, x, LibmErfc());
}

template <class D>
HWY_INLINE hn::Vec<D> SigmoidLanes(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, hn::TFromD<D>{1});
  return hn::Div(one, hn::Add(one, ExpLanes(d, hn::Neg(x))));
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_LANES_INL_H_
