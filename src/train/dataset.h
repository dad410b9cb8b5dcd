// A data set in memory: every record as token ids and targets, cut to length, and counted. A record
// whose conversation can't be trained in one rendering stands there as several sequences.
#ifndef LORICA_TRAIN_DATASET_H_
#define LORICA_TRAIN_DATASET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/records.h"
#include "lorica/train/sequence_source.h"
#include "lorica/train/trained_spans.h"

namespace lorica {

// What becomes of records longer than max_length.
enum class Overlong : uint8_t { kError, kTruncate, kDrop };
// Of "error", "truncate", "drop".
absl::StatusOr<Overlong> ParseOverlong(absl::string_view name);

struct DatasetOptions {
  TokenizeOptions tokenize;
  int64_t max_length = 0;  // tokens of a record; 0: no limit
  Overlong overlong = Overlong::kTruncate;
  int64_t vocab_size = 0;  // ids beyond it are an error; 0: unknown
  // A data set without any trained token is FailedPrecondition; scoring takes it.
  bool require_trained = true;
};

struct DatasetStatistics {
  RecordFormat format = RecordFormat::kText;
  int64_t records = 0;         // read
  int64_t split_records = 0;   // of which the template made several examples each,
  int64_t split_examples = 0;  // these together
  // Of examples: a record is one where it isn't split.
  int64_t dropped = 0;         // longer than max_length, with Overlong::kDrop
  int64_t truncated = 0;       // cut to max_length
  int64_t untrained = 0;       // kept, though no token of theirs is trained
  int64_t tokens = 0;          // of those kept
  int64_t trained_tokens = 0;  // targets that count
  int64_t longest = 0;         // tokens of the longest one kept
};

class Dataset final : public SequenceSource {
 public:
  // Reads the files in order. `tokenizer` and `chat_template` as for RecordTokenizer; they aren't
  // kept.
  static absl::StatusOr<Dataset> Load(const std::vector<std::string>& paths,
                                      const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                                      const DatasetOptions& options);

  int64_t size() const override { return static_cast<int64_t>(sequences_.size()); }
  int64_t tokens(int64_t index) const override;
  int64_t trained_tokens(int64_t index) const override;
  absl::StatusOr<TrainingSequence> Read(int64_t index) const override;

  // The number that the record has in the files: others before it may have been dropped.
  int64_t record_index(int64_t index) const;
  // Which of its record's examples it is, where there are several.
  std::optional<int64_t> example_index(int64_t index) const;
  const TrainingSequence& sequence(int64_t index) const;
  const DatasetStatistics& statistics() const { return statistics_; }
  // 16 hexadecimal digits that tell data sets apart: of all ids and targets in order.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  std::vector<TrainingSequence> sequences_;
  std::vector<int64_t> record_indices_;
  std::vector<int32_t> example_indices_;  // -1: the only one
  std::vector<int64_t> trained_;
  DatasetStatistics statistics_;
  std::string fingerprint_;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_DATASET_H_
