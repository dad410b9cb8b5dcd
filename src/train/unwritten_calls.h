// What a chat template passes over without a word: many know no tools, and some write a call only
// beside content of one kind.
#ifndef LORICA_TRAIN_UNWRITTEN_CALLS_H_
#define LORICA_TRAIN_UNWRITTEN_CALLS_H_

#include <ctime>
#include <optional>

#include "lorica/text/chat_template.h"
#include "lorica/text/jinja/value.h"

namespace lorica {

struct UnwrittenCalls {
  bool tools = false;       // of all tools of the conversation, no name is written
  bool tool_calls = false;  // of a message's calls, none is
};

// Of a conversation as RecordTokenizer renders it, at the cost of one rendering more where it has
// tools or calls. Nothing where that rendering fails.
UnwrittenCalls FindUnwrittenCalls(const ChatTemplate& chat_template, const jinja::Value& messages,
                                  const jinja::Value& tools, const std::optional<std::tm>& now);

}  // namespace lorica

#endif  // LORICA_TRAIN_UNWRITTEN_CALLS_H_
