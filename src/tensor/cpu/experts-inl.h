// Row loops of experts: activations between the two products with their gradients, and the sum of a
// token's rows.
#if defined(LORICA_TENSOR_CPU_EXPERTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_EXPERTS_INL_H_
#undef LORICA_TENSOR_CPU_EXPERTS_INL_H_
#else
#define LORICA_TENSOR_CPU_EXPERTS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// Value of f and its derivatives by gate and up.
template <class V>
struct Activated {
  V value, by_gate, by_up;
};

// g sigmoid(slope g) (u + offset).
template <class D, class V>
HWY_INLINE Activated<V> SigmoidGate(D d, V g, V u, double slope, double offset) {
  const V a = Constant(d, slope), s = SigmoidLanes(d, hn::Mul(a, g));
  const V glu = hn::Mul(g, s), factor = hn::Add(u, Constant(d, offset));
  // d (g s(a g)) / dg = s + a g s (1 - s)
  const V by_gate = hn::MulAdd(hn::Mul(a, glu), hn::Sub(Constant(d, 1), s), s);
  return {hn::Mul(glu, factor), hn::Mul(by_gate, factor), glu};
}

// 0.5 g (1 + tanh(c (g + 0.044715 g³))) u, c = sqrt(2 / pi).
template <class D, class V>
HWY_INLINE Activated<V> GeluGate(D d, V g, V u) {
  constexpr double kC = 0.79788456080286535588, kCubic = 0.044715;
  const V one = Constant(d, 1), half = Constant(d, 0.5), square = hn::Mul(g, g);
  const V inner =
      hn::Mul(hn::Mul(Constant(d, kC), g), hn::MulAdd(Constant(d, kCubic), square, one));
  const V t = TanhLanes(d, inner);
  const V gelu = hn::Mul(hn::Mul(half, g), hn::Add(one, t));
  const V slope = hn::Mul(Constant(d, kC), hn::MulAdd(Constant(d, 3 * kCubic), square, one));
  const V by_gate = hn::MulAdd(hn::Mul(hn::Mul(half, g), hn::NegMulAdd(t, t, one)), slope,
                               hn::Mul(half, hn::Add(one, t)));
  return {hn::Mul(gelu, u), hn::Mul(by_gate, u), gelu};
}

// Comparisons, not Min and Max: NaN stays NaN. At the limits themselves the derivative is 0, as
// PyTorch has it (bf16 values meet a limit such as 7 often).
template <class D, class V>
HWY_INLINE Activated<V> Activate(D d, V g, V u, const GatedActivation& f) {
  if (f.kind == GatedActivation::Kind::kRelu2) {
    const V relu = hn::IfThenZeroElse(hn::Lt(g, hn::Zero(d)), g);
    return {hn::Mul(relu, relu), hn::Add(relu, relu), hn::Zero(d)};
  }
  const auto limit = Constant(d, f.limit), below = Constant(d, -f.limit);
  const auto g_over = hn::Ge(g, limit), u_over = hn::Ge(u, limit), u_under = hn::Le(u, below);
  if (f.limit > 0) {
    g = hn::IfThenElse(g_over, limit, g);
    u = hn::IfThenElse(u_over, limit, hn::IfThenElse(u_under, below, u));
  }
  Activated<V> y = f.kind == GatedActivation::Kind::kGeluTanh
                       ? GeluGate(d, g, u)
                       : SigmoidGate(d, g, u, f.slope, f.offset);
  if (f.limit > 0) {
    y.by_gate = hn::IfThenZeroElse(g_over, y.by_gate);
    y.by_up = hn::IfThenZeroElse(hn::Or(u_over, u_under), y.by_up);
  }
  return y;
}

// Gate and up of columns [i, i + n) of a row of h, n up to a vector.
template <class D, typename T, class V>
HWY_INLINE void LoadPair(D d, const T* h, int64_t width, size_t i, size_t n,
                         const GatedActivation& f, V& g, V& u) {
  if (!f.interleaved || !f.gated()) {
    g = LoadUpTo(d, h + i, n);
    u = f.gated() ? LoadUpTo(d, h + width + i, n) : g;
    return;
  }
  using Acc = hn::TFromD<D>;
  HWY_ALIGN Acc gate[hn::MaxLanes(D())], up[hn::MaxLanes(D())];
  const size_t count = HWY_MIN(n, hn::Lanes(d));
  for (size_t j = 0; j < hn::Lanes(d); ++j) {
    gate[j] = j < count ? static_cast<Acc>(h[2 * (i + j)]) : Acc{0};
    up[j] = j < count ? static_cast<Acc>(h[2 * (i + j) + 1]) : Acc{0};
  }
  g = hn::Load(d, gate);
  u = hn::Load(d, up);
}

template <class D, typename T, class V>
HWY_INLINE void StorePair(D d, V g, V u, T* h, int64_t width, size_t i, size_t n,
                          const GatedActivation& f) {
  if (!f.interleaved || !f.gated()) {
    StoreUpTo(g, d, h + i, n);
    if (f.gated()) StoreUpTo(u, d, h + width + i, n);
    return;
  }
  using Acc = hn::TFromD<D>;
  HWY_ALIGN Acc gate[hn::MaxLanes(D())], up[hn::MaxLanes(D())];
  hn::Store(g, d, gate);
  hn::Store(u, d, up);
  const size_t count = HWY_MIN(n, hn::Lanes(d));
  for (size_t j = 0; j < count; ++j) {
    h[2 * (i + j)] = static_cast<T>(gate[j]);
    h[2 * (i + j) + 1] = static_cast<T>(up[j]);
  }
}

