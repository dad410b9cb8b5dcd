// Options that several components of a tokenizer.json share.
#ifndef LORICA_TEXT_TOKENIZER_JSON_OPTIONS_H_
#define LORICA_TEXT_TOKENIZER_JSON_OPTIONS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lorica/tensor/status.h"
#include "lorica/text/json_fields.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/pretokenizer.h"

namespace lorica {

// Calls `read(entry, where)` for each entry of the array `key`.
template <typename Read>
absl::Status ForEachEntry(JsonFields* fields, const char* key, const Read& read) {
  const nlohmann::json* list = fields->Take(key);
  if (list == nullptr || !list->is_array()) {
    return fields->Error(absl::StrCat("has no list \"", key, "\""));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    LORICA_RETURN_IF_ERROR(read((*list)[i], absl::StrCat(fields->where(), ".", key, "[", i, "]")));
  }
  return absl::OkStatus();
}

// The "pattern": {"String": text} or {"Regex": expression}.
absl::StatusOr<TextPattern> ReadPattern(JsonFields* fields);

// The "behavior", which must be there.
absl::Status ReadBehavior(JsonFields* fields, SplitBehavior* behavior);

// The replacement and prepend scheme of Metaspace, in the newer and the older spelling.
absl::Status ReadMetaspace(JsonFields* fields, std::string* replacement, PrependScheme* scheme,
                           bool* split);

// The options of ByteLevel, of which only two matter and only to the pre-tokenizer: trim_offsets is
// about offsets.
absl::Status ReadByteLevel(JsonFields* fields, bool* add_prefix_space, bool* use_regex);

}  // namespace lorica

#endif  // LORICA_TEXT_TOKENIZER_JSON_OPTIONS_H_
