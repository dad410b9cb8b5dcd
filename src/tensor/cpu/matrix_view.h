// Rows of a view, as the row kernels see them.
#ifndef LORICA_TENSOR_CPU_MATRIX_VIEW_H_
#define LORICA_TENSOR_CPU_MATRIX_VIEW_H_

#include <cstdint>
#include <type_traits>

#include "lorica/tensor/view.h"

namespace lorica::cpu {

// The type that values of T are computed in.
template <typename T>
using AccumulatorType =
    std::conditional_t<std::is_same_v<std::remove_const_t<T>, double>, double, float>;

// `rows` rows of `cols` values each; consecutive rows are `stride` apart.
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;

  T* operator[](int64_t row) const { return data + row * stride; }
};

// The last axis are the columns, all others the rows. A rank-2 view may have any row stride, other
// views are contiguous.
inline int64_t RowStride(const TensorView& view) {
  const int rank = view.shape.rank();
  return rank == 2 ? view.strides[0] : rank == 0 ? 1 : view.shape[rank - 1];
}

template <typename T>
Matrix<const T> MatrixOf(const TensorView& view) {
  return {view.as<T>(), view.shape.rows(), view.shape.rank() == 0 ? 1 : view.shape[-1],
          RowStride(view)};
}

template <typename T>
Matrix<T> MutableMatrixOf(const MutableTensorView& view) {
  return {view.as<T>(), view.shape.rows(), view.shape.rank() == 0 ? 1 : view.shape[-1],
          RowStride(view)};
}

// Rows per task such that a task has some 16,384 values: a few microseconds, ten times what it
// costs to hand a task out.
inline int64_t RowGrain(int64_t cols) {
  constexpr int64_t kValuesPerTask = 16384;
  return cols <= 0 || cols >= kValuesPerTask ? 1 : kValuesPerTask / cols;
}

}  // namespace lorica::cpu

// Calls Function<T>(arguments) for the compute type `dtype`.
#define LORICA_CALL_FOR_DTYPE(dtype, Function, ...) \
  switch (dtype) {                                  \
    case DType::kBF16:                              \
      Function<BF16>(__VA_ARGS__);                  \
      break;                                        \
    case DType::kF64:                               \
      Function<double>(__VA_ARGS__);                \
      break;                                        \
    default:                                        \
      Function<float>(__VA_ARGS__);                 \
      break;                                        \
  }

#endif  // LORICA_TENSOR_CPU_MATRIX_VIEW_H_
