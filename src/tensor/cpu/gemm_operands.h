// Where the operands of a product lie in memory.
#ifndef LORICA_TENSOR_CPU_GEMM_OPERANDS_H_
#define LORICA_TENSOR_CPU_GEMM_OPERANDS_H_

#include <cstdint>

#include "lorica/tensor/cpu/gemm_kernel.h"
#include "lorica/tensor/gemm.h"

namespace lorica::cpu {

// The address of element number `elements`.
inline const void* Offset(const void* data, DType type, int64_t elements) {
  return static_cast<const char*>(data) + elements * static_cast<int64_t>(SizeOf(type));
}
inline void* Offset(void* data, DType type, int64_t elements) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(SizeOf(type));
}

// Elements from one row of a matrix to the next.
inline int64_t RowStride(const TensorView& view) {
  return view.shape.rank() < 2 ? 0 : view.strides[-2];
}

// Whether two matrices of the same shape may share bytes.
inline bool Overlap(const TensorView& a, const TensorView& b) {
  const auto bytes = [](const TensorView& v) {
    return ((v.shape[0] - 1) * v.strides[0] + v.shape[1]) * static_cast<int64_t>(SizeOf(v.dtype));
  };
  const char* a_begin = static_cast<const char*>(a.data);
  const char* b_begin = static_cast<const char*>(b.data);
  return a_begin < b_begin + bytes(b) && b_begin < a_begin + bytes(a);
}

// One pair of operands of a GemmDesc's sum.
struct GemmOperands {
  TensorView a, b;
  GemmLayout layout = GemmLayout::kNT;
  int64_t k = 0;

  // K range by column range of b.
  PackSource Piece(int64_t k_begin, int64_t k_count, int64_t n_begin, int64_t n_count) const {
    const int64_t stride = RowStride(b);
    const int64_t offset =
        layout == GemmLayout::kNT ? n_begin * stride + k_begin : k_begin * stride + n_begin;
    return {Offset(b.data, b.dtype, offset), b.dtype, layout, stride, k_count, n_count};
  }
};

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_GEMM_OPERANDS_H_
