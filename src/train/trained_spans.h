// From a record to token ids and the labels that say which of them are trained.
//
// A conversation is rendered as a whole and tokenised as a whole; then the bytes of its assistant
// turns are found:
// - where the template has {% generation %} blocks, those say it;
// - else by rendering prefixes: turn i is what render(messages[:i+1]) has more than
// render(messages[:i]) with the
//   generation prompt. Each must begin the next and the whole, else the template rewrites earlier
//   turns and the record is refused.
// So the end of a turn is trained and its header isn't. A token that lies across the edge of a
// trained span counts as trained: its bytes inside the span can't be learned in any other way.
#ifndef LORICA_TRAIN_TRAINED_SPANS_H_
#define LORICA_TRAIN_TRAINED_SPANS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/records.h"

namespace lorica {

enum class TrainOn : uint8_t {
  kAssistant,  // every assistant turn; of prompt and completion, the completion
  kLast,       // the last assistant turn
  kAll,        // every token
};
// Of "assistant", "last", "all".
absl::StatusOr<TrainOn> ParseTrainOn(absl::string_view name);

struct TokenizeOptions {
  TrainOn train_on = TrainOn::kAssistant;
  // A system message for conversations that don't start with one; empty for none.
  std::string system;
};

struct TokenizedRecord {
  std::string text;          // what was tokenised; empty for token ids
  std::vector<int32_t> ids;  // [T]
  std::vector<int32_t>
      labels;  // [T], not shifted; kIgnoredLabel where not trained. labels[0] never counts.
};

// Turns records into tokens. Const and thread-safe.
class RecordTokenizer {
 public:
  // `tokenizer` may be null where all data is token ids, `chat_template` where no record holds
  // messages; both must outlive this.
  RecordTokenizer(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                  TokenizeOptions options)
      : tokenizer_(tokenizer), chat_template_(chat_template), options_(std::move(options)) {}

  // Errors (InvalidArgument, FailedPrecondition where the model lacks what the record needs) name
  // the record.
  absl::StatusOr<TokenizedRecord> Tokenize(const Record& record) const;

 private:
  absl::StatusOr<TokenizedRecord> TokenizeMessages(const Record& record) const;
  absl::StatusOr<TokenizedRecord> TokenizeText(const std::string& prompt,
                                               const std::string& trained) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_template_;
  TokenizeOptions options_;
};

// The byte spans of `text` = render(messages) that are trained, in order; `prompt_messages` at the
// front never are.
struct RenderedConversation {
  std::string text;
  std::vector<jinja::ByteSpan> trained;
};
absl::StatusOr<RenderedConversation> RenderConversation(const ChatTemplate& chat_template,
                                                        const jinja::Value& messages,
                                                        const jinja::Value& tools,
                                                        size_t prompt_messages, TrainOn train_on);

}  // namespace lorica

#endif  // LORICA_TRAIN_TRAINED_SPANS_H_
