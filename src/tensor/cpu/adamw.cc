#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/adamw.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/adamw-inl.h"

#if HWY_ONCE
#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(AdamWRange);

void CpuBackend::AdamWStep(const AdamWArgs& args) {
  constexpr int64_t kGrain = 16384;
  ParallelRanges(args.param.numel(), kGrain, args.param.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(AdamWRange)(args, begin, end);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
