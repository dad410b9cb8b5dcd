// Text of options into values, strictly: the whole text is one value. Each error is a sentence
// without subject ("expected ..., found ..."); the caller names the option.
#ifndef LORICA_CLI_OPTION_VALUES_H_
#define LORICA_CLI_OPTION_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica::cli {

absl::StatusOr<int64_t> ParseInt(absl::string_view text);
// Finite.
absl::StatusOr<double> ParseReal(absl::string_view text);
absl::StatusOr<bool> ParseBool(absl::string_view text);
// One of `names`.
absl::Status CheckChoice(absl::string_view text, const std::vector<absl::string_view>& names);

// For help: the shortest text that reads back as `value`.
std::string RealText(double value);

}  // namespace lorica::cli

#endif  // LORICA_CLI_OPTION_VALUES_H_
