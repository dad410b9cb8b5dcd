// The CUDA backend's one entry. Defined by cuda_backend.cc where a CUDA Toolkit is built in, else
// by its twin cuda_absent.cc: Meson chooses the file, no caller can tell at compile time.
#ifndef LORICA_CUDA_CUDA_BACKEND_H_
#define LORICA_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lorica/tensor/backend.h"

namespace lorica::cuda {

// This build has a CUDA backend.
bool IsBuiltIn();

// A backend on device `index`. Unimplemented when CUDA isn't built in; NotFound when there is no
// such device.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int index);

}  // namespace lorica::cuda

#endif  // LORICA_CUDA_CUDA_BACKEND_H_
