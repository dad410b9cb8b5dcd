#include "lorica/cuda/cuda_backend.h"

namespace lorica::cuda {

bool IsBuiltIn() { return false; }

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int) {
  return absl::UnimplementedError("this build of Lorica has no CUDA backend");
}

}  // namespace lorica::cuda
