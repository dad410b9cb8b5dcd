// All that a fine-tuning run is made of, loaded and checked, before anything is written. Internal
// to src/train.
#ifndef LORICA_TRAIN_SFT_SETUP_H_
#define LORICA_TRAIN_SFT_SETUP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/nn/decoder.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/thread_pool.h"
#include "lorica/train/dataset.h"
#include "lorica/train/load_text.h"
#include "lorica/train/memory_plan.h"
#include "lorica/train/sft.h"
#include "lorica/train/sft_options.h"
#include "lorica/train/trainer.h"
#include "lorica/train/training_checkpoint.h"

namespace lorica::internal {

// Members are destroyed from the last to the first: what borrows goes before what it borrows from.
struct SftSetup {
  SftOptions options;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<CausalLm> model;
  std::string fingerprint;  // of the base model
  ModelText text;
  std::optional<Dataset> train;
  std::optional<Dataset> eval;
  std::vector<std::string> train_files;
  AdapterSet adapters;  // empty in full training
  std::vector<std::string> left_out;
  std::vector<std::string> notes;
  TrainerOptions trainer_options;
  MemoryFacts memory;  // tokens filled in

  ParameterGroup Parameters();
};

using Message = std::function<void(const std::string&)>;

// `with_weights` is false for a plan: then the model is declared only. `say` may be null.
absl::StatusOr<SftSetup> SetUp(const SftOptions& options, bool with_weights, const Message& say);

// What CheckSameRun compares. Reads the data files once more.
absl::StatusOr<RunIdentity> IdentityOf(const SftSetup& setup);

// The summary of a run. Without a trainer, that of the model alone.
SftPlan PlanOf(SftSetup& setup);

}  // namespace lorica::internal

#endif  // LORICA_TRAIN_SFT_SETUP_H_
