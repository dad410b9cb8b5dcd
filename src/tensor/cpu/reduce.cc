// Reductions: axes, chunks and threads. Threads split outputs or fixed chunks, never a chain.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/reduce.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/reduce-inl.h"

#if HWY_ONCE
#include <algorithm>
#include <array>
#include <vector>

#include "lorica/tensor/cpu/cpu_backend_impl.h"
#include "lorica/tensor/cpu/elementwise_loops.h"

namespace lorica::cpu {
HWY_EXPORT(AddRow);
HWY_EXPORT(SumSquaresRange);
HWY_EXPORT(ColumnSumRange);

namespace {

// Outputs whose chains run side by side.
constexpr int64_t kOutputs = 256;
// Columns per task of a sum over tokens: a row's piece is a whole number of cache lines.
constexpr int64_t kColumnGrain = 128;

// The shape of x restricted to its kept axes (`kept`) or to its summed ones; extents of 1 stand for
// the others.
Shape AxesOf(const Shape& x, const Shape& y, bool kept) {
  Shape shape = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool summed = y[axis] == 1;
    if (summed == kept) shape[axis] = 1;
  }
  return shape;
}

}  // namespace

void CpuBackend::SumTo(TensorView x, MutableTensorView y) {
  const LoopNest<2> outputs(AxesOf(x.shape, y.shape, true), {&x.strides, &y.strides});
  const LoopNest<1> addends(AxesOf(x.shape, y.shape, false), {&x.strides});
  const int64_t addend_count = addends.total();
  const auto run = [&](auto accumulator, auto value, int64_t begin, int64_t end) {
    using Acc = decltype(accumulator);
    using T = decltype(value);
    const T* x_data = x.as<T>();
    T* y_data = y.as<T>();
    const int64_t x_step = outputs.stride[0][outputs.rank - 1];
    const int64_t y_step = outputs.stride[1][outputs.rank - 1];
    outputs.ForRuns(begin, end, [&](const std::array<int64_t, 2>& offsets, int64_t count) {
      Acc sums[kOutputs] = {};
      const T* first = x_data + offsets[0];
      if (addend_count > 0) {
        addends.ForRuns(0, addend_count, [&](const std::array<int64_t, 1>& at, int64_t n) {
          const int64_t a_step = addends.stride[0][addends.rank - 1];
          // Side by side where the outputs are neighbours, else one chain after the other: the same
          // additions in the same order.
          if (x_step == 1 && count >= 8) {
            for (int64_t i = 0; i < n; ++i) {
              HWY_DYNAMIC_DISPATCH(AddRow)
              (x.dtype, first + at[0] + i * a_step, sums, static_cast<size_t>(count));
            }
            return;
          }
          for (int64_t j = 0; j < count; ++j) {
            const T* p = first + at[0] + j * x_step;
            Acc sum = sums[j];
            for (int64_t i = 0; i < n; ++i) sum += static_cast<Acc>(p[i * a_step]);
            sums[j] = sum;
          }
        });
      }
      for (int64_t j = 0; j < count; ++j) y_data[offsets[1] + j * y_step] = static_cast<T>(sums[j]);
    });
  };
  // Neighbouring outputs in pieces of whole cache lines, however many addends they have.
  const int64_t least = outputs.stride[0][outputs.rank - 1] == 1 ? 64 : 1;
  const int64_t grain =
      std::clamp<int64_t>(16384 / std::max<int64_t>(addend_count, 1), least, kOutputs);
  ParallelRanges(outputs.total(), grain, x.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   if (x.dtype == DType::kF64) {
                     run(double{}, double{}, begin, end);
                   } else if (x.dtype == DType::kBF16) {
                     run(float{}, BF16{}, begin, end);
                   } else {
                     run(float{}, float{}, begin, end);
                   }
                 });
}

double CpuBackend::SumSquares(TensorView x) {
  // Fixed chunks, added in order.
  constexpr int64_t kChunk = 16384;
  const int64_t n = x.numel();
  std::vector<double> sums(static_cast<size_t>((n + kChunk - 1) / kChunk));
  ParallelRanges(n, kChunk, x.dtype == DType::kF64, [&](int64_t begin, int64_t end, int) {
    sums[static_cast<size_t>(begin / kChunk)] = HWY_DYNAMIC_DISPATCH(SumSquaresRange)(
        x.dtype, x.data, static_cast<size_t>(begin), static_cast<size_t>(end));
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

void CpuBackend::ColumnSum(TensorView dy, const Sequences& sequences, double alpha,
                           MutableTensorView acc) {
  ParallelRanges(dy.shape[-1], kColumnGrain, dy.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(ColumnSumRange)
                   (dy, sequences, alpha, acc, begin, end);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
