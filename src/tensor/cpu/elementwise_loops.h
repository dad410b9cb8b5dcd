// Loop nests of pointwise ops: operands of one shape with any strides, brought down to runs of
// contiguous values of the accumulator type.
#ifndef LORICA_TENSOR_CPU_ELEMENTWISE_LOOPS_H_
#define LORICA_TENSOR_CPU_ELEMENTWISE_LOOPS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "lorica/tensor/view.h"

namespace lorica::cpu {

// The axes of one shape walked by kOperands operands: extents of 1 dropped, and neighbouring axes
// that every operand crosses with one stride joined. rank >= 1; the last axis is the innermost.
template <size_t kOperands>
struct LoopNest {
  int rank = 0;
  std::array<int64_t, kMaxRank> extent{};
  std::array<std::array<int64_t, kMaxRank>, kOperands> stride{};

  LoopNest(const Shape& shape, const std::array<const Shape*, kOperands>& strides) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      bool joins = rank > 0;
      for (size_t o = 0; joins && o < kOperands; ++o) {
        joins = stride[o][rank - 1] == (*strides[o])[axis] * shape[axis];
      }
      if (joins) {
        extent[rank - 1] *= shape[axis];
      } else {
        extent[rank++] = shape[axis];
      }
      for (size_t o = 0; o < kOperands; ++o) stride[o][rank - 1] = (*strides[o])[axis];
    }
    if (rank == 0) {
      extent[rank++] = 1;
      for (size_t o = 0; o < kOperands; ++o) stride[o][0] = 1;
    }
  }

  int64_t inner() const { return extent[rank - 1]; }
  int64_t total() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= extent[axis];
    return product;
  }

  // Calls run(offsets, count) for elements [begin, end) of the row-major order, in runs along the
  // innermost axis; offsets has the element offset of each operand.
  template <typename Run>
  void ForRuns(int64_t begin, int64_t end, const Run& run) const {
    std::array<int64_t, kMaxRank> index{};
    for (int64_t axis = rank - 1, rest = begin; axis >= 0; --axis) {
      index[axis] = rest % extent[axis];
      rest /= extent[axis];
    }
    while (begin < end) {
      std::array<int64_t, kOperands> offsets{};
      for (int axis = 0; axis < rank; ++axis) {
        for (size_t o = 0; o < kOperands; ++o) offsets[o] += index[axis] * stride[o][axis];
      }
      const int64_t count = std::min(inner() - index[rank - 1], end - begin);
      run(offsets, count);
      begin += count;
      index[rank - 1] += count;
      for (int axis = rank - 1; axis > 0 && index[axis] == extent[axis]; --axis) {
        index[axis] = 0;
        ++index[axis - 1];
      }
    }
  }
};

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_ELEMENTWISE_LOOPS_H_
