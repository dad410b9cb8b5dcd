// Pointwise ops: threads and staging. The loops of elementwise-inl.h see contiguous f32 or f64;
// other operands (bf16, strided, broadcast) pass through small buffers in the first-level cache.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/elementwise-inl.h"
#include "lorica/tensor/cpu/elementwise_rows-inl.h"

#if HWY_ONCE
#include <type_traits>

#include "lorica/tensor/cpu/cpu_backend_impl.h"
#include "lorica/tensor/cpu/elementwise_loops.h"

namespace lorica::cpu {
HWY_EXPORT(UnaryF32);
HWY_EXPORT(UnaryF64);
HWY_EXPORT(UnaryGradF32);
HWY_EXPORT(UnaryGradF64);
HWY_EXPORT(BinaryF32);
HWY_EXPORT(BinaryF64);
HWY_EXPORT(AffineF32);
HWY_EXPORT(AffineF64);
HWY_EXPORT(WidenBF16);
HWY_EXPORT(NarrowToBF16);
HWY_EXPORT(DropoutRows);
HWY_EXPORT(ScaleRowRange);

namespace {

// Values per staging buffer: three of them, of double, fill half of a 32 KB first-level cache.
constexpr int64_t kStage = 512;
constexpr int64_t kElementGrain = 16384;

// `count` values at `offset` of `x` as Acc: in place where they lie so already, else in `buffer`.
template <typename Acc>
const Acc* StageIn(const TensorView& x, int64_t offset, int64_t stride, int64_t count,
                   Acc* buffer) {
  if (x.dtype == DType::kBF16) {
    if constexpr (std::is_same_v<Acc, float>) {
      const BF16* data = x.as<BF16>() + offset;
      if (stride == 1) {
        HWY_DYNAMIC_DISPATCH(WidenBF16)(data, buffer, static_cast<size_t>(count));
      } else {
        for (int64_t i = 0; i < count; ++i) buffer[i] = static_cast<float>(data[i * stride]);
      }
    }
    return buffer;
  }
  const Acc* data = x.as<Acc>() + offset;
  if (stride == 1) return data;
  for (int64_t i = 0; i < count; ++i) buffer[i] = data[i * stride];
  return buffer;
}

template <typename Acc>
void StageOut(const Acc* values, const MutableTensorView& y, int64_t offset, int64_t stride,
              int64_t count) {
  if (y.dtype == DType::kBF16) {
    if constexpr (std::is_same_v<Acc, float>) {
      BF16* data = y.as<BF16>() + offset;
      if (stride == 1) {
        HWY_DYNAMIC_DISPATCH(NarrowToBF16)(values, data, static_cast<size_t>(count));
      } else {
        for (int64_t i = 0; i < count; ++i) data[i * stride] = BF16(values[i]);
      }
    }
    return;
  }
  Acc* data = y.as<Acc>() + offset;
  for (int64_t i = 0; i < count; ++i) data[i * stride] = values[i];
}

// y = kernel(inputs) elementwise; kernel(in, out, n) works on contiguous values.
template <typename Acc, size_t kInputs, typename Kernel>
void Pointwise(ThreadPool& pool, const std::array<TensorView, kInputs>& inputs,
               const MutableTensorView& y, const Kernel& kernel) {
  std::array<const Shape*, kInputs + 1> strides;
  for (size_t i = 0; i < kInputs; ++i) strides[i] = &inputs[i].strides;
  strides[kInputs] = &y.strides;
  const LoopNest<kInputs + 1> nest(y.shape, strides);
  const int64_t total = y.numel();
  const auto stride_of = [&](size_t operand) { return nest.stride[operand][nest.rank - 1]; };
  const bool direct_out = y.dtype != DType::kBF16 && stride_of(kInputs) == 1;
  bool staged = !direct_out;
  for (size_t i = 0; i < kInputs; ++i) {
    staged = staged || inputs[i].dtype == DType::kBF16 || stride_of(i) != 1;
  }
  pool.Run((total + kElementGrain - 1) / kElementGrain,
           [&](int64_t task, int) {
             Acc buffers[kInputs + 1][kStage];
             const int64_t begin = task * kElementGrain;
             nest.ForRuns(begin, std::min(begin + kElementGrain, total),
                          [&](const std::array<int64_t, kInputs + 1>& offsets, int64_t count) {
                            const int64_t step = staged ? kStage : count;
                            for (int64_t j = 0; j < count; j += step) {
                              const int64_t n = std::min(step, count - j);
                              std::array<const Acc*, kInputs> in;
                              for (size_t i = 0; i < kInputs; ++i) {
                                in[i] = StageIn<Acc>(inputs[i], offsets[i] + j * stride_of(i),
                                                     stride_of(i), n, buffers[i]);
                              }
                              const int64_t out_offset = offsets[kInputs] + j * stride_of(kInputs);
                              Acc* out = buffers[kInputs];
                              if (direct_out) out = y.as<Acc>() + out_offset;
                              kernel(in, out, static_cast<size_t>(n));
                              if (!direct_out) {
                                StageOut<Acc>(out, y, out_offset, stride_of(kInputs), n);
                              }
                            }
                          });
           },
           y.dtype != DType::kF64);
}

}  // namespace

void CpuBackend::Unary(UnaryOp op, TensorView x, MutableTensorView y) {
  if (y.dtype == DType::kF64) {
    Pointwise<double, 1>(pool_, {x}, y, [op](const auto& in, double* out, size_t n) {
      HWY_DYNAMIC_DISPATCH(UnaryF64)(op, in[0], out, n);
    });
  } else {
    Pointwise<float, 1>(pool_, {x}, y, [op](const auto& in, float* out, size_t n) {
      HWY_DYNAMIC_DISPATCH(UnaryF32)(op, in[0], out, n);
    });
  }
}

void CpuBackend::UnaryGrad(UnaryOp op, TensorView x, TensorView dy, MutableTensorView dx) {
  if (dx.dtype == DType::kF64) {
    Pointwise<double, 2>(pool_, {x, dy}, dx, [op](const auto& in, double* out, size_t n) {
      HWY_DYNAMIC_DISPATCH(UnaryGradF64)(op, in[0], in[1], out, n);
    });
  } else {
    Pointwise<float, 2>(pool_, {x, dy}, dx, [op](const auto& in, float* out, size_t n) {
      HWY_DYNAMIC_DISPATCH(UnaryGradF32)(op, in[0], in[1], out, n);
    });
  }
}

void CpuBackend::Binary(BinaryOp op, TensorView a, TensorView b, MutableTensorView y) {
  if (y.dtype == DType::kF64) {
    Pointwise<double, 2>(pool_, {a, b}, y, [op](const auto& in, double* out, size_t n) {
      HWY_DYNAMIC_DISPATCH(BinaryF64)(op, in[0], in[1], out, n);
    });
  } else {
    Pointwise<float, 2>(pool_, {a, b}, y, [op](const auto& in, float* out, size_t n) {
      HWY_DYNAMIC_DISPATCH(BinaryF32)(op, in[0], in[1], out, n);
    });
  }
}

void CpuBackend::Affine(TensorView x, double factor, double bias, MutableTensorView y) {
  if (y.dtype == DType::kF64) {
    Pointwise<double, 1>(pool_, {x}, y, [=](const auto& in, double* out, size_t n) {
      HWY_DYNAMIC_DISPATCH(AffineF64)(in[0], factor, bias, out, n);
    });
  } else {
    const float f = static_cast<float>(factor), b = static_cast<float>(bias);
    Pointwise<float, 1>(pool_, {x}, y, [=](const auto& in, float* out, size_t n) {
      HWY_DYNAMIC_DISPATCH(AffineF32)(in[0], f, b, out, n);
    });
  }
}

void CpuBackend::Dropout(TensorView x, const DropoutMask& mask, MutableTensorView y) {
  ParallelRanges(x.shape.rows(), RowGrain(x.shape[-1]), x.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(DropoutRows)(x, mask, y, begin, end);
                 });
}

void CpuBackend::ScaleRows(TensorView x, TensorView factor, MutableTensorView y) {
  ParallelRanges(x.shape.rows(), RowGrain(x.shape[-1]), x.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(ScaleRowRange)(x, factor, y, begin, end);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
