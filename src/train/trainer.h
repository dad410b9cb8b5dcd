// Trainer: the optimizer steps of one run over one data set.
//
//   Trainer trainer(model, std::move(parameters), source, options);
//   while (!trainer.done()) { auto metrics = trainer.Step(); ... }
//
// A step takes the next batch_size records, runs them in forward passes of any size, sums losses
// and gradients over all trained tokens, each times its weight, divides once by the sum of the
// weights, clips, and updates. An adapter's bytes
// depend on model, options, data and seed, not on threads, packing, passes or recompute.
#ifndef LORICA_TRAIN_TRAINER_H_
#define LORICA_TRAIN_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/nn/decoder.h"
#include "lorica/optim/lr_schedule.h"
#include "lorica/optim/optimizer.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/train/batch.h"
#include "lorica/train/epoch_order.h"
#include "lorica/train/expert_load.h"
#include "lorica/train/metrics.h"
#include "lorica/train/sequence_source.h"

namespace lorica {

struct TrainerOptions {
  OptimizerOptions optimizer;
  LrSchedule schedule;       // total_steps is filled in by the trainer
  double max_grad_norm = 1;  // 0: no clipping
  int64_t batch_size = 8;    // records of a step
  int64_t epochs = 1;
  std::optional<int64_t> max_steps;  // whichever ends first
  // What an epoch takes; empty: every record once.
  std::vector<MixturePart> mixture;
  bool shuffle = true;
  uint64_t seed = 0;  // of the order of records
  bool recompute = false;
  // After a step the correction bias of every router moves by this, towards an even load of the
  // step (UpdateCorrectionBias in autograd/router.h); 0: biases stay.
  double router_bias_update = 0;
  BatchOptions batch;
};

// Records of an epoch, of `records` in all.
int64_t EpochRecords(int64_t records, const TrainerOptions& options);
// Steps of an epoch and of a run over `records` records: batches never cross the end of an epoch, a
// last short one is a step.
int64_t StepsPerEpoch(int64_t records, const TrainerOptions& options);
int64_t TotalSteps(int64_t records, const TrainerOptions& options);

// The trainable leaves of a run: adapter factors of a slot in tree order, or every trainable
// parameter of the model.
ParameterGroup ParametersOf(const AdapterSet& adapters, int slot = 0);
ParameterGroup ParametersOf(CausalLm& model);

// Correction biases of the model's routers, as trainers move them: each is given bytes of its own.
// No optimizer knows them. Empty where the model has none.
ParameterGroup CorrectionBiases(CausalLm& model);

// One thread at a time. Borrows model and source.
class Trainer {
 public:
  // Throws Error for options that make no sense (a batch of no record, a router_bias_update of a
  // model that has no such bias in one of its routers).
  Trainer(CausalLm& model, ParameterGroup parameters, const SequenceSource& source,
          const TrainerOptions& options);

  // Every step of the run has a trained token, else FailedPrecondition naming the step and its
  // records. Ids and targets aren't looked at.
  absl::Status CheckSteps() const;

  // The next step. Aborted where a loss or a gradient isn't finite: then nothing was updated. A
  // source that can't be read gives that error. Seconds are the caller's to fill in only if it
  // wants others than the wall clock's.
  absl::StatusOr<StepMetrics> Step();

  int64_t step() const { return optimizer_->clock() + skipped_; }  // steps made
  int64_t total_steps() const { return total_steps_; }
  bool done() const { return step() >= total_steps_; }
  // Records seen, over all epochs: where in the data the run is.
  int64_t position() const;

  Optimizer& optimizer() { return *optimizer_; }
  // What steps change besides the optimizer's parameters, and a checkpoint must hold: with
  // router_bias_update the correction biases, else nothing. In-place writes reach the model.
  const ParameterGroup& buffers() const { return buffers_; }
  // Continues after `step` steps. The optimizer's state and clock are loaded by the caller; with a
  // fresh optimizer its clock starts at 0 again.
  void ContinueAt(int64_t step);

 private:
  struct Slice {
    int64_t epoch, begin, end;  // positions in the epoch's order
  };
  Slice SliceOf(int64_t step) const;
  const RecordNumbers& OrderOf(int64_t epoch) const;
  // What the routers have counted, of a pass of `tokens` tokens; forgets it.
  void CountRouting(int64_t tokens, StepMetrics& metrics);

  CausalLm& model_;
  const SequenceSource& source_;
  TrainerOptions options_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::pair<std::string, nn::Moe*>> mixtures_;
  ParameterGroup buffers_;  // one a mixture, or none
  int64_t epoch_records_ = 0;
  int64_t total_steps_ = 0;
  int64_t skipped_ = 0;  // steps that the optimizer's clock doesn't count
  mutable int64_t order_epoch_ = -1;
  mutable RecordNumbers order_;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_TRAINER_H_
