// Functions on text that filters and string methods share.
#ifndef LORICA_TEXT_JINJA_TEXT_FUNCTIONS_H_
#define LORICA_TEXT_JINJA_TEXT_FUNCTIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

// str.replace; all occurrences where `count` is negative.
std::string ReplaceText(absl::string_view text, absl::string_view from, absl::string_view to,
                        int64_t count, Budget& budget);

// str.split and str.rsplit; by whitespace where `separator` is none.
List SplitText(absl::string_view text, const Value& separator, int64_t max_splits, bool from_right,
               Budget& budget);

// str.center, ljust and rjust: `left` and `right` say where the filling goes.
std::string PadText(absl::string_view text, int64_t width, absl::string_view fill, bool left,
                    bool right, Budget& budget);

// The strip methods and the trim filter; `characters` none stands for whitespace.
Value StripText(absl::string_view text, const Value& characters, bool left, bool right,
                Budget& budget);

// markupsafe.escape.
std::string EscapeHtml(absl::string_view text, Budget& budget);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_TEXT_FUNCTIONS_H_
