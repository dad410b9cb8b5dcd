// The list of messages that a chat template reads, made from what people write.
#ifndef LORICA_TEXT_CHAT_MESSAGES_H_
#define LORICA_TEXT_CHAT_MESSAGES_H_

#include <string>

#include "absl/status/statusor.h"
#include "lorica/text/jinja/value.h"

namespace lorica {

// Checks that `messages` is a list of objects that have a string under "role", and brings each into
// the form that Hugging Face shows to templates:
// - fields that are null are left out;
// - reasoning stands under "reasoning_content" and "thinking", whichever of "reasoning_content",
//   "thinking", "reasoning" it came under;
// - a part of content that calls its text "value" has it as "text" too.
// Errors: InvalidArgument that starts with `where` and names the message.
absl::StatusOr<jinja::Value> NormalizeMessages(const jinja::Value& messages,
                                               const std::string& where);

// The messages where content given as a list of text parts is one string (parts of other kinds
// stay), for templates that don't read lists (ChatTemplate::Readable).
jinja::Value WithTextContent(const jinja::Value& messages);

// Tools as a list: a list as it is, a string that holds one as JSON parsed, nothing for null or
// absent. Errors: InvalidArgument that starts with `where`.
absl::StatusOr<jinja::Value> NormalizeTools(const jinja::Value& tools, const std::string& where);

}  // namespace lorica

#endif  // LORICA_TEXT_CHAT_MESSAGES_H_
