#include "lorica/text/utf8.h"

#include <utf8proc.h>

#include <algorithm>

#include "lorica/text/unicode_additions.h"

namespace lorica {
namespace {

// Bytes of the well-formed sequence at text[offset]; 0 where there is none. `*unfinished` tells
// whether it's a well-formed beginning that the text's end cuts off.
size_t SequenceLength(absl::string_view text, size_t offset, bool* unfinished) {
  *unfinished = false;
  const auto lead = static_cast<unsigned char>(text[offset]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = Utf8Length(text[offset]);
  for (size_t i = 1; i < length; ++i) {
    if (offset + i == text.size()) {
      *unfinished = true;
      return 0;
    }
    const auto byte = static_cast<unsigned char>(text[offset + i]);
    // The second byte excludes overlong forms, surrogates and what lies above U+10FFFF.
    const unsigned char low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte < low || byte > high) return 0;
  }
  return length;
}

// The general category, "Lu" or "Nd", with what utf8proc's Unicode doesn't have yet.
const char* Category(uint32_t code_point) {
  const auto c = static_cast<utf8proc_int32_t>(code_point);
  if (utf8proc_category(c) != UTF8PROC_CATEGORY_CN) return utf8proc_category_string(c);
  const absl::Span<const UnicodeAddition> additions = UnicodeAdditions();
  const auto row = std::partition_point(
      additions.begin(), additions.end(),
      [code_point](const UnicodeAddition& addition) { return addition.last < code_point; });
  return row != additions.end() && row->first <= code_point ? row->category : "Cn";
}

}  // namespace

size_t FirstInvalidUtf8(absl::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    bool unfinished;
    const size_t length = SequenceLength(text, offset, &unfinished);
    if (length == 0) return offset;
    offset += length;
  }
  return offset;
}

std::string ValidUtf8(absl::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t length = FirstInvalidUtf8(text);
    valid.append(text.data(), length);
    text.remove_prefix(length);
    if (text.empty()) break;
    valid += "\xEF\xBF\xBD";
    text.remove_prefix(1);
  }
  return valid;
}

size_t FinishedUtf8(absl::string_view text) {
  // An unfinished sequence has at most three bytes so far.
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t offset = text.size() - back;
    if ((static_cast<unsigned char>(text[offset]) & 0xC0) == 0x80) continue;
    bool unfinished;
    SequenceLength(text, offset, &unfinished);
    return unfinished ? offset : text.size();
  }
  return text.size();
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool IsWhiteSpace(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsWordCharacter(uint32_t c) {
  const char* category = Category(c);
  if (category[0] == 'L' || category[0] == 'M') return true;
  if (category[0] == 'N') return category[1] != 'o';
  if (category[0] == 'P') return category[1] == 'c';
  // Join controls, and the symbols that Unicode calls alphabetic (circled and squared letters).
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool IsNumeric(uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  if (Category(c)[0] == 'N') return true;
  // Unicode 17, which Rust has and the regular expressions don't.
  return (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
}

bool IsMark(uint32_t c) { return c >= 0x300 && Category(c)[0] == 'M'; }

bool IsNonspacingMark(uint32_t c) { return c >= 0x300 && absl::string_view(Category(c)) == "Mn"; }

bool IsControl(uint32_t c) {
  const char* category = Category(c);
  return category[0] == 'C' && category[1] != 'n';
}

bool IsPunctuation(uint32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  return Category(c)[0] == 'P';
}

}  // namespace lorica
