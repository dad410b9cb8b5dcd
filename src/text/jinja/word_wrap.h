// Breaking a line into several of a given width, as Python's textwrap.wrap does it for jinja2.
#ifndef LORICA_TEXT_JINJA_WORD_WRAP_H_
#define LORICA_TEXT_JINJA_WORD_WRAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/error.h"

namespace lorica::jinja {

struct WrapStyle {
  int64_t width = 79;  // characters
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

// The lines that `line` becomes, without space at their ends; none for an empty line. Throws where
// the width isn't positive.
std::vector<std::string> WrapLine(absl::string_view line, const WrapStyle& style, Budget& budget);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_WORD_WRAP_H_
