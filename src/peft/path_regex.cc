#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/peft_config.h"

namespace lorica {
namespace {

// Far more steps than a path of a few hundred bytes needs; a pattern that backtracks without end
// stops here and counts as no match.
constexpr uint32_t kMatchLimit = 100000;
// Patterns longer than this are not module patterns.
constexpr size_t kMaxPattern = 16384;

struct Match {
  bool matched = false;
  std::string index;  // what the group `idx` captured
};

// Of the whole path.
Match MatchOf(const pcre2_code* code, absl::string_view path) {
  Match match;
  pcre2_match_data* data = pcre2_match_data_create_from_pattern(code, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(context, kMatchLimit);
  pcre2_set_heap_limit(context, 16384);  // KiB
  match.matched = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(path.data()), path.size(), 0,
                              PCRE2_ANCHORED | PCRE2_ENDANCHORED, data, context) >= 0;
  const int group = pcre2_substring_number_from_name(code, reinterpret_cast<PCRE2_SPTR>("idx"));
  if (match.matched && group > 0 && static_cast<uint32_t>(group) < pcre2_get_ovector_count(data)) {
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data);
    const PCRE2_SIZE begin = offsets[2 * group], end = offsets[2 * group + 1];
    if (begin != PCRE2_UNSET && begin <= end && end <= path.size()) {
      match.index = std::string(path.substr(begin, end - begin));
    }
  }
  pcre2_match_context_free(context);
  pcre2_match_data_free(data);
  return match;
}

}  // namespace

struct PathRegex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

absl::StatusOr<PathRegex> PathRegex::Compile(absl::string_view pattern, absl::string_view where) {
  if (pattern.size() > kMaxPattern) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": a pattern of ", pattern.size(),
                                                   " bytes, at most ", kMaxPattern, " expected"));
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_shared<Code>();
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C,
                                 &error, &offset, nullptr);
  if (compiled->code == nullptr) {
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(error, text, sizeof(text));
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": pattern ", Quoted(pattern), " is no regular expression: ",
                     reinterpret_cast<const char*>(text), " at character ", offset));
  }
  PathRegex regex;
  regex.code_ = std::move(compiled);
  return regex;
}

bool PathRegex::FullMatch(absl::string_view path) const {
  return MatchOf(code_->code, path).matched;
}

int64_t PathRegex::MatchedIndex(absl::string_view path) const {
  const Match match = MatchOf(code_->code, path);
  int64_t index = -1;
  if (!match.matched || !absl::SimpleAtoi(match.index, &index) || index < 0) return -1;
  return index;
}

}  // namespace lorica
