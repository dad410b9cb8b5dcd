#include "lorica/train/exit_status.h"

namespace lorica {
namespace {

absl::Status WithCode(absl::StatusCode code, const absl::Status& status) {
  return absl::Status(code, status.message());
}

}  // namespace

int ExitStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return kExitInput;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailed;
  }
}

absl::Status AsInputError(absl::Status status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kCancelled:
      return status;
    default:
      return WithCode(absl::StatusCode::kDataLoss, status);
  }
}

absl::Status AsRunError(absl::Status status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return status;
    default:
      return WithCode(absl::StatusCode::kInternal, status);
  }
}

absl::Status AsOptionError(absl::Status status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kCancelled:
      return status;
    default:
      return WithCode(absl::StatusCode::kInvalidArgument, status);
  }
}

}  // namespace lorica
