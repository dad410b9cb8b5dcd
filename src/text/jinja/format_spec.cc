#include "lorica/text/jinja/format_spec.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "lorica/text/jinja/format.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

bool IsOneOf(char c, absl::string_view set) { return set.find(c) != absl::string_view::npos; }

int ReadNumber(absl::string_view text, size_t* position) {
  int number = 0;
  while (*position < text.size() && std::isdigit(static_cast<unsigned char>(text[*position]))) {
    number = number * 10 + (text[(*position)++] - '0');
    if (number > kMaxWidth) Raise("a width or precision of more than ", kMaxWidth, " is refused");
  }
  return number;
}

std::string Pad(std::string text, const FormatSpec& spec, char default_align, Budget& budget) {
  const int64_t length = CountCodePoints(text);
  if (length >= spec.width) return text;
  const auto missing = static_cast<size_t>(spec.width - length);
  budget.Bytes(static_cast<int64_t>(missing * spec.fill.size()));
  const auto filling = [&](size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  switch (spec.align == 0 ? default_align : spec.align) {
    case '<':
      return text + filling(missing);
    case '^':
      return filling(missing / 2) + text + filling(missing - missing / 2);
    case '=': {
      const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
      const size_t prefix =
          spec.alternate && text.size() >= sign + 2 && text[sign] == '0' ? sign + 2 : sign;
      return text.substr(0, prefix) + filling(missing) + text.substr(prefix);
    }
    default:
      return filling(missing) + text;
  }
}

namespace {

// Groups of three digits; of four in the bases of `_` that are powers of two.
std::string GroupDigits(const std::string& number, const FormatSpec& spec) {
  const bool binary = IsOneOf(spec.type, "boxX");
  const auto is_digit = [&](char c) {
    return binary ? std::isxdigit(static_cast<unsigned char>(c)) != 0
                  : std::isdigit(static_cast<unsigned char>(c)) != 0;
  };
  size_t begin = !number.empty() && !is_digit(number[0]);
  if (binary && spec.alternate) begin += 2;
  size_t end = begin;
  while (end < number.size() && is_digit(number[end])) ++end;
  std::string out = number.substr(0, begin);
  for (size_t i = begin; i < end; ++i) {
    out += number[i];
    if ((end - i) % (binary ? 4 : 3) == 1 && i + 1 < end) out += spec.grouped;
  }
  return out + number.substr(end);
}

}  // namespace

std::string IntegerText(int64_t value, const FormatSpec& spec) {
  const bool negative = value < 0;
  uint64_t magnitude =
      negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const unsigned base = spec.type == 'b'                       ? 2
                        : spec.type == 'o'                     ? 8
                        : spec.type == 'x' || spec.type == 'X' ? 16
                                                               : 10;
  const char* symbols = spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += symbols[magnitude % base];
    magnitude /= base;
  } while (magnitude != 0);
  while (static_cast<int>(digits.size()) < spec.precision) digits += '0';
  std::reverse(digits.begin(), digits.end());
  if (spec.alternate && base != 10) digits = absl::StrCat("0", std::string(1, spec.type), digits);
  if (negative) return absl::StrCat("-", digits);
  return spec.sign == '-' ? digits : spec.sign + digits;
}

std::string FloatText(double value, const FormatSpec& spec) {
  if (spec.type == 0 && spec.precision < 0) {
    const std::string text = FloatRepr(value);
    return spec.sign == '-' || std::signbit(value) ? text : spec.sign + text;
  }
  std::string pattern = "%";
  if (spec.sign != '-') pattern += spec.sign;
  if (spec.alternate) pattern += '#';
  pattern += ".*";
  char type = spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
  if (type == '%') {
    value *= 100;
    type = 'f';
  }
  pattern += type;
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  const int size = std::snprintf(nullptr, 0, pattern.c_str(), precision, value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern.c_str(), precision, value);
  text.pop_back();
  // Without a type, a float keeps looking like one.
  if (spec.type == 0 && std::isfinite(value) && text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return spec.type == '%' ? text + '%' : text;
}

namespace {

std::string NumberText(const Value& value, const FormatSpec& spec) {
  const bool as_float = value.is_float() || (spec.type != 0 && IsOneOf(spec.type, "eEfFgG%"));
  std::string text =
      as_float ? FloatText(value.as_double(), spec) : IntegerText(value.as_int(), spec);
  return spec.grouped != 0 ? GroupDigits(text, spec) : text;
}

}  // namespace

std::string Truncated(std::string text, int precision) {
  if (precision < 0) return text;
  size_t end = 0;
  for (int i = 0; i < precision && end < text.size(); ++i) NextCodePoint(text, &end);
  text.resize(end);
  return text;
}

std::string FormatWithSpec(const Value& value, absl::string_view text, Budget& budget) {
  if (text.empty()) return Str(value, budget);
  FormatSpec spec;
  size_t i = 0;
  size_t after_first = 0;
  NextCodePoint(text, &after_first);
  const auto is_align = [&](size_t at) {
    return at < text.size() && absl::string_view("<>^=").find(text[at]) != absl::string_view::npos;
  };
  if (is_align(after_first)) {
    spec.fill = std::string(text.substr(0, after_first));
    spec.align = text[after_first];
    i = after_first + 1;
  } else if (is_align(0)) {
    spec.align = text[i++];
  }
  if (i < text.size() && (text[i] == '+' || text[i] == '-' || text[i] == ' '))
    spec.sign = text[i++];
  if (i < text.size() && text[i] == '#') {
    spec.alternate = true;
    ++i;
  }
  if (i < text.size() && text[i] == '0') {
    if (spec.align == 0) {
      spec.fill.assign(1, '0');
      spec.align = value.is_string() ? '<' : '=';
    }
    ++i;
  }
  spec.width = ReadNumber(text, &i);
  if (i < text.size() && (text[i] == ',' || text[i] == '_')) {
    spec.grouped = text[i++];
  }
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (i == text.size() || !std::isdigit(static_cast<unsigned char>(text[i]))) {
      Raise("Format specifier missing precision");
    }
    spec.precision = ReadNumber(text, &i);
  }
  if (i < text.size()) spec.type = text[i++];
  if (i != text.size()) Raise("Invalid format specifier");
  if (spec.grouped == ',' && IsOneOf(spec.type, "boxX")) {
    Raise("Cannot specify ',' with '", std::string(1, spec.type), "'.");
  }
  const auto refuse = [&] {
    Raise("Unknown format code '", std::string(1, spec.type), "' for object of type '",
          TypeName(value), "'");
  };
  if (value.is_string()) {
    if (spec.type != 0 && spec.type != 's') refuse();
    if (spec.align == '=') Raise("'=' alignment not allowed in string format specifier");
    return Pad(Truncated(value.as_string(), spec.precision), spec, '<', budget);
  }
  if (value.is_bool() && spec.type == 0) return Pad(Str(value, budget), spec, '>', budget);
  if (value.is_number()) {
    const absl::string_view allowed = value.is_float() ? "eEfFgGn%" : "bdoxXneEfFgG%";
    if (spec.type != 0 && allowed.find(spec.type) == absl::string_view::npos) refuse();
    if (value.is_integral() && spec.precision >= 0 && (spec.type == 0 || spec.type == 'd')) {
      Raise("Precision not allowed in integer format specifier");
    }
    return Pad(NumberText(value, spec), spec, '>', budget);
  }
  Raise("unsupported format string passed to ", TypeName(value), ".__format__");
}

}  // namespace lorica::jinja
