// Scoring: what a model, with or without an adapter, thinks of every token of some records.
#ifndef LORICA_TRAIN_SCORE_H_
#define LORICA_TRAIN_SCORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"
#include "lorica/train/option_list.h"

namespace lorica {

struct ScoreOptions {
  std::string model;
  std::string adapter;  // empty: the model alone
  std::vector<std::string> data;
  std::string output;     // JSONL, one line a record; empty: none
  std::string logits;     // safetensors file; empty: none
  std::string gradients;  // safetensors file, needs an adapter; empty: none

  int64_t max_length = 0;              // tokens of a record; 0: no limit
  std::string overlong = "truncate";   // or "error", "drop"
  std::string train_on = "assistant";  // or "last", "all"
  std::string system;
  std::string chat_template;

  std::string dtype = "f32";
  int64_t threads = 0;
  std::string backend = "cpu";
  int64_t device = 0;
};

void VisitScoreOptions(ScoreOptions& options, OptionVisitor& visitor);

struct RecordScore {
  int64_t index = 0;
  // Where the chat template made several examples of the record: which one.
  std::optional<int64_t> example;
  int64_t tokens = 0;
  int64_t trained_tokens = 0;
  double trained_weight = 0;     // the sum of their weights: trained_tokens where all are 1
  double loss = 0;               // mean over trained tokens, by their weights; 0 without any
  std::vector<double> logprobs;  // [tokens]; the first one is NaN: nothing comes before it
};

struct ScoreTotals {
  int64_t records = 0;
  int64_t tokens = 0;
  int64_t trained_tokens = 0;
  double loss = 0;  // mean over all trained tokens
  double perplexity = 0;
};

// `on_record` (may be null) is called in the order of the records; `cancelled` (may be null) is
// asked between them. Files appear complete or not at all. Errors have the codes of exit_status.h;
// records without any trained token at all are FailedPrecondition.
absl::StatusOr<ScoreTotals> RunScore(const ScoreOptions& options,
                                     const std::function<void(const RecordScore&)>& on_record = {},
                                     const std::function<bool()>& cancelled = {},
                                     FileSystem& files = PosixFiles());

}  // namespace lorica

#endif  // LORICA_TRAIN_SCORE_H_
