#include "lorica/cli/version.h"

#include <hwy/targets.h>

#include "absl/strings/str_cat.h"
#include "lorica/tensor/cpu_backend.h"

namespace lorica::cli {
namespace {

std::string Compiler() {
#if defined(__clang__)
  return absl::StrCat("Clang ", __clang_version__);
#else
  return absl::StrCat("GCC ", __VERSION__);
#endif
}

// The instruction sets that this processor has, among those that Highway knows, best first.
std::string FoundTargets() {
  std::string names;
  const int64_t supported = hwy::SupportedTargets();
  for (int bit = 0; bit < 62; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((supported & target) != 0) {
      absl::StrAppend(&names, names.empty() ? "" : " ", hwy::TargetName(target));
    }
  }
  return names;
}

}  // namespace

std::string VersionText() {
  return absl::StrCat("lorica ", kVersion, "\ncommit    ", kCommit, "\ncompiler  ", Compiler(),
                      "\nCPU       found ", FoundTargets(), "; used ", CpuTargetName(),
                      "\noptional  CUDA absent, NCCL absent, MPI absent\n");
}

}  // namespace lorica::cli
