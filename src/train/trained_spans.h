// From a record to token ids and the labels that say which of them are trained.
//
// A conversation is rendered as a whole (rendered_conversation.h) and tokenised as a whole; then
// the tokens of its trained bytes are found. A token that lies across the edge of a trained span
// counts as trained: its bytes inside the span can't be learned in any other way.
#ifndef LORICA_TRAIN_TRAINED_SPANS_H_
#define LORICA_TRAIN_TRAINED_SPANS_H_

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/records.h"
#include "lorica/train/rendered_conversation.h"
#include "lorica/train/unwritten_calls.h"

namespace lorica {

struct TokenizeOptions {
  TrainOn train_on = TrainOn::kAssistant;
  // A system message for conversations that don't start with one; empty for none.
  std::string system;
  // What templates take for the time; where absent, when the tokenizer was made: a record that is
  // tokenised again gives the same tokens.
  std::optional<std::tm> now;
};

// One sequence to train on.
struct TokenizedRecord {
  std::string text;             // what was tokenised; empty for token ids
  std::vector<int32_t> ids;     // [T]
  std::vector<int32_t> labels;  // [T], not shifted; kIgnoredLabel where not trained. labels[0]
                                // never counts.
  // [T], what each trained token counts in the loss, above 0 (1 where not trained); empty: 1 each.
  std::vector<float> weights;
};

// Turns records into tokens. Const and thread-safe.
class RecordTokenizer {
 public:
  // `tokenizer` may be null where all data is token ids, `chat_template` where no record holds
  // messages; both must outlive this.
  RecordTokenizer(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                  TokenizeOptions options);

  // The training examples that `record` gives: one, or several where the chat template rewrites
  // earlier turns. Errors (InvalidArgument, FailedPrecondition where the model lacks what the
  // record needs) name the record.
  absl::StatusOr<std::vector<TokenizedRecord>> Tokenize(const Record& record) const;

  // Of a record that Tokenize takes; nothing where it holds no messages.
  UnwrittenCalls FindUnwritten(const Record& record) const;

 private:
  // The messages that the template is given.
  jinja::Value Rendered(const Record& record) const;
  absl::StatusOr<std::vector<TokenizedRecord>> TokenizeMessages(const Record& record) const;
  absl::StatusOr<TokenizedRecord> TokenizeText(const std::string& prompt,
                                               const std::string& trained) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_template_;
  TokenizeOptions options_;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_TRAINED_SPANS_H_
