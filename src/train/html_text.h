// Text inside of HTML.
#ifndef LORICA_TRAIN_HTML_TEXT_H_
#define LORICA_TRAIN_HTML_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lorica {

// Escaped for element content and for attributes in double quotes; bytes that aren't UTF-8, and
// control characters other than tab and newline, become U+FFFD.
std::string HtmlText(absl::string_view text);

}  // namespace lorica

#endif  // LORICA_TRAIN_HTML_TEXT_H_
