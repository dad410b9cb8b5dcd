#include "lorica/text/jinja/string_literal.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

namespace {

// The code point of `count` hexadecimal digits at `*position`.
bool ReadHex(absl::string_view text, size_t count, size_t* position, uint32_t* code_point) {
  const absl::string_view digits = text.substr(std::min(*position, text.size()), count);
  if (digits.size() != count ||
      !std::all_of(digits.begin(), digits.end(),
                   [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }) ||
      !absl::SimpleHexAtoi(digits, code_point)) {
    return false;
  }
  *position += count;
  return true;
}

}  // namespace

bool DecodeStringLiteral(absl::string_view text, std::string* out, std::string* error) {
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out->push_back(text[i++]);
      continue;
    }
    const char c = text[i + 1];
    i += 2;
    switch (c) {
      case '\n':
        break;
      case 'n':
        out->push_back('\n');
        break;
      case 't':
        out->push_back('\t');
        break;
      case 'r':
        out->push_back('\r');
        break;
      case 'a':
        out->push_back('\a');
        break;
      case 'b':
        out->push_back('\b');
        break;
      case 'f':
        out->push_back('\f');
        break;
      case 'v':
        out->push_back('\v');
        break;
      case '\\':
      case '\'':
      case '"':
        out->push_back(c);
        break;
      case 'x':
      case 'u':
      case 'U': {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        uint32_t code_point = 0;
        if (!ReadHex(text, digits, &i, &code_point)) {
          *error = absl::StrCat("truncated \\", std::string(1, c), " escape in a string");
          return false;
        }
        if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
          *error = "an escape in a string names no character of Unicode";
          return false;
        }
        AppendUtf8(code_point, out);
        break;
      }
      case 'N':
        *error = "character names (\\N{...}) in strings aren't supported";
        return false;
      default:
        if (c >= '0' && c <= '7') {
          uint32_t code_point = static_cast<uint32_t>(c - '0');
          for (int n = 1; n < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++n) {
            code_point = code_point * 8 + static_cast<uint32_t>(text[i++] - '0');
          }
          AppendUtf8(code_point, out);
        } else {
          out->push_back('\\');  // an unknown escape stands for itself
          out->push_back(c);
        }
    }
  }
  return true;
}

}  // namespace lorica::jinja
