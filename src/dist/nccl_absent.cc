#include "lorica/dist/communicator.h"

namespace lorica {

bool IsNcclBuiltIn() { return false; }

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(int) {
  return absl::UnimplementedError("this build of Lorica has no NCCL communicator");
}

}  // namespace lorica
