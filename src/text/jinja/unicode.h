// Python's view of text (code points, its classes of characters) over UTF-8 strings.
//
// All functions accept any bytes: a byte that starts no valid sequence counts as one character of
// its own.
#ifndef LORICA_TEXT_JINJA_UNICODE_H_
#define LORICA_TEXT_JINJA_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/text/utf8.h"  // AppendUtf8, IsNumeric

namespace lorica::jinja {

bool IsAscii(absl::string_view text);

// The character at byte `*position`, which moves behind it. Requires *position < text.size().
uint32_t NextCodePoint(absl::string_view text, size_t* position);

// len() of a Python string.
int64_t CountCodePoints(absl::string_view text);

// Byte offsets where characters start, and text.size() at the end.
std::vector<uint32_t> CodePointOffsets(absl::string_view text);

// Classes as Python's str methods have them, of one character.
bool IsSpace(uint32_t c);      // isspace
bool IsPrintable(uint32_t c);  // isprintable
bool IsAlpha(uint32_t c);      // isalpha
bool IsDecimal(uint32_t c);    // isdecimal
bool IsDigit(uint32_t c);      // isdigit
bool IsUpper(uint32_t c);      // uppercase or titlecase letter
bool IsLower(uint32_t c);

std::string ToUpper(absl::string_view text);
std::string ToLower(absl::string_view text);
std::string CaseFold(absl::string_view text);
std::string SwapCase(absl::string_view text);
std::string Capitalize(absl::string_view text);  // str.capitalize
std::string TitleCase(absl::string_view text);   // str.title

// Without leading or trailing characters of Python's whitespace.
absl::string_view StripSpace(absl::string_view text, bool left = true, bool right = true);
// Without those of the set `characters`.
absl::string_view StripCharacters(absl::string_view text, absl::string_view characters,
                                  bool left = true, bool right = true);

// str.splitlines.
std::vector<absl::string_view> SplitLines(absl::string_view text, bool keep_ends);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_UNICODE_H_
