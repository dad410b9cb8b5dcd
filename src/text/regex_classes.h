// Named sets of characters as Oniguruma knows them, spelled as members of a PCRE2 character class
// (what stands between its brackets).
#ifndef LORICA_TEXT_REGEX_CLASSES_H_
#define LORICA_TEXT_REGEX_CLASSES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica {

std::string SpaceItems();     // of \s
std::string WordItems();      // of \w
std::string HexDigitItems();  // of \h

// Of a general category ("L", "Nd"), with what Unicode 15 and 16 added to it.
std::string CategoryItems(absl::string_view category);

// Of the property \p{name} or the POSIX bracket [:name:]; an error whose message is the name where
// it isn't known. Names of scripts are taken as they are, for PCRE2 to know or refuse.
absl::StatusOr<std::string> PropertyItems(absl::string_view name);

}  // namespace lorica

#endif  // LORICA_TEXT_REGEX_CLASSES_H_
