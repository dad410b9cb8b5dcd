// Root mean square norm: y = x rstd weight, rstd = 1 / sqrt(mean(x^2) + eps).
#if defined(LORICA_TENSOR_CPU_ROWS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ROWS_NORM_INL_H_
#undef LORICA_TENSOR_CPU_ROWS_NORM_INL_H_
#else
#define LORICA_TENSOR_CPU_ROWS_NORM_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/cpu/token_columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

template <typename T>
struct MeanSquareTerm {
  const T* x;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, size_t i, size_t count) const {
    const V v = LoadUpTo(d, x + i, count);
    return hn::MulAdd(v, v, sum);
  }
};

// T is the type of x and dx, Y that of y and dy; `weight` is in the accumulator type.
template <typename T, typename Y>
HWY_INLINE void RmsNormRowsOf(const TensorView& x_view, const void* weight_data, double eps,
                              const MutableTensorView& y_view, const MutableTensorView& rstd_view,
                              int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const auto x = MatrixOf<T>(x_view);
  const auto y = MutableMatrixOf<Y>(y_view);
  const Acc* weight = static_cast<const Acc*>(weight_data);
  Acc* rstd = rstd_view.as<Acc>();
  const size_t n = static_cast<size_t>(x.cols), lanes = hn::Lanes(d);
  for (int64_t t = begin; t < end; ++t) {
    const T* xt = x[t];
    Y* yt = y[t];
    const Acc squares = SumTerms(d, n, MeanSquareTerm<T>{xt});
    const Acc r = 1 / std::sqrt(squares / static_cast<Acc>(n) + static_cast<Acc>(eps));
    rstd[t] = r;
    const auto scale = hn::Set(d, r);
    for (size_t i = 0; i < n; i += lanes) {
      const auto normed = hn::Mul(LoadUpTo(d, xt + i, n - i), scale);
      StoreUpTo(hn::Mul(normed, LoadUpTo(d, weight + i, n - i)), d, yt + i, n - i);
    }
  }
}

template <typename T, typename Y>
struct WeightedTerm {
  const T* x;
  const Y* dy;
  const AccumulatorType<T>* weight;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, size_t i, size_t count) const {
    const V scaled = hn::Mul(LoadUpTo(d, dy + i, count), LoadUpTo(d, weight + i, count));
    return hn::MulAdd(scaled, LoadUpTo(d, x + i, count), sum);
  }
};

// With n = x rstd: dx = rstd (weight dy - n mean(weight dy n)).
template <typename T, typename Y>
HWY_INLINE void RmsNormGradRowsOf(const TensorView& x_view, const void* weight_data,
                                  const TensorView& rstd_view, const TensorView& dy_view,
                                  const MutableTensorView& dx_view, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const auto x = MatrixOf<T>(x_view);
  const auto dy = MatrixOf<Y>(dy_view);
  const auto dx = MutableMatrixOf<T>(dx_view);
  const Acc* weight = static_cast<const Acc*>(weight_data);
  const Acc* rstd = rstd_view.as<Acc>();
  const size_t n = static_cast<size_t>(x.cols), lanes = hn::Lanes(d);
  for (int64_t t = begin; t < end; ++t) {
    const T* xt = x[t];
    const Y* dyt = dy[t];
    T* dxt = dx[t];
    const Acc r = rstd[t];
    const Acc dot = SumTerms(d, n, WeightedTerm<T, Y>{xt, dyt, weight});
    const auto scale = hn::Set(d, r);
    const auto pull = hn::Set(d, r * r * r * (dot / static_cast<Acc>(n)));
    for (size_t i = 0; i < n; i += lanes) {
      const auto push =
          hn::Mul(hn::Mul(LoadUpTo(d, dyt + i, n - i), LoadUpTo(d, weight + i, n - i)), scale);
      StoreUpTo(hn::NegMulAdd(LoadUpTo(d, xt + i, n - i), pull, push), d, dxt + i, n - i);
    }
  }
}

template <typename T, typename Y>
struct NormWeightColumns {
  Matrix<const T> x;
  Matrix<const Y> dy;
  const AccumulatorType<T>* rstd;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, int64_t t, int64_t c, size_t count) const {
    const V normed = hn::Mul(LoadUpTo(d, x[t] + c, count), hn::Set(d, rstd[t]));
    return hn::MulAdd(LoadUpTo(d, dy[t] + c, count), normed, sum);
  }
};

template <typename T, typename Y>
HWY_INLINE void RmsNormWeightGradOf(const TensorView& x, const TensorView& rstd,
                                    const TensorView& dy, const Sequences& sequences,
                                    const MutableTensorView& acc, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const NormWeightColumns<T, Y> term{MatrixOf<T>(x), MatrixOf<Y>(dy), rstd.as<Acc>()};
  SumTokenColumns<Acc>(term, sequences, Acc{1}, acc.as<Acc>(), begin, end);
}

// Both sides have one type, or a residual stream in f32 meets bf16 layers.
#define LORICA_CALL_FOR_NORM_DTYPES(x_type, y_type, Function, ...) \
  switch (y_type) {                                                \
    case DType::kBF16:                                             \
      if (x_type == DType::kF32) {                                 \
        Function<float, BF16>(__VA_ARGS__);                        \
      } else {                                                     \
        Function<BF16, BF16>(__VA_ARGS__);                         \
      }                                                            \
      break;                                                       \
    case DType::kF64:                                              \
      Function<double, double>(__VA_ARGS__);                       \
      break;                                                       \
    default:                                                       \
      Function<float, float>(__VA_ARGS__);                         \
      break;                                                       \
  }

void RmsNormRows(const TensorView& x, const void* weight, double eps, const MutableTensorView& y,
                 const MutableTensorView& rstd, int64_t begin, int64_t end) {
  LORICA_CALL_FOR_NORM_DTYPES(x.dtype, y.dtype, RmsNormRowsOf, x, weight, eps, y, rstd, begin, end);
}
void RmsNormGradRows(const TensorView& x, const void* weight, const TensorView& rstd,
                     const TensorView& dy, const MutableTensorView& dx, int64_t begin,
                     int64_t end) {
  LORICA_CALL_FOR_NORM_DTYPES(x.dtype, dy.dtype, RmsNormGradRowsOf, x, weight, rstd, dy, dx, begin,
                              end);
}
void RmsNormWeightGradColumns(const TensorView& x, const TensorView& rstd, const TensorView& dy,
                              const Sequences& sequences, const MutableTensorView& acc,
                              int64_t begin, int64_t end) {
  LORICA_CALL_FOR_NORM_DTYPES(x.dtype, dy.dtype, RmsNormWeightGradOf, x, rstd, dy, sequences, acc,
                              begin, end);
}
#undef LORICA_CALL_FOR_NORM_DTYPES

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ROWS_NORM_INL_H_
