#include "lorica/cli/option_values.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lorica/io/quoted.h"

namespace lorica::cli {
namespace {

absl::Status Unexpected(absl::string_view expected, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", expected, ", found ", Quoted(text)));
}

// All of `text` as one number.
template <typename Number>
bool ParseWhole(absl::string_view text, Number* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

}  // namespace

absl::StatusOr<int64_t> ParseInt(absl::string_view text) {
  int64_t value = 0;
  if (!ParseWhole(text, &value)) return Unexpected("a whole number", text);
  return value;
}

absl::StatusOr<double> ParseReal(absl::string_view text) {
  double value = 0;
  if (!ParseWhole(text, &value) || !std::isfinite(value)) return Unexpected("a number", text);
  return value;
}

absl::StatusOr<bool> ParseBool(absl::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return Unexpected("true or false", text);
}

absl::Status CheckChoice(absl::string_view text, const std::vector<absl::string_view>& names) {
  for (const absl::string_view name : names) {
    if (text == name) return absl::OkStatus();
  }
  const std::vector<std::string> candidates(names.begin(), names.end());
  const std::string nearest = NearestName(text, candidates);
  return absl::InvalidArgumentError(
      absl::StrCat("expected one of ", absl::StrJoin(names, ", "), ", found ", Quoted(text),
                   nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

std::string RealText(double value) {
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return error == std::errc() ? std::string(text, end) : std::string();
}

}  // namespace lorica::cli
