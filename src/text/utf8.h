// UTF-8, one code point at a time.
#ifndef LORICA_TEXT_UTF8_H_
#define LORICA_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace lorica {

// Offset of the first byte that doesn't belong to well-formed UTF-8 (no surrogates, no overlong
// forms, nothing above U+10FFFF); text.size() where all of it does.
size_t FirstInvalidUtf8(absl::string_view text);

// `text` with U+FFFD for each byte that belongs to no character.
std::string ValidUtf8(absl::string_view text);

// Length of the longest prefix of `text` that isn't the beginning of an unfinished but still
// well-formed sequence: what may be shown before more bytes arrive. Broken sequences count as
// finished.
size_t FinishedUtf8(absl::string_view text);

// Bytes of the sequence that starts with `lead`, the first byte of a well-formed one.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The code point that starts at text[offset]; `text` is well formed.
inline uint32_t DecodeUtf8(absl::string_view text, size_t offset) {
  const auto byte = [&](size_t i) {
    return uint32_t{static_cast<unsigned char>(text[offset + i])};
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return lead;
  if (lead < 0xE0) return (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  if (lead < 0xF0) return (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

// Offset of the code point that ends at `end` > 0; `text` is well formed.
inline size_t PreviousUtf8(absl::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

// Appends the UTF-8 form of `code_point`.
void AppendUtf8(uint32_t code_point, std::string* out);

// Properties of code points as Rust's `char` and its `regex` crate define them, which Hugging
// Face's tokenizers use.
bool IsWhiteSpace(uint32_t code_point);      // Unicode White_Space
bool IsWordCharacter(uint32_t code_point);   // letters, marks, decimal digits, connectors
bool IsNumeric(uint32_t code_point);         // categories Nd, Nl, No
bool IsMark(uint32_t code_point);            // categories Mn, Mc, Me
bool IsNonspacingMark(uint32_t code_point);  // category Mn
bool IsControl(uint32_t code_point);         // categories Cc, Cf, Co
bool IsPunctuation(uint32_t code_point);     // categories P*, and ASCII punctuation

}  // namespace lorica

#endif  // LORICA_TEXT_UTF8_H_
