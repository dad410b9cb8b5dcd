// The instruction sets that kernels are compiled for. Include before anything of Highway.
//
// AVX-512, AVX2, SSE4 and the compiler's baseline on x86; NEON on Arm. The others only cost size:
// SSSE3 machines without SSE4 are museum pieces, the AVX3_DL extras are integer instructions, and
// the matrix kernels want vectors whose length the compiler knows, which SVE's don't.
#ifndef LORICA_TENSOR_CPU_SIMD_TARGETS_H_
#define LORICA_TENSOR_CPU_SIMD_TARGETS_H_

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

#endif  // LORICA_TENSOR_CPU_SIMD_TARGETS_H_
