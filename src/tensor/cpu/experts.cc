// Experts' row ops: types and threads.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/experts.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/experts-inl.h"

#if HWY_ONCE
#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(GatedForwardRows);
HWY_EXPORT(GatedGradRows);
HWY_EXPORT(CombineRowRange);

void CpuBackend::GatedActivationForward(const GatedActivationArgs& args) {
  ParallelRanges(args.y.shape.rows(), RowGrain(args.y.shape[-1]), args.y.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(GatedForwardRows)(args, begin, end);
                 });
}

void CpuBackend::GatedActivationGrad(const GatedActivationGradArgs& args) {
  ParallelRanges(args.dy.shape.rows(), RowGrain(args.dy.shape[-1]), args.dy.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(GatedGradRows)(args, begin, end);
                 });
}

void CpuBackend::CombineRows(const CombineRowsArgs& args) {
  ParallelRanges(args.y.shape.rows(), RowGrain(args.y.shape[-1]), args.y.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(CombineRowRange)(args, begin, end);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
