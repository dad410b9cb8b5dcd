#include "lorica/text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace lorica::jinja {

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

uint32_t NextCodePoint(absl::string_view text, size_t* position) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const uint8_t first = bytes[*position];
  if (first < 0x80) {
    ++*position;
    return first;
  }
  utf8proc_int32_t code_point = -1;
  const auto length = utf8proc_iterate(
      bytes + *position, static_cast<utf8proc_ssize_t>(text.size() - *position), &code_point);
  if (length <= 0 || code_point < 0) {
    ++*position;
    return first;
  }
  *position += static_cast<size_t>(length);
  return static_cast<uint32_t>(code_point);
}

int64_t CountCodePoints(absl::string_view text) {
  if (IsAscii(text)) return static_cast<int64_t>(text.size());
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) NextCodePoint(text, &i);
  return count;
}

std::vector<uint32_t> CodePointOffsets(absl::string_view text) {
  std::vector<uint32_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); NextCodePoint(text, &i)) {
    offsets.push_back(static_cast<uint32_t>(i));
  }
  offsets.push_back(static_cast<uint32_t>(text.size()));
  return offsets;
}

bool IsSpace(uint32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

namespace {

utf8proc_category_t Category(uint32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

bool IsPrintable(uint32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool IsAlpha(uint32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool IsDecimal(uint32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }

bool IsDigit(uint32_t c) {
  // Besides decimal digits: superscripts, subscripts and circled digits carry a digit value.
  return IsDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490);
}

bool IsUpper(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
}

bool IsLower(uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return Category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

namespace {

constexpr uint32_t kSharpS = 0xDF;
constexpr uint32_t kCapitalSigma = 0x3A3;

void AppendUpper(uint32_t c, std::string* out) {
  if (c == kSharpS) {
    out->append("SS");  // the one common character whose uppercase has two
  } else {
    AppendUtf8(static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void AppendTitle(uint32_t c, std::string* out) {
  if (c == kSharpS) {
    out->append("Ss");
  } else {
    AppendUtf8(static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
  }
}

// A capital sigma at the end of a word becomes a final sigma.
bool IsFinalSigma(absl::string_view text, size_t begin, size_t end) {
  if (begin == 0) return false;
  size_t before = begin - 1;
  while (before > 0 && (static_cast<uint8_t>(text[before]) & 0xC0) == 0x80) --before;
  size_t at = before;
  if (!IsAlpha(NextCodePoint(text, &at))) return false;
  if (end == text.size()) return true;
  at = end;
  return !IsAlpha(NextCodePoint(text, &at));
}

void AppendLower(absl::string_view text, size_t begin, size_t end, uint32_t c, std::string* out) {
  if (c == kCapitalSigma) {
    AppendUtf8(IsFinalSigma(text, begin, end) ? 0x3C2 : 0x3C3, out);
  } else if (c == 0x130) {
    out->append("i\xCC\x87");
  } else {
    AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

// Bytes that are no character stay as they are.
bool CopyStrayByte(absl::string_view text, size_t begin, size_t end, uint32_t c, std::string* out) {
  if (c < 0x80 || end - begin != 1) return false;
  out->push_back(text[begin]);
  return true;
}

template <typename Append>
std::string MapCharacters(absl::string_view text, const Append& append) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const uint32_t c = NextCodePoint(text, &i);
    if (!CopyStrayByte(text, begin, i, c, &out)) append(begin, i, c, &out);
  }
  return out;
}

}  // namespace

std::string ToUpper(absl::string_view text) {
  return MapCharacters(text,
                       [](size_t, size_t, uint32_t c, std::string* out) { AppendUpper(c, out); });
}

std::string ToLower(absl::string_view text) {
  return MapCharacters(text, [text](size_t begin, size_t end, uint32_t c, std::string* out) {
    AppendLower(text, begin, end, c, out);
  });
}

std::string CaseFold(absl::string_view text) {
  return MapCharacters(text, [](size_t, size_t, uint32_t c, std::string* out) {
    utf8proc_int32_t folded[4];  // a character folds into three at most
    int boundary = 0;
    const utf8proc_ssize_t size = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded,
                                                          4, UTF8PROC_CASEFOLD, &boundary);
    if (size < 1 || size > 4) return AppendUtf8(c, out);
    for (utf8proc_ssize_t i = 0; i < size; ++i) AppendUtf8(static_cast<uint32_t>(folded[i]), out);
  });
}

std::string SwapCase(absl::string_view text) {
  return MapCharacters(text, [text](size_t begin, size_t end, uint32_t c, std::string* out) {
    if (IsUpper(c)) {
      AppendLower(text, begin, end, c, out);
    } else {
      AppendUpper(c, out);
    }
  });
}

std::string Capitalize(absl::string_view text) {
  return MapCharacters(text, [text](size_t begin, size_t end, uint32_t c, std::string* out) {
    if (begin == 0) {
      AppendTitle(c, out);
    } else {
      AppendLower(text, begin, end, c, out);
    }
  });
}

std::string TitleCase(absl::string_view text) {
  bool inside_word = false;
  return MapCharacters(text, [&](size_t begin, size_t end, uint32_t c, std::string* out) {
    if (inside_word) {
      AppendLower(text, begin, end, c, out);
    } else {
      AppendTitle(c, out);
    }
    inside_word = IsUpper(c) || IsLower(c);
  });
}

namespace {

// Byte range of `text` that is left when characters for which `drop` holds are taken from the
// chosen ends.
template <typename Drop>
absl::string_view Strip(absl::string_view text, bool left, bool right, const Drop& drop) {
  size_t begin = 0;
  while (left && begin < text.size()) {
    size_t next = begin;
    if (!drop(NextCodePoint(text, &next))) break;
    begin = next;
  }
  size_t end = text.size();
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    size_t next = last;
    uint32_t c = NextCodePoint(text, &next);
    if (next != end) {  // stray continuation bytes: judge the last byte alone
      last = end - 1;
      c = static_cast<uint8_t>(text[last]);
    }
    if (!drop(c)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

absl::string_view StripSpace(absl::string_view text, bool left, bool right) {
  return Strip(text, left, right, IsSpace);
}

absl::string_view StripCharacters(absl::string_view text, absl::string_view characters, bool left,
                                  bool right) {
  std::vector<uint32_t> set;
  for (size_t i = 0; i < characters.size();) set.push_back(NextCodePoint(characters, &i));
  std::sort(set.begin(), set.end());
  return Strip(text, left, right,
               [&](uint32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

std::vector<absl::string_view> SplitLines(absl::string_view text, bool keep_ends) {
  std::vector<absl::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = i;
    const uint32_t c = NextCodePoint(text, &i);
    const bool is_break = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) ||
                          (c == 0x85 && i - end == 2) || c == 0x2028 || c == 0x2029;
    if (!is_break) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(begin, (keep_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace lorica::jinja
