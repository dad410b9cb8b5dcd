// How errors of this floor map to the exit status of the command, and how errors of the floors
// below, which name their own trouble with whatever code fits them, are brought into line.
//
// Functions of train/ that run a whole command (RunSft, PlanSft, RunScore) return only
//   InvalidArgument              an option or the configuration is wrong                    2
//   NotFound, DataLoss, FailedPrecondition, Unimplemented
//                                a model, data, adapter or checkpoint can't be used         3
//   Cancelled                    interrupted                                              130
//   any other code               failed while running: disk, memory, a loss that isn't
//                                finite (Aborted)                                           1
#ifndef LORICA_TRAIN_EXIT_STATUS_H_
#define LORICA_TRAIN_EXIT_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInput = 3;
inline constexpr int kExitInterrupted = 130;

// The exit status that a status of the functions above stands for.
int ExitStatus(const absl::Status& status);

// An error met while an input was read (model, tokenizer, template, data, adapter, checkpoint):
// keeps NotFound, DataLoss, FailedPrecondition, Unimplemented and Cancelled, turns every other code
// into DataLoss (a malformed file is no wrong option, whatever its reader calls it).
absl::Status AsInputError(absl::Status status);
// An error met while a result was written or a step was run: keeps ResourceExhausted, Aborted and
// Cancelled, turns every other code into Internal.
absl::Status AsRunError(absl::Status status);
// A value that a user gave is at fault: InvalidArgument, keeping Unimplemented (what the option
// asks for is a property of the model) and Cancelled.
absl::Status AsOptionError(absl::Status status);

template <typename T>
absl::StatusOr<T> AsInputError(absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return AsInputError(std::move(result).status());
}
template <typename T>
absl::StatusOr<T> AsRunError(absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return AsRunError(std::move(result).status());
}
template <typename T>
absl::StatusOr<T> AsOptionError(absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return AsOptionError(std::move(result).status());
}

}  // namespace lorica

#endif  // LORICA_TRAIN_EXIT_STATUS_H_
