#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/cross_entropy.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/cross_entropy-inl.h"

#if HWY_ONCE
#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(CrossEntropyRows);
HWY_EXPORT(CrossEntropyGradRows);

void CpuBackend::CrossEntropy(const CrossEntropyArgs& args) {
  ParallelRanges(args.logits.shape[0], RowGrain(args.logits.shape[1]),
                 args.logits.dtype == DType::kF64, [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(CrossEntropyRows)(args, begin, end);
                 });
}

void CpuBackend::CrossEntropyGrad(const CrossEntropyGradArgs& args) {
  ParallelRanges(args.logits.shape[0], RowGrain(args.logits.shape[1]),
                 args.logits.dtype == DType::kF64, [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(CrossEntropyGradRows)(args, begin, end);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
