// Runs a test once for each instruction set that this machine has and the kernels are compiled for.
#ifndef LORICA_TESTS_TENSOR_SIMD_TARGETS_H_
#define LORICA_TESTS_TENSOR_SIMD_TARGETS_H_

#include <gtest/gtest.h>

#include <string>

#include "hwy/highway.h"
#include "lorica/tensor/cpu_backend.h"

namespace lorica::test {

// Dispatches to `targets` only, while alive.
class ForceTargets {
 public:
  explicit ForceTargets(int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~ForceTargets() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ForceTargets(const ForceTargets&) = delete;
  ForceTargets& operator=(const ForceTargets&) = delete;
};

template <typename Body>
void ForEachTarget(const Body& body) {
  const int64_t supported = hwy::SupportedTargets();
  int tried = 0;
  for (int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON, HWY_EMU128, HWY_SCALAR}) {
    if ((supported & target) == 0) continue;
    ForceTargets force(target);
    SCOPED_TRACE(CpuTargetName());
    body();
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

// Whether the kernels in use multiply and add with one rounding.
inline bool TargetHasFma() {
  const std::string name = CpuTargetName();
  return name == "AVX3" || name == "AVX2" || name == "NEON";
}

}  // namespace lorica::test

#endif  // LORICA_TESTS_TENSOR_SIMD_TARGETS_H_
