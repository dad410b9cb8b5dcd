// A data set: the records of some files as token ids and targets, cut to length and counted. A
// record whose conversation can't be trained in one rendering stands there as several sequences.
//
// Loading reads every file once. What then fits into DatasetOptions::memory_bytes stays in memory;
// of everything behind it only an index does, and it is read, rendered and tokenised again when it
// is asked for: from its file, or, where the file can't be read from the middle (compressed, a
// pipe), from a copy of the records in a file without a name. What is read is the same either way.
#ifndef LORICA_TRAIN_DATASET_H_
#define LORICA_TRAIN_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/tensor/thread_pool.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/duplicates.h"
#include "lorica/train/length_histogram.h"
#include "lorica/train/record_encoder.h"
#include "lorica/train/record_index.h"
#include "lorica/train/records.h"
#include "lorica/train/sequence_source.h"

namespace lorica {

struct DatasetOptions : ExampleOptions {
  // Records that are equal to an earlier one, once they are tokens, are left out; else only
  // counted.
  bool deduplicate = false;
  // Fills in unwritten_tools and unwritten_calls of the statistics.
  bool find_unwritten = false;
  // A data set without any trained token is FailedPrecondition; scoring takes it.
  bool require_trained = true;
  // Of ids, targets and weights that stay in memory, at most.
  int64_t memory_bytes = int64_t{32} << 20;
  // Where files without a name are made; empty: the system's folder for temporary files.
  std::string spool_folder;

  // The rest is for the time of Load only; each may be null.
  ThreadPool* pool = nullptr;  // tokenises on all its threads
  // How far reading has come, in bytes of the files as they lie there (`total_bytes` 0: unknown).
  std::function<void(int64_t bytes, int64_t total_bytes, int64_t records)> progress;
  std::function<bool()> cancelled;
};

// Records of one kind.
struct RecordCount {
  int64_t count = 0;
  std::string first;  // "train.jsonl, line 3"

  void Add(const std::string& where) {
    if (count++ == 0) first = where;
  }
};

struct DatasetStatistics {
  RecordFormat format = RecordFormat::kText;
  int64_t records = 0;         // read
  int64_t split_records = 0;   // of which the template made several examples each,
  int64_t split_examples = 0;  // these together
  // Of records: the chat template writes none of their tools, or leaves out calls of a message
  // (DatasetOptions::find_unwritten).
  RecordCount unwritten_tools, unwritten_calls;
  // Of examples: a record is one where it isn't split.
  int64_t dropped = 0;                            // longer than max_length, with Overlong::kDrop
  int64_t truncated = 0;                          // cut to max_length
  int64_t duplicates = 0;                         // equal to an earlier one
  int64_t deduplicated = 0;                       // these, where they were left out; else 0
  std::vector<DuplicateRecord> first_duplicates;  // a few
  int64_t untrained = 0;                          // kept, though no token of theirs is trained
  int64_t tokens = 0;                             // of those kept
  int64_t trained_tokens = 0;                     // targets that count
  int64_t longest = 0;                            // tokens of the longest one kept
  int64_t in_memory = 0;    // kept in memory; the others are read when they are trained
  LengthHistogram lengths;  // of all, before any was cut or dropped
};

// One of the files, as it was read.
struct DatasetFile : ReadFile {
  int64_t begin = 0, end = 0;  // its sequences in the data set
};

class Dataset final : public SequenceSource {
 public:
  // Reads the files in order. `tokenizer` and `chat_template` as for RecordTokenizer; they must
  // outlive the data set. Cancelled when options.cancelled says so.
  static absl::StatusOr<Dataset> Load(const std::vector<std::string>& paths,
                                      const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                                      const DatasetOptions& options);

  int64_t size() const override { return index_.size(); }
  int64_t tokens(int64_t index) const override { return index_.At(index).tokens; }
  int64_t trained_tokens(int64_t index) const override { return index_.At(index).trained; }
  // FailedPrecondition where the file isn't what it was when it was loaded.
  absl::StatusOr<TrainingSequence> Read(int64_t index) const override;

  // The number that the record has in the files: others before it may have been dropped.
  int64_t record_index(int64_t index) const { return index_.At(index).number; }
  // Which of its record's examples it is, where there are several.
  std::optional<int64_t> example_index(int64_t index) const;
  // "train.jsonl, line 3".
  std::string Where(int64_t index) const;

  const DatasetStatistics& statistics() const { return statistics_; }
  const std::vector<DatasetFile>& files() const { return files_; }
  // 16 hexadecimal digits that tell data sets apart: of all ids, targets and weights in order.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  class Loader;
  Dataset(RecordEncoder encoder, RecordIndex index)
      : encoder_(std::move(encoder)), index_(std::move(index)) {}
  const DatasetFile& FileOf(int64_t index) const;
  absl::StatusOr<std::string> Text(const IndexedRecord& record, const DatasetFile& file) const;

  RecordEncoder encoder_;
  RecordIndex index_;
  std::vector<TrainingSequence> memory_;  // the first ones
  std::vector<DatasetFile> files_;
  std::optional<SpoolFile> texts_;  // of records that can't be read from their files
  DatasetStatistics statistics_;
  std::string fingerprint_;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_DATASET_H_
