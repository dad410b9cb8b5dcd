#include "tests/tensor/kernel_fixture.h"

// The list of compiled instruction sets must be the kernels' own.
#include "lorica/tensor/cpu/simd_targets.h"
// After simd_targets.h.
#include "hwy/highway.h"

namespace lorica::test {

void ForEachTarget(const std::function<void(const std::string& target)>& run) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update();
    run(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update();
}

}  // namespace lorica::test
