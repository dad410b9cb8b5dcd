// All that a fine-tuning run is made of, loaded and checked, before anything is written. Internal
// to src/train.
#ifndef LORICA_TRAIN_SFT_SETUP_H_
#define LORICA_TRAIN_SFT_SETUP_H_

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/nn/decoder.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/thread_pool.h"
#include "lorica/train/data_files.h"
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
  std::string fingerprint;                // of the base model
  std::unique_ptr<const ModelText> text;  // where it is: data sets point to it
  std::tm now = {};                       // what chat templates take for the time
  std::optional<Dataset> train;
  std::optional<Dataset> eval;
  std::vector<DataFile> train_files;
  AdapterSet adapters;            // empty in full training
  int64_t router_parameters = 0;  // trained beside the adapters
  std::vector<std::string> left_out;
  std::vector<PatternMatches> matches;  // of fresh adapters
  std::vector<std::string> notes;
  TrainerOptions trainer_options;
  MemoryFacts memory;  // tokens filled in

  ParameterGroup Parameters();
};

// `with_weights` is false for a plan: then the model is declared only, and no folder is touched.
// Of the callbacks on_message, on_reading and cancelled are called. `now` is what chat templates
// take for the time; absent: the local time.
absl::StatusOr<SftSetup> SetUp(const SftOptions& options, bool with_weights,
                               const SftCallbacks& callbacks,
                               const std::optional<std::tm>& now = std::nullopt);

// Options of experts are an error where the model has none, rather than without effect.
absl::Status CheckExpertOptions(const SftOptions& options, const ModelConfig& model);

// Makes the model, or adapters and routers, trainable as the options say; without weights they are
// declared only.
absl::Status MakeTrainableParts(SftSetup& setup, bool with_weights);

// What CheckSameRun compares.
RunIdentity IdentityOf(const SftSetup& setup);

// The summary of a run. Without a trainer, that of the model alone.
absl::StatusOr<SftPlan> PlanOf(SftSetup& setup);

}  // namespace lorica::internal

#endif  // LORICA_TRAIN_SFT_SETUP_H_
