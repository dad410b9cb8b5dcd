// Matrix products that accumulate in f32.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/gemm_kernel_f32.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "lorica/tensor/cpu/gemm_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

const GemmKernels<float>* KernelsF32() { return Kernels<float>(); }

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::cpu {

HWY_EXPORT(KernelsF32);

template <>
const GemmKernels<float>& GemmKernelsFor<float>() {
  return *HWY_DYNAMIC_DISPATCH(KernelsF32)();
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
