#include "lorica/text/tokenizer_json_options.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/utf8.h"

namespace lorica {

using nlohmann::json;

absl::StatusOr<TextPattern> ReadPattern(JsonFields* fields) {
  const json* pattern = fields->Take("pattern");
  const bool literal = pattern != nullptr && pattern->is_object() && pattern->size() == 1 &&
                       pattern->contains("String");
  const bool regex = pattern != nullptr && pattern->is_object() && pattern->size() == 1 &&
                     pattern->contains("Regex");
  if ((!literal && !regex) || !pattern->begin()->is_string()) {
    return fields->Error("has no \"pattern\" of one \"String\" or \"Regex\"");
  }
  const std::string text = pattern->begin()->get<std::string>();
  auto result = literal ? TextPattern::Literal(text) : TextPattern::Expression(text);
  if (!result.ok())
    return fields->Error(absl::StrCat("has a pattern: ", result.status().message()));
  return result;
}

absl::Status ReadBehavior(JsonFields* fields, SplitBehavior* behavior) {
  std::string name;
  LORICA_RETURN_IF_ERROR(fields->Require("behavior", &name));
  static constexpr struct {
    const char* name;
    SplitBehavior behavior;
  } kBehaviors[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& row : kBehaviors) {
    if (name != row.name) continue;
    *behavior = row.behavior;
    return absl::OkStatus();
  }
  return fields->Error(absl::StrCat("has the behavior ", Quoted(name), ", which isn't supported"));
}

absl::Status ReadMetaspace(JsonFields* fields, std::string* replacement, PrependScheme* scheme,
                           bool* split) {
  *replacement = "\xE2\x96\x81";
  LORICA_RETURN_IF_ERROR(fields->Read("replacement", replacement));
  if (replacement->empty() || replacement->size() != Utf8Length(replacement->front())) {
    return fields->Error("has a \"replacement\" that isn't one character");
  }
  bool add_prefix_space = true;
  std::string name, ignored;
  LORICA_RETURN_IF_ERROR(fields->Read("add_prefix_space", &add_prefix_space));
  LORICA_RETURN_IF_ERROR(fields->Read("prepend_scheme", &name));
  LORICA_RETURN_IF_ERROR(fields->Read("str_rep", &ignored));  // of old files: says the same
  *split = true;
  LORICA_RETURN_IF_ERROR(fields->Read("split", split));
  if (name.empty()) {
    *scheme = add_prefix_space ? PrependScheme::kAlways : PrependScheme::kNever;
  } else if (name == "always") {
    *scheme = PrependScheme::kAlways;
  } else if (name == "first") {
    *scheme = PrependScheme::kFirst;
  } else if (name == "never") {
    *scheme = PrependScheme::kNever;
  } else {
    return fields->Error(
        absl::StrCat("has the prepend_scheme ", Quoted(name), ", which isn't supported"));
  }
  return absl::OkStatus();
}

// The options of ByteLevel, of which only two matter and only to the pre-tokenizer: trim_offsets is
// about offsets.
absl::Status ReadByteLevel(JsonFields* fields, bool* add_prefix_space, bool* use_regex) {
  bool trim_offsets = true;
  *add_prefix_space = *use_regex = true;
  LORICA_RETURN_IF_ERROR(fields->Read("add_prefix_space", add_prefix_space));
  LORICA_RETURN_IF_ERROR(fields->Read("trim_offsets", &trim_offsets));
  return fields->Read("use_regex", use_regex);
}

}  // namespace lorica
