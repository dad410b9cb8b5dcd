// Where a run starts: afresh, or at a checkpoint. Internal to src/train.
#ifndef LORICA_TRAIN_RESUME_H_
#define LORICA_TRAIN_RESUME_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lorica/io/checkpoint.h"
#include "lorica/train/run_folder.h"
#include "lorica/train/sft_options.h"
#include "lorica/train/training_checkpoint.h"

namespace lorica::internal {

struct StartingPoint {
  // Absent: a fresh start.
  std::optional<CheckpointReader> checkpoint;
  TrainingState state;
  // The folder holds the beginnings of a run of the same configuration that left no checkpoint:
  // they go.
  bool clear = false;
};

// Decides from the options and the folder; looks at options only, not yet at model and data. Says
// through `say` what it passes over. Errors: a folder that holds another run (InvalidArgument),
// checkpoints that can't be opened (DataLoss, NotFound).
absl::StatusOr<StartingPoint> FindStart(FileSystem& files, const RunFolder& folder,
                                        const SftOptions& options,
                                        const std::function<void(const std::string&)>& say);

// Removes step folders after `step`, which a run that goes on from there will make again.
absl::Status RemoveLaterSteps(FileSystem& files, const std::string& checkpoints, int64_t step);

}  // namespace lorica::internal

#endif  // LORICA_TRAIN_RESUME_H_
