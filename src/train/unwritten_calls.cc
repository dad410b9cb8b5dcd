#include "lorica/train/unwritten_calls.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lorica {
namespace {

using jinja::Dict;
using jinja::List;
using jinja::Value;

constexpr absl::string_view kCalls = "tool_calls";

// `value` with `mark` behind each string called "name", which is how functions are named; letters
// and digits alone, which no template escapes. Counts them.
Value Marked(const Value& value, const std::string& mark, int* names) {
  if (value.is_list()) {
    List items;
    for (const Value& item : value.as_list()) items.push_back(Marked(item, mark, names));
    return Value(std::move(items));
  }
  if (!value.is_dict()) return value;
  Dict marked;
  for (const auto& [key, item] : value.as_dict().entries()) {
    const bool is_name = key.is_string() && key.as_string() == "name" && item.is_string();
    if (is_name) ++*names;
    marked.Set(key, is_name ? Value(item.as_string() + mark) : Marked(item, mark, names));
  }
  return Value(std::move(marked));
}

}  // namespace

UnwrittenCalls FindUnwrittenCalls(const ChatTemplate& chat_template, const Value& messages,
                                  const Value& tools, const std::optional<std::tm>& now) {
  const std::string tools_mark = "q7Tools0q";
  int tool_names = 0;
  ChatRequest request;
  request.now = now;
  request.tools = Marked(tools, tools_mark, &tool_names);
  std::vector<std::string> marks;  // of messages with calls
  List marked_messages;
  for (const Value& message : messages.as_list()) {
    const Value calls = message.Get(kCalls);
    const std::string mark = absl::StrCat("q7Calls", marks.size(), "q");
    int names = 0;
    Value marked = Marked(calls, mark, &names);
    if (names == 0) {
      marked_messages.push_back(message);
      continue;
    }
    Dict changed = message.as_dict();
    changed.Set(std::string(kCalls), std::move(marked));
    marked_messages.emplace_back(std::move(changed));
    marks.push_back(mark);
  }
  UnwrittenCalls unwritten;
  if (tool_names == 0 && marks.empty()) return unwritten;
  request.messages = Value(std::move(marked_messages));
  const absl::StatusOr<jinja::RenderResult> rendered = chat_template.Render(request);
  if (!rendered.ok()) return unwritten;
  unwritten.tools = tool_names > 0 && !absl::StrContains(rendered->text, tools_mark);
  for (const std::string& mark : marks) {
    unwritten.tool_calls = unwritten.tool_calls || !absl::StrContains(rendered->text, mark);
  }
  return unwritten;
}

}  // namespace lorica
