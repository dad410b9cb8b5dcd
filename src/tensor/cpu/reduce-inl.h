// Sums: over axes, of squares, over tokens.
#if defined(LORICA_TENSOR_CPU_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_REDUCE_INL_H_
#undef LORICA_TENSOR_CPU_REDUCE_INL_H_
#else
#define LORICA_TENSOR_CPU_REDUCE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/cpu/token_columns-inl.h"
#include "lorica/tensor/sequences.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// sums[i] += x[i]: one addend of n chains that run side by side.
template <typename T>
HWY_INLINE void AddRowOf(const void* x_data, void* sums_data, size_t n) {
  const LanesOf<T> d;
  const T* x = static_cast<const T*>(x_data);
  auto* sums = static_cast<AccumulatorType<T>*>(sums_data);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto sum = hn::Add(LoadUpTo(d, sums + i, n - i), LoadUpTo(d, x + i, n - i));
    StoreUpTo(sum, d, sums + i, n - i);
  }
}

void AddRow(DType dtype, const void* x, void* sums, size_t n) {
  LORICA_CALL_FOR_DTYPE(dtype, AddRowOf, x, sums, n);
}

// Squares are summed in double for every type: a gradient's norm over millions of elements keeps
// its digits.
struct SquareTerm {
  const double* x;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, size_t i, size_t count) const {
    const V v = LoadUpTo(d, x + i, count);
    return hn::MulAdd(v, v, sum);
  }
};

template <typename T>
HWY_INLINE double SumSquaresOf(const T* x, size_t n) {
  constexpr size_t kPiece = 512;
  const hn::ScalableTag<double> d;
  double total = 0;
  HWY_ALIGN double piece[kPiece];
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t count = std::min(kPiece, n - begin);
    for (size_t i = 0; i < count; ++i) {
      piece[i] = static_cast<double>(static_cast<AccumulatorType<T>>(x[begin + i]));
    }
    total += SumTerms(d, count, SquareTerm{piece});
  }
  return total;
}

double SumSquaresRange(DType dtype, const void* x, size_t begin, size_t end) {
  const size_t n = end - begin;
  switch (dtype) {
    case DType::kBF16:
      return SumSquaresOf(static_cast<const BF16*>(x) + begin, n);
    case DType::kF64:
      return SumSquaresOf(static_cast<const double*>(x) + begin, n);
    default:
      return SumSquaresOf(static_cast<const float*>(x) + begin, n);
  }
}

template <typename T>
struct PlainColumns {
  Matrix<const T> dy;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, int64_t t, int64_t c, size_t count) const {
    return hn::Add(sum, LoadUpTo(d, dy[t] + c, count));
  }
};

template <typename T>
HWY_INLINE void ColumnSumOf(const TensorView& dy, const Sequences& sequences, double alpha,
                            const MutableTensorView& acc, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  SumTokenColumns<Acc>(PlainColumns<T>{MatrixOf<T>(dy)}, sequences, static_cast<Acc>(alpha),
                       acc.as<Acc>(), begin, end);
}

void ColumnSumRange(const TensorView& dy, const Sequences& sequences, double alpha,
                    const MutableTensorView& acc, int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(dy.dtype, ColumnSumOf, dy, sequences, alpha, acc, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_REDUCE_INL_H_
