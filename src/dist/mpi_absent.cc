#include "lorica/dist/communicator.h"

namespace lorica {

bool IsMpiBuiltIn() { return false; }

absl::StatusOr<std::unique_ptr<Communicator>> MakeMpiCommunicator() {
  return absl::UnimplementedError("this build of Lorica has no MPI communicator");
}

}  // namespace lorica
