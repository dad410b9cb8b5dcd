// Which bytes of a rendered conversation are trained.
//
// - Where the template has {% generation %} blocks, those say it.
// - Else prefixes do: turn i is what render(messages[:i+1]) has more than render(messages[:i]) with
//   the generation prompt. Each must begin the next and the whole.
// - Where they don't, the template rewrites earlier turns (it strips their reasoning, say), and no
//   rendering shows every turn as the model is to write it. Then each trained turn becomes a
//   rendering of its own, which ends with it and trains it alone.
// So the end of a turn is trained and its header isn't.
#ifndef LORICA_TRAIN_RENDERED_CONVERSATION_H_
#define LORICA_TRAIN_RENDERED_CONVERSATION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/jinja/value.h"

namespace lorica {

enum class TrainOn : uint8_t {
  kAssistant,  // every assistant turn; of prompt and completion, the completion
  kLast,       // the last assistant turn
  kAll,        // every token
};
// Of "assistant", "last", "all".
absl::StatusOr<TrainOn> ParseTrainOn(absl::string_view name);

// Bytes [begin, end) of a text, and what each of their tokens counts in the loss.
struct TrainedSpan {
  size_t begin = 0;
  size_t end = 0;
  float weight = 1;  // above 0
};

struct RenderedConversation {
  std::string text;
  std::vector<TrainedSpan> trained;  // in order
};

// The renderings that train `messages`, at least one: the whole conversation, or one for each
// trained turn; `now` as in ChatRequest. The `prompt_messages` at the front are never trained, nor
// are assistant messages that say "train": false or "weight": 0 (or "loss_weight"). Errors: what
// the template raises; InvalidArgument for a weight that isn't a finite number from 0;
// FailedPrecondition where even a rendering that ends with a turn doesn't begin with what comes
// before that turn.
absl::StatusOr<std::vector<RenderedConversation>> RenderConversation(
    const ChatTemplate& chat_template, const jinja::Value& messages, const jinja::Value& tools,
    size_t prompt_messages, TrainOn train_on, const std::optional<std::tm>& now = std::nullopt);

}  // namespace lorica

#endif  // LORICA_TRAIN_RENDERED_CONVERSATION_H_
