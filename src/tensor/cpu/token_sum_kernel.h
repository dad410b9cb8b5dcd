// The inner loops of sums over tokens (gradients of weights), one table per accumulator type and
// instruction set.
//
// The two operands play different roles: values of the `narrow` one are broadcast, vectors run
// along the columns of the `wide` one. The product of two values is the same either way round, so
// which of dy and x is which changes no bit.
#ifndef LORICA_TENSOR_CPU_TOKEN_SUM_KERNEL_H_
#define LORICA_TENSOR_CPU_TOKEN_SUM_KERNEL_H_

#include <cstdint>

#include "lorica/tensor/dtype.h"
#include "lorica/tensor/sequences.h"

namespace lorica::cpu {

struct TokenOperand {
  const void* data = nullptr;  // [T, columns]
  DType type = DType::kF32;
  int64_t stride = 0;
  int64_t columns = 0;
};

// One rectangle of the accumulator: all of `narrow`'s columns by all of `wide`'s.
template <typename T>
struct TokenSumBlock {
  TokenOperand narrow, wide;
  const Sequences* sequences = nullptr;
  T alpha = 1;
  T* acc = nullptr;
  int64_t acc_stride = 0;
  bool transposed = false;  // acc is [wide, narrow] instead of [narrow, wide]
  T* scratch = nullptr;     // TokenSumKernels::ScratchSize(wide.columns)
};

template <typename T>
struct TokenSumKernels {
  int64_t narrow_unit;  // columns of narrow and wide in one tile
  int64_t wide_unit;
  int64_t packed_strips;  // of narrow_unit columns, at a time
  void (*accumulate)(const TokenSumBlock<T>& block);

  // All of wide and packed_strips of narrow, kTokenBlock tokens each.
  int64_t ScratchSize(int64_t wide_columns) const {
    const int64_t panels = (wide_columns + wide_unit - 1) / wide_unit;
    return kTokenBlock * (packed_strips * narrow_unit + panels * wide_unit);
  }
};

// For this machine.
template <typename T>
const TokenSumKernels<T>& TokenSumKernelsFor();
template <>
const TokenSumKernels<float>& TokenSumKernelsFor<float>();
template <>
const TokenSumKernels<double>& TokenSumKernelsFor<double>();

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_TOKEN_SUM_KERNEL_H_
