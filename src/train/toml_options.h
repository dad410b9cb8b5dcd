// Options as TOML.
#ifndef LORICA_TRAIN_TOML_OPTIONS_H_
#define LORICA_TRAIN_TOML_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lorica/train/option_list.h"

namespace lorica {

// "name = value" lines, grouped; an absent optional value is a comment that says what then holds.
std::string FormatTomlOptions(const VisitOptions& visit);

// Reads `text` into the visited variables. InvalidArgument, starting with `where` and the line, for
// text that isn't TOML, a key that is no option (with the nearest that is), and a value of the
// wrong type; nothing is said about ranges. `ignored` are keys that are fine but belong to somebody
// else.
absl::Status ParseTomlOptions(absl::string_view text, absl::string_view where,
                              const VisitOptions& visit,
                              const std::vector<std::string>& ignored = {});

// Every option that a resumed run must share with its checkpoint, as (name, value in TOML).
std::vector<std::pair<std::string, std::string>> FixedOptions(const VisitOptions& visit);

}  // namespace lorica

#endif  // LORICA_TRAIN_TOML_OPTIONS_H_
