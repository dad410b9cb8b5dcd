#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/rope.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/rope-inl.h"

#if HWY_ONCE
#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(RopeTokens);

void CpuBackend::Rope(const RopeArgs& args) {
  ParallelRanges(args.x.shape[0], RowGrain(args.x.shape[1] * args.x.shape[2]),
                 args.x.dtype == DType::kF64, [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(RopeTokens)(args, begin, end);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
