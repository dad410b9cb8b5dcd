// From the text of a record to what a model trains on.
#ifndef LORICA_TRAIN_RECORD_ENCODER_H_
#define LORICA_TRAIN_RECORD_ENCODER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/records.h"
#include "lorica/train/sequence_source.h"
#include "lorica/train/trained_spans.h"

namespace lorica {

// What becomes of examples longer than max_length.
enum class Overlong : uint8_t { kError, kTruncate, kDrop };
// Of "error", "truncate", "drop".
absl::StatusOr<Overlong> ParseOverlong(absl::string_view name);

struct ExampleOptions {
  TokenizeOptions tokenize;
  int64_t max_length = 0;  // tokens of an example; 0: no limit
  Overlong overlong = Overlong::kTruncate;
  int64_t vocab_size = 0;  // ids beyond it are an error; 0: unknown
};

struct EncodedExample {
  TrainingSequence sequence;  // empty where dropped
  int64_t length = 0;         // tokens, and
  uint64_t hash = 0;          // HashOf, before it was cut
  bool dropped = false;
};

// A record as one example, or as several where the chat template rewrites earlier turns.
struct EncodedRecord {
  RecordFormat format = RecordFormat::kText;
  std::vector<EncodedExample> examples;
  UnwrittenCalls unwritten;  // where they were looked for
};

// Const and thread-safe. The same text always gives the same examples.
class RecordEncoder {
 public:
  // Pointers as for RecordTokenizer.
  RecordEncoder(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                const ExampleOptions& options)
      : tokenizer_(tokenizer, chat_template, options.tokenize), options_(options) {}

  // `format` as for ParseRecord. Errors name the record.
  absl::StatusOr<EncodedRecord> Encode(const RawRecord& raw, std::optional<RecordFormat> format,
                                       bool find_unwritten = false) const;

 private:
  RecordTokenizer tokenizer_;
  ExampleOptions options_;
};

// Of ids, targets and weights: equal ones are taken for the same. 64 bits: among a billion records
// two different ones meet with a chance of 3%.
uint64_t HashOf(const TrainingSequence& sequence);

}  // namespace lorica

#endif  // LORICA_TRAIN_RECORD_ENCODER_H_