template <typename T>
HWY_INLINE void GatedForwardRowsOf(const GatedActivationArgs& args, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const auto h = MatrixOf<T>(args.h);
  const auto y = MutableMatrixOf<T>(args.y);
  const Acc* factor = args.factor.defined() ? args.factor.as<Acc>() : nullptr;
  const size_t n = static_cast<size_t>(y.cols), lanes = hn::Lanes(d);
  for (int64_t t = begin; t < end; ++t) {
    const auto w = hn::Set(d, factor == nullptr ? Acc{1} : factor[t]);
    for (size_t i = 0; i < n; i += lanes) {
      auto g = hn::Zero(d), u = g;
      LoadPair(d, h[t], y.cols, i, n - i, args.function, g, u);
      const auto value = Activate(d, g, u, args.function).value;
      StoreUpTo(factor == nullptr ? value : hn::Mul(value, w), d, y[t] + i, n - i);
    }
  }
}

template <typename T>
HWY_INLINE void GatedGradRowsOf(const GatedActivationGradArgs& args, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const auto h = MatrixOf<T>(args.h), dy = MatrixOf<T>(args.dy);
  const auto dh = MutableMatrixOf<T>(args.dh);
  Matrix<T> y;
  if (args.y.defined()) y = MutableMatrixOf<T>(args.y);
  Acc* dot = args.dot.defined() ? args.dot.as<Acc>() : nullptr;
  const Acc* factor = args.factor.defined() ? args.factor.as<Acc>() : nullptr;
  const size_t n = static_cast<size_t>(dy.cols), lanes = hn::Lanes(d);
  for (int64_t t = begin; t < end; ++t) {
    const auto w = hn::Set(d, factor == nullptr ? Acc{1} : factor[t]);
    auto sum = hn::Zero(d);
    for (size_t i = 0; i < n; i += lanes) {
      auto g = hn::Zero(d), u = g;
      LoadPair(d, h[t], dy.cols, i, n - i, args.function, g, u);
      const auto f = Activate(d, g, u, args.function);
      const auto dyi = LoadUpTo(d, dy[t] + i, n - i), weighted = hn::Mul(w, dyi);
      // Lanes beyond the row have dy = 0 and a finite f.
      sum = hn::MulAdd(dyi, f.value, sum);
      StorePair(d, hn::Mul(weighted, f.by_gate), hn::Mul(weighted, f.by_up), dh[t], dy.cols, i,
                n - i, args.function);
      if (y.data != nullptr) {
        StoreUpTo(args.factor_in_y ? hn::Mul(f.value, w) : f.value, d, y[t] + i, n - i);
      }
    }
    if (dot != nullptr) dot[t] = SumOf(d, sum);
  }
}

// Products are rounded before they are added, so that equal addends of opposite sign cancel.
template <typename From, typename To>
HWY_INLINE void CombineRowsOf(const CombineRowsArgs& args, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<From>;
  const hn::ScalableTag<Acc> d;
  const auto x = MatrixOf<From>(args.x);
  const auto y = MutableMatrixOf<To>(args.y);
  const Acc* factor = args.factor.defined() ? args.factor.as<Acc>() : nullptr;
  const size_t n = static_cast<size_t>(y.cols), lanes = hn::Lanes(d);
  const size_t choices = args.rows.size() / static_cast<size_t>(y.rows);
  for (int64_t t = begin; t < end; ++t) {
    const int32_t* rows = args.rows.data() + static_cast<size_t>(t) * choices;
    for (size_t i = 0; i < n; i += lanes) {
      auto sum = hn::Zero(d);
      for (size_t k = 0; k < choices; ++k) {
        if (rows[k] < 0) continue;
        auto value = LoadUpTo(d, x[rows[k]] + i, n - i);
        if (factor != nullptr) value = hn::Mul(value, hn::Set(d, factor[rows[k]]));
        sum = hn::Add(sum, value);
      }
      StoreUpTo(sum, d, y[t] + i, n - i);
    }
  }
}

// --- Entries.

void GatedForwardRows(const GatedActivationArgs& args, int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(args.h.dtype, GatedForwardRowsOf, args, begin, end);
}
void GatedGradRows(const GatedActivationGradArgs& args, int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(args.h.dtype, GatedGradRowsOf, args, begin, end);
}
void CombineRowRange(const CombineRowsArgs& args, int64_t begin, int64_t end) {
  const bool to_bf16 = args.y.dtype == DType::kBF16;
  if (args.x.dtype == DType::kF64) return CombineRowsOf<double, double>(args, begin, end);
  if (args.x.dtype == DType::kBF16) {
    return to_bf16 ? CombineRowsOf<BF16, BF16>(args, begin, end)
                   : CombineRowsOf<BF16, float>(args, begin, end);
  }
  return to_bf16 ? CombineRowsOf<float, BF16>(args, begin, end)
                 : CombineRowsOf<float, float>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_EXPERTS_INL_H_
