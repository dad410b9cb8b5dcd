// Widths, signs, alignment and precision of one formatted value: common ground of "%" and
// str.format.
#ifndef LORICA_TEXT_JINJA_FORMAT_SPEC_H_
#define LORICA_TEXT_JINJA_FORMAT_SPEC_H_

#include <string>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

// Widths and precisions beyond this are refused; nobody pads a prompt so far.
constexpr int kMaxWidth = 100'000;

struct FormatSpec {
  std::string fill = " ";
  char align = 0;   // '<', '>', '^', '='; 0 = the type's own
  char sign = '-';  // '+', '-', ' '
  bool alternate = false;
  char grouped = 0;  // what stands between groups of digits: ',' or '_'
  int width = 0;
  int precision = -1;
  char type = 0;  // 0 = the value's own
};

bool IsOneOf(char c, absl::string_view set);

// The digits at `*position`, which moves behind them; throws beyond kMaxWidth.
int ReadNumber(absl::string_view text, size_t* position);

// `text` filled up to the width.
std::string Pad(std::string text, const FormatSpec& spec, char default_align, Budget& budget);

// Numbers in the form that the type asks for, not yet padded.
std::string IntegerText(int64_t value, const FormatSpec& spec);
std::string FloatText(double value, const FormatSpec& spec);

// The first `precision` characters; all where it is negative.
std::string Truncated(std::string text, int precision);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_FORMAT_SPEC_H_
