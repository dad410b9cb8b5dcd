// Row-wise ops: types and threads.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/rows-inl.h"
#include "lorica/tensor/cpu/rows_norm-inl.h"

#if HWY_ONCE
#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(SoftmaxRows);
HWY_EXPORT(SoftmaxGradRows);
HWY_EXPORT(SwiGluRows);
HWY_EXPORT(SwiGluGradRows);
HWY_EXPORT(RmsNormRows);
HWY_EXPORT(RmsNormGradRows);
HWY_EXPORT(RmsNormWeightGradColumns);

namespace {

constexpr int64_t kColumnGrain = 128;

template <typename Acc>
const void* Convert(const TensorView& weight, Workspace& scratch) {
  const int64_t n = weight.numel();
  Acc* values = static_cast<Acc*>(scratch.Reserve(static_cast<size_t>(n) * sizeof(Acc)));
  for (int64_t i = 0; i < n; ++i) {
    switch (weight.dtype) {
      case DType::kBF16:
        values[i] = static_cast<float>(weight.as<BF16>()[i]);
        break;
      case DType::kF64:
        values[i] = static_cast<Acc>(weight.as<double>()[i]);
        break;
      default:
        values[i] = weight.as<float>()[i];
        break;
    }
  }
  return values;
}

// The weight in the accumulator type `dtype`: itself, or a copy in `scratch`.
const void* AccumulatorWeight(const TensorView& weight, DType dtype, Workspace& scratch) {
  if (weight.dtype == dtype) return weight.data;
  return dtype == DType::kF64 ? Convert<double>(weight, scratch) : Convert<float>(weight, scratch);
}

}  // namespace

void CpuBackend::Softmax(TensorView x, bool log, MutableTensorView y) {
  ParallelRanges(x.shape.rows(), RowGrain(x.shape[-1]), x.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(SoftmaxRows)(x, log, y, begin, end);
                 });
}

void CpuBackend::SoftmaxGrad(TensorView y, TensorView dy, bool log, MutableTensorView dx) {
  ParallelRanges(y.shape.rows(), RowGrain(y.shape[-1]), y.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(SoftmaxGradRows)(y, dy, log, dx, begin, end);
                 });
}

void CpuBackend::RmsNorm(TensorView x, TensorView weight, double eps, MutableTensorView y,
                         MutableTensorView rstd) {
  const void* w = AccumulatorWeight(weight, AccumulatorOf(x.dtype), packed_);
  ParallelRanges(x.shape.rows(), RowGrain(x.shape[-1]), x.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(RmsNormRows)(x, w, eps, y, rstd, begin, end);
                 });
}

void CpuBackend::RmsNormGrad(TensorView x, TensorView weight, TensorView rstd, TensorView dy,
                             MutableTensorView dx) {
  const void* w = AccumulatorWeight(weight, AccumulatorOf(x.dtype), packed_);
  ParallelRanges(x.shape.rows(), RowGrain(x.shape[-1]), x.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(RmsNormGradRows)(x, w, rstd, dy, dx, begin, end);
                 });
}

void CpuBackend::RmsNormWeightGrad(TensorView x, TensorView rstd, TensorView dy,
                                   const Sequences& sequences, MutableTensorView acc) {
  ParallelRanges(x.shape[-1], kColumnGrain, x.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(RmsNormWeightGradColumns)
                   (x, rstd, dy, sequences, acc, begin, end);
                 });
}

void CpuBackend::SwiGlu(TensorView gate, TensorView up, MutableTensorView y) {
  ParallelRanges(gate.shape.rows(), RowGrain(gate.shape[-1]), gate.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(SwiGluRows)(gate, up, y, begin, end);
                 });
}

void CpuBackend::SwiGluGrad(TensorView gate, TensorView up, TensorView dy, MutableTensorView dgate,
                            MutableTensorView dup) {
  ParallelRanges(gate.shape.rows(), RowGrain(gate.shape[-1]), gate.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(SwiGluGradRows)
                   (gate, up, dy, dgate, dup, begin, end);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
