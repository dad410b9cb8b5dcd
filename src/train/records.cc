#include "lorica/train/records.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/chat_messages.h"

namespace lorica {

using jinja::Dict;
using jinja::List;
using jinja::Value;

absl::string_view Name(RecordFormat format) {
  switch (format) {
    case RecordFormat::kMessages:
      return "messages";
    case RecordFormat::kConversations:
      return "conversations";
    case RecordFormat::kPromptCompletion:
      return "prompt and completion";
    case RecordFormat::kInstruction:
      return "instruction and output";
    case RecordFormat::kText:
      return "text";
    case RecordFormat::kTokens:
      return "input_ids";
  }
  return "unknown";
}

namespace {

absl::Status Wrong(const std::string& where, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", message));
}

// Larger ones are slips; the sum over a step must stay far inside of what a float can hold.
constexpr double kMostWeight = 1e6;

bool Has(const Value& object, const char* key) { return !object.Get(key).is_undefined(); }

// The format whose keys the object has; nothing where it has those of none.
std::optional<RecordFormat> Recognise(const Value& object) {
  if (Has(object, "messages")) return RecordFormat::kMessages;
  if (Has(object, "conversations")) return RecordFormat::kConversations;
  if (Has(object, "prompt") && Has(object, "completion")) return RecordFormat::kPromptCompletion;
  if (Has(object, "instruction") && Has(object, "output")) return RecordFormat::kInstruction;
  if (Has(object, "question") && Has(object, "answer")) return RecordFormat::kInstruction;
  if (Has(object, "input_ids")) return RecordFormat::kTokens;
  if (Has(object, "text")) return RecordFormat::kText;
  return std::nullopt;
}

std::string KeysOf(const Value& object) {
  constexpr size_t kShown = 8;
  std::vector<std::string> keys;
  for (const auto& entry : object.as_dict().entries()) {
    if (keys.size() == kShown) {
      keys.push_back("...");
      break;
    }
    keys.push_back(Quoted(entry.first.as_string()));
  }
  return keys.empty() ? "no keys" : absl::StrJoin(keys, ", ");
}

// A field that must be a string, or may be absent or null where `required` is false.
absl::StatusOr<std::string> Text(const Value& object, const char* key, bool required,
                                 const std::string& where) {
  const Value field = object.Get(key);
  if (field.is_string()) return field.as_string();
  if (!required && (field.is_undefined() || field.is_none())) return std::string();
  return Wrong(where, absl::StrCat("expected \"", key, "\" to be a string"));
}

Value Message(const char* role, Value content) {
  Dict message;
  message.Set("role", role);
  message.Set("content", std::move(content));
  return message;
}

// ---- conversations

// The roles of ShareGPT and its descendants.
constexpr std::pair<const char*, const char*> kRoles[] = {
    {"human", "user"},
    {"user", "user"},
    {"gpt", "assistant"},
    {"assistant", "assistant"},
    {"chatgpt", "assistant"},
    {"bing", "assistant"},
    {"bard", "assistant"},
    {"model", "assistant"},
    {"system", "system"},
    {"tool", "tool"},
    {"observation", "tool"},
    {"function_response", "tool"},
    {"function_call", "function_call"},
    {"tool_call", "function_call"},
};

// An assistant message that calls functions: `text` holds {"name", "arguments"} as JSON, or a list
// of such.
absl::StatusOr<Value> FunctionCall(const std::string& text, const std::string& where) {
  const auto parsed = jinja::ParseJson(text);
  if (!parsed.ok()) {
    return Wrong(where, absl::StrCat("a function call isn't JSON: ", parsed.status().message()));
  }
  const List calls = parsed->is_list() ? parsed->as_list() : List{*parsed};
  List tool_calls;
  for (const Value& call : calls) {
    if (!call.Get("name").is_string()) {
      return Wrong(where, "expected a function call to be an object with name and arguments");
    }
    Dict function;
    function.Set("name", call.Get("name"));
    const Value arguments = call.Get("arguments");
    function.Set("arguments", arguments.is_undefined() ? Value(Dict()) : arguments);
    Dict tool_call;
    tool_call.Set("type", "function");
    tool_call.Set("function", Value(std::move(function)));
    tool_calls.emplace_back(std::move(tool_call));
  }
  Dict message;
  message.Set("role", "assistant");
  message.Set("content", "");
  message.Set("tool_calls", Value(std::move(tool_calls)));
  return Value(std::move(message));
}

absl::StatusOr<Value> ConversationMessages(const Value& object, const std::string& where) {
  const Value turns = object.Get("conversations");
  if (!turns.is_list()) return Wrong(where, "expected \"conversations\" to be a list");
  List messages;
  LORICA_ASSIGN_OR_RETURN(const std::string system, Text(object, "system", false, where));
  if (!system.empty()) messages.push_back(Message("system", system));
  int64_t number = 0;
  for (const Value& turn : turns.as_list()) {
    ++number;
    const Value from = turn.Get("from");
    const Value value = turn.Get("value");
    if (!from.is_string() || !value.is_string()) {
      return Wrong(where, absl::StrCat("expected turn ", number,
                                       " to be an object with the strings from and value"));
    }
    const auto* role = std::find_if(std::begin(kRoles), std::end(kRoles), [&](const auto& entry) {
      return from.as_string() == entry.first;
    });
    if (role == std::end(kRoles)) {
      return Wrong(where, absl::StrCat("turn ", number, " is from ", Quoted(from.as_string()),
                                       ", expected human, gpt, system, tool, observation or "
                                       "function_call"));
    }
    if (std::string(role->second) == "function_call") {
      LORICA_ASSIGN_OR_RETURN(
          Value call, FunctionCall(value.as_string(), absl::StrCat(where, ", turn ", number)));
      messages.push_back(std::move(call));
    } else {
      messages.push_back(Message(role->second, value));
    }
  }
  return Value(std::move(messages));
}

// ---- instruction

absl::StatusOr<Value> InstructionMessages(const Value& object, const std::string& where) {
  const bool asks = !(Has(object, "instruction") && Has(object, "output"));
  LORICA_ASSIGN_OR_RETURN(const std::string system, Text(object, "system", false, where));
  LORICA_ASSIGN_OR_RETURN(std::string instruction,
                          Text(object, asks ? "question" : "instruction", true, where));
  LORICA_ASSIGN_OR_RETURN(const std::string input, Text(object, "input", false, where));
  LORICA_ASSIGN_OR_RETURN(const std::string output,
                          Text(object, asks ? "answer" : "output", true, where));
  List messages;
  if (!system.empty()) messages.push_back(Message("system", system));
  const Value history = object.Get("history");
  if (!history.is_undefined() && !history.is_none()) {
    if (!history.is_list()) return Wrong(where, "expected \"history\" to be a list of pairs");
    for (const Value& pair : history.as_list()) {
      if (!pair.is_list() || pair.as_list().size() != 2 || !pair.as_list()[0].is_string() ||
          !pair.as_list()[1].is_string()) {
        return Wrong(where, "expected \"history\" to be a list of pairs of strings");
      }
      messages.push_back(Message("user", pair.as_list()[0]));
      messages.push_back(Message("assistant", pair.as_list()[1]));
    }
  }
  if (!input.empty()) absl::StrAppend(&instruction, instruction.empty() ? "" : "\n", input);
  messages.push_back(Message("user", instruction));
  messages.push_back(Message("assistant", output));
  return Value(std::move(messages));
}

// ---- token ids

absl::StatusOr<std::vector<int32_t>> Integers(const Value& object, const char* key, int64_t least,
                                              const std::string& where) {
  const Value field = object.Get(key);
  if (!field.is_list()) return Wrong(where, absl::StrCat("expected \"", key, "\" to be a list"));
  std::vector<int32_t> numbers;
  numbers.reserve(field.as_list().size());
  for (const Value& item : field.as_list()) {
    if (!item.is_int() || item.as_int() < least ||
        item.as_int() > std::numeric_limits<int32_t>::max()) {
      return Wrong(where, absl::StrCat("element ", numbers.size(), " of \"", key,
                                       "\" isn't a whole number from ", least, " to 2^31 - 1"));
    }
    numbers.push_back(static_cast<int32_t>(item.as_int()));
  }
  return numbers;
}

absl::Status ReadTokens(const Value& object, const std::string& where, Record* record) {
  LORICA_ASSIGN_OR_RETURN(std::vector<int32_t> ids, Integers(object, "input_ids", 0, where));
  std::vector<int32_t> labels = ids;
  const auto given = [&](const char* key) {
    return Has(object, key) && !object.Get(key).is_none();
  };
  if (given("labels")) {
    LORICA_ASSIGN_OR_RETURN(labels, Integers(object, "labels", kIgnoredLabel, where));
    if (labels.size() != ids.size()) {
      return Wrong(where, absl::StrCat(ids.size(), " input_ids, but ", labels.size(), " labels"));
    }
    for (const int32_t label : labels) {
      if (label < 0 && label != kIgnoredLabel) {
        return Wrong(where,
                     absl::StrCat("the label ", label, " is neither a token nor ", kIgnoredLabel));
      }
    }
  }
  size_t begin = 0;
  size_t end = ids.size();
  if (given("attention_mask")) {
    LORICA_ASSIGN_OR_RETURN(const std::vector<int32_t> mask,
                            Integers(object, "attention_mask", 0, where));
    if (mask.size() != ids.size()) {
      return Wrong(where,
                   absl::StrCat(ids.size(), " input_ids, but an attention_mask of ", mask.size()));
    }
    // Padding before and behind the tokens is cut away.
    while (begin < end && mask[begin] == 0) ++begin;
    while (end > begin && mask[end - 1] == 0) --end;
    for (size_t i = begin; i < end; ++i) {
      if (mask[i] != 1) {
        return Wrong(where, absl::StrCat("expected attention_mask to be 1 between the padding, "
                                         "found ",
                                         mask[i], " at ", i));
      }
    }
  }
  record->ids.assign(ids.begin() + static_cast<ptrdiff_t>(begin),
                     ids.begin() + static_cast<ptrdiff_t>(end));
  record->labels.assign(labels.begin() + static_cast<ptrdiff_t>(begin),
                        labels.begin() + static_cast<ptrdiff_t>(end));
  if (record->ids.empty()) return Wrong(where, "no tokens");
  return absl::OkStatus();
}

absl::StatusOr<double> WeightOf(const Value& object, const std::string& where) {
  const Value weight = object.Get("weight");
  if (weight.is_undefined() || weight.is_none()) return 1;
  if (weight.is_bool() || !weight.is_number() || !(weight.as_double() >= 0) ||
      weight.as_double() > kMostWeight) {
    return Wrong(where, absl::StrCat("expected \"weight\" to be a number from 0 to ", kMostWeight));
  }
  return weight.as_double();
}

absl::Status ReadPromptCompletion(const Value& object, const std::string& where, Record* record) {
  const Value prompt = object.Get("prompt");
  const Value completion = object.Get("completion");
  if (prompt.is_string() && completion.is_string()) {
    record->prompt = prompt.as_string();
    record->completion = completion.as_string();
    return absl::OkStatus();
  }
  if (!prompt.is_list() || !completion.is_list()) {
    return Wrong(where,
                 "expected prompt and completion to be two strings or two lists of messages");
  }
  record->has_messages = true;
  record->prompt_messages = prompt.as_list().size();
  List messages = prompt.as_list();
  messages.insert(messages.end(), completion.as_list().begin(), completion.as_list().end());
  record->messages = Value(std::move(messages));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Record> ParseRecord(const Value& object, std::optional<RecordFormat> format,
                                   const std::string& where) {
  if (!object.is_dict()) return Wrong(where, "expected a JSON object");
  const std::optional<RecordFormat> found = Recognise(object);
  if (!found.has_value()) {
    return Wrong(where, absl::StrCat("expected messages, conversations, prompt and completion, "
                                     "instruction and output, question and answer, text, or "
                                     "input_ids; found ",
                                     KeysOf(object)));
  }
  if (format.has_value() && *found != *format) {
    return Wrong(where, absl::StrCat("the record holds ", Name(*found), ", the first one ",
                                     Name(*format), "; all must be of one format"));
  }
  Record record;
  record.format = *found;
  record.where = where;
  LORICA_ASSIGN_OR_RETURN(record.weight, WeightOf(object, where));
  switch (*found) {
    case RecordFormat::kMessages:
      record.has_messages = true;
      record.messages = object.Get("messages");
      break;
    case RecordFormat::kConversations: {
      record.has_messages = true;
      LORICA_ASSIGN_OR_RETURN(record.messages, ConversationMessages(object, where));
      break;
    }
    case RecordFormat::kPromptCompletion:
      LORICA_RETURN_IF_ERROR(ReadPromptCompletion(object, where, &record));
      break;
    case RecordFormat::kInstruction: {
      record.has_messages = true;
      LORICA_ASSIGN_OR_RETURN(record.messages, InstructionMessages(object, where));
      break;
    }
    case RecordFormat::kText: {
      LORICA_ASSIGN_OR_RETURN(record.text, Text(object, "text", true, where));
      break;
    }
    case RecordFormat::kTokens:
      LORICA_RETURN_IF_ERROR(ReadTokens(object, where, &record));
      break;
  }
  if (record.has_messages) {
    LORICA_ASSIGN_OR_RETURN(record.messages, NormalizeMessages(record.messages, where));
    if (record.messages.as_list().empty()) return Wrong(where, "no messages");
    LORICA_ASSIGN_OR_RETURN(record.tools, NormalizeTools(object.Get("tools"), where));
  }
  return record;
}

}  // namespace lorica
