// Matrix products that accumulate in f64.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/gemm_kernel_f64.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "lorica/tensor/cpu/gemm_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

const GemmKernels<double>* KernelsF64() { return Kernels<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::cpu {

HWY_EXPORT(KernelsF64);

template <>
const GemmKernels<double>& GemmKernelsFor<double>() {
  return *HWY_DYNAMIC_DISPATCH(KernelsF64)();
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
