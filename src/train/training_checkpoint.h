// Checkpoints of a training run: trained parameters, the optimizer's state under the same global
// coordinates, and all that decides how the run goes on.
//
// Tensors of a checkpoint: "<path>" (role lora_a, lora_b, matrix, ...), "<path>:adam_m",
// "<path>:adam_v" or "<path>:momentum", and, where the best parameters are kept, "<path>:best".
// Correction biases of routers, where the run moves them, stand beside them (role "buffer").
#ifndef LORICA_TRAIN_TRAINING_CHECKPOINT_H_
#define LORICA_TRAIN_TRAINING_CHECKPOINT_H_

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/checkpoint.h"
#include "lorica/io/file_system.h"
#include "lorica/optim/optimizer.h"
#include "lorica/train/evaluate.h"
#include "lorica/train/expert_load.h"

namespace lorica {

// Tells a file from others by content; the name (without the folders above it) is for messages.
struct FileFingerprint {
  std::string name;
  int64_t size = 0;
  uint32_t crc32c = 0;

  bool operator==(const FileFingerprint& other) const {
    return size == other.size && crc32c == other.crc32c;
  }
};

// What a run is: two runs of one identity go the same way. Compared when a run is resumed.
struct RunIdentity {
  std::vector<std::pair<std::string, std::string>> options;  // FixedOptions (toml_options.h)
  std::vector<FileFingerprint> data;
  std::string tokens;         // of the data once tokenised (Dataset::fingerprint)
  std::string chat_template;  // a checksum of the template's text; empty without one
  std::string base_model;     // nn Fingerprint
};

// Ok when equal. Otherwise names every option that differs (InvalidArgument), or what differs of
// model, template and data (FailedPrecondition). `where` is the path of the checkpoint.
absl::Status CheckSameRun(const std::string& where, const RunIdentity& saved,
                          const RunIdentity& current);

struct TrainingState {
  RunIdentity run;
  std::string run_id;  // drawn when the run began
  // What chat templates that show the time took for it, from the run's beginning to its end; absent
  // in checkpoints that don't say it.
  std::optional<std::tm> now;
  int64_t step = 0;      // made
  int64_t position = 0;  // records seen, over all epochs
  int64_t clock = 0;     // of the optimizer
  EvaluationHistory evaluations;
  bool stopped_early = false;
  ExpertLoads loads;  // since the last line of the metrics that told them
  // An evaluation was due after this step and the run was interrupted before its end.
  bool evaluation_pending = false;
};

// Copies of the parameters of a group, in its order; empty: none are kept.
using ParameterCopies = std::vector<Tensor>;
ParameterCopies CopyParameters(const ParameterGroup& group);

// Writes `folder`/step-XXXXXXXX and returns its path. One that stands there but can't be opened
// makes way. `buffers` change with the steps and belong to no optimizer (Trainer::buffers); `best`
// holds copies of the optimizer's parameters and of them.
absl::StatusOr<std::string> SaveTraining(FileSystem& files, const std::string& folder,
                                         const TrainingState& state, Optimizer& optimizer,
                                         const ParameterGroup& buffers,
                                         const ParameterCopies& best);

// All but the tensors.
absl::StatusOr<TrainingState> ReadTrainingState(const CheckpointReader& reader);

// Reads parameters, optimizer state, buffers and best parameters (into `best`, emptied where there
// are none). The checkpoint must have exactly the tensors that the optimizer has, of the same types
// and shapes. With `fresh_optimizer` state tensors are left as they are, and the clock too;
// without, all of a step above 0 being zero is an error: nothing else shows that a state was lost.
absl::Status LoadTraining(const CheckpointReader& reader, const TrainingState& state,
                          bool fresh_optimizer, Optimizer& optimizer, const ParameterGroup& buffers,
                          ParameterCopies* best);

}  // namespace lorica

#endif  // LORICA_TRAIN_TRAINING_CHECKPOINT_H_
