// Row-wise ops along the last axis: softmax and its gradient, SwiGLU. The root mean square norm is
// in rows_norm-inl.h.
#if defined(LORICA_TENSOR_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ROWS_INL_H_
#undef LORICA_TENSOR_CPU_ROWS_INL_H_
#else
#define LORICA_TENSOR_CPU_ROWS_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/cpu/rows_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// --- Softmax.

template <typename T>
HWY_INLINE void SoftmaxRowsOf(const TensorView& x_view, bool log, const MutableTensorView& y_view,
                              int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const auto x = MatrixOf<T>(x_view);
  const auto y = MutableMatrixOf<T>(y_view);
  const size_t n = static_cast<size_t>(x.cols), lanes = hn::Lanes(d);
  for (int64_t t = begin; t < end; ++t) {
    const T* xt = x[t];
    T* yt = y[t];
    const Acc max = RowMax(xt, n);
    const Acc sum = SumTerms(d, n, ExpTerm<T>{xt, max});
    const auto shift = hn::Set(d, max);
    if (log) {
      const auto log_sum = hn::Set(d, std::log(sum));
      for (size_t i = 0; i < n; i += lanes) {
        const auto shifted = hn::Sub(LoadUpTo(d, xt + i, n - i), shift);
        StoreUpTo(hn::Sub(shifted, log_sum), d, yt + i, n - i);
      }
    } else {
      const auto inverse = hn::Set(d, 1 / sum);
      for (size_t i = 0; i < n; i += lanes) {
        const auto shifted = hn::Sub(LoadUpTo(d, xt + i, n - i), shift);
        StoreUpTo(hn::Mul(ExpLanes(d, shifted), inverse), d, yt + i, n - i);
      }
    }
  }
}

template <typename T>
struct ProductTerm {
  const T* a;
  const T* b;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, size_t i, size_t count) const {
    return hn::MulAdd(LoadUpTo(d, a + i, count), LoadUpTo(d, b + i, count), sum);
  }
};
template <typename T>
struct PlainTerm {
  const T* x;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, size_t i, size_t count) const {
    return hn::Add(sum, LoadUpTo(d, x + i, count));
  }
};

// softmax: dx = y (dy - sum(y dy)); log softmax: dx = dy - exp(y) sum(dy).
template <typename T>
HWY_INLINE void SoftmaxGradRowsOf(const TensorView& y_view, const TensorView& dy_view, bool log,
                                  const MutableTensorView& dx_view, int64_t begin, int64_t end) {
  const LanesOf<T> d;
  const auto y = MatrixOf<T>(y_view), dy = MatrixOf<T>(dy_view);
  const auto dx = MutableMatrixOf<T>(dx_view);
  const size_t n = static_cast<size_t>(y.cols), lanes = hn::Lanes(d);
  for (int64_t t = begin; t < end; ++t) {
    const T *yt = y[t], *dyt = dy[t];
    T* dxt = dx[t];
    const auto total = hn::Set(
        d, log ? SumTerms(d, n, PlainTerm<T>{dyt}) : SumTerms(d, n, ProductTerm<T>{yt, dyt}));
    for (size_t i = 0; i < n; i += lanes) {
      const auto yi = LoadUpTo(d, yt + i, n - i), dyi = LoadUpTo(d, dyt + i, n - i);
      const auto dxi =
          log ? hn::NegMulAdd(ExpLanes(d, yi), total, dyi) : hn::Mul(yi, hn::Sub(dyi, total));
      StoreUpTo(dxi, d, dxt + i, n - i);
    }
  }
}

// --- SwiGLU: y = gate sigmoid(gate) up.

template <typename T>
HWY_INLINE void SwiGluRowsOf(const TensorView& gate_view, const TensorView& up_view,
                             const MutableTensorView& y_view, int64_t begin, int64_t end) {
  const LanesOf<T> d;
  const auto gate = MatrixOf<T>(gate_view), up = MatrixOf<T>(up_view);
  const auto y = MutableMatrixOf<T>(y_view);
  const size_t n = static_cast<size_t>(gate.cols), lanes = hn::Lanes(d);
  for (int64_t t = begin; t < end; ++t) {
    for (size_t i = 0; i < n; i += lanes) {
      const auto g = LoadUpTo(d, gate[t] + i, n - i), u = LoadUpTo(d, up[t] + i, n - i);
      StoreUpTo(hn::Mul(hn::Mul(g, SigmoidLanes(d, g)), u), d, y[t] + i, n - i);
    }
  }
}

template <typename T>
HWY_INLINE void SwiGluGradRowsOf(const TensorView& gate_view, const TensorView& up_view,
                                 const TensorView& dy_view, const MutableTensorView& dgate_view,
                                 const MutableTensorView& dup_view, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const auto gate = MatrixOf<T>(gate_view), up = MatrixOf<T>(up_view), dy = MatrixOf<T>(dy_view);
  const auto dgate = MutableMatrixOf<T>(dgate_view), dup = MutableMatrixOf<T>(dup_view);
  const size_t n = static_cast<size_t>(gate.cols), lanes = hn::Lanes(d);
  const auto one = hn::Set(d, Acc{1});
  for (int64_t t = begin; t < end; ++t) {
    for (size_t i = 0; i < n; i += lanes) {
      const auto g = LoadUpTo(d, gate[t] + i, n - i), u = LoadUpTo(d, up[t] + i, n - i);
      const auto dyi = LoadUpTo(d, dy[t] + i, n - i);
      const auto s = SigmoidLanes(d, g);
      const auto silu = hn::Mul(g, s);
      const auto slope = hn::MulAdd(silu, hn::Sub(one, s), s);
      StoreUpTo(hn::Mul(hn::Mul(dyi, u), slope), d, dgate[t] + i, n - i);
      StoreUpTo(hn::Mul(dyi, silu), d, dup[t] + i, n - i);
    }
  }
}

// --- Entries.

void SoftmaxRows(const TensorView& x, bool log, const MutableTensorView& y, int64_t begin,
                 int64_t end) {
  LORICA_CALL_FOR_DTYPE(x.dtype, SoftmaxRowsOf, x, log, y, begin, end);
}
void SoftmaxGradRows(const TensorView& y, const TensorView& dy, bool log,
                     const MutableTensorView& dx, int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(y.dtype, SoftmaxGradRowsOf, y, dy, log, dx, begin, end);
}
void SwiGluRows(const TensorView& gate, const TensorView& up, const MutableTensorView& y,
                int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(gate.dtype, SwiGluRowsOf, gate, up, y, begin, end);
}
void SwiGluGradRows(const TensorView& gate, const TensorView& up, const TensorView& dy,
                    const MutableTensorView& dgate, const MutableTensorView& dup, int64_t begin,
                    int64_t end) {
  LORICA_CALL_FOR_DTYPE(gate.dtype, SwiGluGradRowsOf, gate, up, dy, dgate, dup, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ROWS_INL_H_
