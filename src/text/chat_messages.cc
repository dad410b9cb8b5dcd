#include "lorica/text/chat_messages.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/tensor/status.h"

namespace lorica {

using jinja::Dict;
using jinja::List;
using jinja::Value;

namespace {

// Text parts joined; the content as it is where a part is of another kind.
Value FlattenContent(const Value& content) {
  if (!content.is_list()) return content;
  std::string text;
  for (const Value& part : content.as_list()) {
    if (part.is_string()) {
      text += part.as_string();
      continue;
    }
    const Value type = part.Get("type");
    const Value inside = part.Get("text").is_string() ? part.Get("text") : part.Get("value");
    if (!inside.is_string() || (type.is_string() && type.as_string() != "text")) return content;
    text += inside.as_string();
  }
  return text;
}

// Parts that call their text `value` have it as `text` too, which is what templates read.
Value WithNamedText(const Value& content) {
  if (!content.is_list()) return content;
  List parts;
  for (const Value& part : content.as_list()) {
    if (!part.is_dict() || part.Get("text").is_string() || !part.Get("value").is_string()) {
      parts.push_back(part);
      continue;
    }
    Dict named = part.as_dict();
    named.Set("text", part.Get("value"));
    parts.push_back(Value(std::move(named)));
  }
  return Value(std::move(parts));
}

Value NormalizeMessage(const Dict& message) {
  Dict normal;
  Value reasoning;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* found = message.FindText(name);
    if (found == nullptr || found->is_none()) continue;
    reasoning = *found;
    break;
  }
  if (!reasoning.is_undefined()) normal.Set("thinking", reasoning);
  for (const auto& [key, value] : message.entries()) {
    if (value.is_none()) continue;
    const bool content = key.is_string() && key.as_string() == "content";
    normal.Set(key, content ? WithNamedText(value) : value);
  }
  if (!reasoning.is_undefined()) normal.Set("reasoning_content", reasoning);
  return normal;
}

}  // namespace

absl::StatusOr<Value> NormalizeMessages(const Value& messages, const std::string& where) {
  if (!messages.is_list()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected a list of messages"));
  }
  List normal;
  for (const Value& message : messages.as_list()) {
    if (!message.is_dict()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": message ", normal.size() + 1,
                                                     " isn't an object with role and content"));
    }
    if (!message.Get("role").is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": message ", normal.size() + 1, " has no role"));
    }
    normal.push_back(NormalizeMessage(message.as_dict()));
  }
  return Value(std::move(normal));
}

Value WithTextContent(const Value& messages) {
  List flat;
  for (const Value& message : messages.as_list()) {
    if (!message.Get("content").is_list()) {
      flat.push_back(message);
      continue;
    }
    Dict changed = message.as_dict();
    changed.Set("content", FlattenContent(message.Get("content")));
    flat.push_back(std::move(changed));
  }
  return flat;
}

absl::StatusOr<Value> NormalizeTools(const Value& tools, const std::string& where) {
  Value list = tools;
  if (list.is_string()) {
    if (list.as_string().empty()) return Value(nullptr);
    absl::StatusOr<Value> parsed = jinja::ParseJson(list.as_string());
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": tools: ", parsed.status().message()));
    }
    list = *std::move(parsed);
  }
  if (list.is_undefined() || list.is_none()) return Value(nullptr);
  if (!list.is_list()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected tools to be a list"));
  }
  if (list.as_list().empty()) return Value(nullptr);
  return list;
}

}  // namespace lorica
