// Escape sequences in string literals, as Python decodes them.
#ifndef LORICA_TEXT_JINJA_STRING_LITERAL_H_
#define LORICA_TEXT_JINJA_STRING_LITERAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lorica::jinja {

// Decodes what stands between the quotes. False with a message for a broken or unsupported escape.
bool DecodeStringLiteral(absl::string_view text, std::string* out, std::string* error);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_STRING_LITERAL_H_
