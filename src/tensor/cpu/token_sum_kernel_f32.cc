// Sums over tokens that accumulate in f32.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/token_sum_kernel_f32.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "lorica/tensor/cpu/token_sum_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

const TokenSumKernels<float>* TokenKernelsF32() { return TokenKernels<float>(); }

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::cpu {

HWY_EXPORT(TokenKernelsF32);

template <>
const TokenSumKernels<float>& TokenSumKernelsFor<float>() {
  return *HWY_DYNAMIC_DISPATCH(TokenKernelsF32)();
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
