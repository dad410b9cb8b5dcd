#include "lorica/tensor/cpu/target_name.h"

#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/target_name.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

const char* NameOfTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::cpu {

HWY_EXPORT(NameOfTarget);

const char* TargetName() { return HWY_DYNAMIC_DISPATCH(NameOfTarget)(); }

}  // namespace lorica::cpu
#endif  // HWY_ONCE
