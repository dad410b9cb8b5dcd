// The innermost loops of matrix products, one table per accumulator type and instruction set.
//
// The right operand is packed into panels: a panel holds `width` columns, [k][width], with zeros
// beyond the last valid column, so that the inner loop reads it front to back. The left operand is
// read where it lies. Every output element is one chain of fused multiply-adds over ascending k
// that starts from +0; splitting k or the outputs in any way leaves its bits alone.
#ifndef LORICA_TENSOR_CPU_GEMM_KERNEL_H_
#define LORICA_TENSOR_CPU_GEMM_KERNEL_H_

#include <cstdint>

#include "lorica/tensor/dtype.h"
#include "lorica/tensor/gemm.h"

namespace lorica::cpu {

// One product a · b of the sum, T the accumulator type.
template <typename T>
struct GemmSegment {
  const T* a = nullptr;  // [rows, k]
  int64_t a_stride = 0;
  const T* panels = nullptr;
  int64_t panel_stride = 0;  // elements from one panel to the next
  int64_t k = 0;
};

// A rectangle of the output, over a range of k.
template <typename T>
struct GemmBlock {
  GemmSegment<T> segments[2];  // summed one after the other
  int num_segments = 1;
  int64_t rows = 0, columns = 0;

  bool first = true;  // sums start from zero, else from `sums`
  bool last = true;   // y = round(sum + bias + addend), else the sums go back to `sums`
  T* sums = nullptr;  // [rows, columns]
  int64_t sums_stride = 0;

  void* y = nullptr;  // [rows, columns]
  DType y_type = DType::kF32;
  int64_t y_stride = 0;
  const void* bias = nullptr;  // [columns] or null
  DType bias_type = DType::kF32;
  const void* addend = nullptr;  // [rows, columns] or null
  DType addend_type = DType::kF32;
  int64_t addend_stride = 0;
};

// A piece of the right operand to pack: k x columns values, from `source` on.
struct PackSource {
  const void* source = nullptr;
  DType type = DType::kF32;
  GemmLayout layout = GemmLayout::kNT;
  int64_t stride = 0;  // between rows of the operand as it lies in memory
  int64_t k = 0;
  int64_t columns = 0;
};

template <typename T>
struct GemmKernels {
  int64_t lanes;  // T values of a vector
  int64_t width;  // columns of a full panel, a multiple of lanes
  // All columns of the block: full panels, then one of PanelWidth(rest) columns.
  void (*multiply)(const GemmBlock<T>& block);
  // Into [k][width], width a multiple of lanes, not below source.columns.
  void (*pack)(const PackSource& source, int64_t width, T* panel);
  // rows x columns values, converted to T.
  void (*convert)(const void* source, DType type, int64_t source_stride, int64_t rows,
                  int64_t columns, T* target, int64_t target_stride);

  int64_t PanelWidth(int64_t columns) const {
    return columns >= width ? width : (columns + lanes - 1) / lanes * lanes;
  }
};

// Rows of blocks are best multiples of this: every strip height of the kernels divides it.
inline constexpr int64_t kGemmRowUnit = 12;

// For this machine.
template <typename T>
const GemmKernels<T>& GemmKernelsFor();
template <>
const GemmKernels<float>& GemmKernelsFor<float>();
template <>
const GemmKernels<double>& GemmKernelsFor<double>();

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_GEMM_KERNEL_H_
