// Supervised fine-tuning as a whole: from a model, data and options to an adapter, its checkpoints,
// metrics and report. What the command `lorica sft` calls, and `lorica plan`.
#ifndef LORICA_TRAIN_SFT_H_
#define LORICA_TRAIN_SFT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"
#include "lorica/peft/target_pattern.h"
#include "lorica/train/duplicates.h"
#include "lorica/train/evaluate.h"
#include "lorica/train/length_histogram.h"
#include "lorica/train/memory_plan.h"
#include "lorica/train/metrics.h"
#include "lorica/train/sft_options.h"

namespace lorica {

// One adapted module.
struct PlannedModule {
  std::string path;
  std::vector<int64_t> shape;  // [out, in]
  int64_t rank = 0;
  double alpha = 0;
};

// One of the files that were read.
struct DataFileSummary {
  std::string path;
  int64_t records = 0;  // kept
  double weight = 1;
  int64_t taken = 0;  // in an epoch
};

// What became of the records of the data files.
struct DataSummary {
  std::string format;          // "messages", "prompt and completion", ...
  int64_t records = 0;         // read
  int64_t split_records = 0;   // of which the chat template made several examples each,
  int64_t split_examples = 0;  // these together
  int64_t dropped = 0;         // too long, with --overlong drop
  int64_t truncated = 0;       // cut to the longest length
  int64_t duplicates = 0;      // equal to an earlier one
  int64_t deduplicated = 0;    // left out therefore, with --deduplicate
  std::vector<DuplicateRecord> first_duplicates;  // a few
  int64_t untrained = 0;                          // kept, but without a trained token
  int64_t tokens = 0;                             // of the kept ones
  int64_t trained_tokens = 0;
  int64_t longest = 0;    // tokens of the longest kept one
  int64_t in_memory = 0;  // kept in memory
  // Tokens of the records before any was cut or dropped.
  std::vector<LengthBar> lengths;
  int64_t median_length = 0;
  int64_t p95_length = 0;  // 95% of the records aren't longer
  int64_t max_length = 0;
  std::vector<DataFileSummary> files;

  int64_t kept() const { return records - split_records + split_examples - dropped - deduplicated; }
};

// Text of a record in pieces of one kind, for showing what is trained.
struct MarkedPiece {
  std::string text;
  bool trained = false;
};

// What a run will do: known before its first step.
struct SftPlan {
  std::string model;        // path
  std::string family;       // "llama", ...
  std::string fingerprint;  // of the base model; empty in a plan that reads no weights
  std::string dtype;
  std::string instruction_set;  // "AVX3", ...
  int threads = 1;
  std::vector<std::string> notes;  // sentences worth a line

  std::vector<PlannedModule> modules;                    // empty in full training
  std::vector<std::pair<std::string, int64_t>> by_name;  // last name of a path -> how many
  std::vector<std::string> left_out;                     // matched, but without gradient
  int64_t router_parameters = 0;        // of routers that are trained in full beside the adapters
  std::vector<PatternMatches> matches;  // of fresh adapters, before excludes
  int64_t trainable_parameters = 0;
  int64_t model_parameters = 0;  // adapter not counted

  std::optional<DataSummary> data;  // absent without data
  std::optional<DataSummary> eval_data;
  int64_t epoch_records = 0;  // records of an epoch: by their weights
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  int64_t warmup_steps = 0;
  int64_t resumed_step = 0;   // 0: a fresh start
  int64_t rows_per_pass = 0;  // 0: by tokens
  int64_t tokens_per_pass = 0;
  MemoryPlan memory;
  // The first records, as the model will see them.
  std::vector<std::vector<MarkedPiece>> first_records;
  std::vector<std::string> first_places;  // of these: "train.jsonl, line 1"
};

struct SampleAnswer {
  std::string prompt;
  std::string before;
  std::string after;
};

struct SftResult {
  bool was_finished = false;  // the folder held the finished run: nothing was done
  bool stopped_early = false;
  int64_t steps = 0;  // made in all, resumed ones included
  StepMetrics last;   // of the last step
  std::optional<EvalMetrics> last_evaluation;
  EvaluationHistory evaluations;
  std::string result_path;      // adapter/ or model/
  std::string checkpoint_path;  // the newest
  std::string report_path;
  std::vector<SampleAnswer> samples;
};

// Where a step stands among all.
struct SftProgress {
  int64_t step = 0;
  int64_t total_steps = 0;
};

// Called from RunSft's thread; each may be null.
struct SftCallbacks {
  // Before the first step; nothing is written yet.
  std::function<void(const SftPlan&)> on_plan;
  std::function<void(const StepMetrics&, const SftProgress&)> on_step;
  std::function<void(const EvalMetrics&, const SftProgress&)> on_evaluation;
  // What happens between steps, one sentence each: loading, saving, resuming.
  std::function<void(const std::string&)> on_message;
  // How far the data files are read, in bytes as they lie there; `total_bytes` is 0 where that
  // isn't known.
  std::function<void(int64_t bytes, int64_t total_bytes, int64_t records)> on_reading;
  // Asked between steps, before the first one, while data is read and during evaluation; true ends
  // the run after a checkpoint. May be set from another thread or a signal handler through an
  // atomic.
  std::function<bool()> cancelled;
};

// Runs to the end, to an error or until cancelled. Errors have the codes of exit_status.h;
// Cancelled says how to resume. Nothing is left behind of a run that was refused before its first
// step, and what an interrupted or failed one has committed can be resumed. `files` is where
// results go.
absl::StatusOr<SftResult> RunSft(const SftOptions& options, const SftCallbacks& callbacks = {},
                                 FileSystem& files = PosixFiles());

// The same summary without running or writing anything. `data` and `output` may be absent.
// Of the callbacks only on_reading and cancelled are called.
absl::StatusOr<SftPlan> PlanSft(const SftOptions& options, const SftCallbacks& callbacks = {});

}  // namespace lorica

#endif  // LORICA_TRAIN_SFT_H_
