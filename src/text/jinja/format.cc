#include "lorica/text/jinja/format.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

namespace {

// Widths and precisions beyond this are refused; nobody pads a prompt so far.
constexpr int kMaxWidth = 100'000;

struct Spec {
  std::string fill = " ";
  char align = 0;   // '<', '>', '^', '='; 0 = the type's own
  char sign = '-';  // '+', '-', ' '
  bool alternate = false;
  bool grouped = false;
  int width = 0;
  int precision = -1;
  char type = 0;  // 0 = the value's own
};

int ReadNumber(absl::string_view text, size_t* position) {
  int number = 0;
  while (*position < text.size() && std::isdigit(static_cast<unsigned char>(text[*position]))) {
    number = number * 10 + (text[(*position)++] - '0');
    if (number > kMaxWidth) Raise("a width or precision of more than ", kMaxWidth, " is refused");
  }
  return number;
}

std::string Pad(std::string text, const Spec& spec, char default_align, Budget& budget) {
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

std::string GroupThousands(const std::string& number) {
  const size_t begin = !number.empty() && !std::isdigit(static_cast<unsigned char>(number[0]));
  size_t end = begin;
  while (end < number.size() && std::isdigit(static_cast<unsigned char>(number[end]))) ++end;
  std::string out = number.substr(0, begin);
  for (size_t i = begin; i < end; ++i) {
    out += number[i];
    if ((end - i) % 3 == 1 && i + 1 < end) out += ',';
  }
  return out + number.substr(end);
}

std::string IntegerText(int64_t value, const Spec& spec) {
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
  if (spec.alternate && base != 10) digits = std::string("0") + spec.type + digits;
  if (negative) return "-" + digits;
  return spec.sign == '-' ? digits : spec.sign + digits;
}

std::string FloatText(double value, const Spec& spec) {
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

std::string NumberText(const Value& value, const Spec& spec) {
  const bool as_float = value.is_float() ||
                        (spec.type != 0 && absl::StrContains("eEfFgG%", std::string(1, spec.type)));
  std::string text =
      as_float ? FloatText(value.as_double(), spec) : IntegerText(value.as_int(), spec);
  return spec.grouped ? GroupThousands(text) : text;
}

std::string Truncated(std::string text, int precision) {
  if (precision < 0) return text;
  size_t end = 0;
  for (int i = 0; i < precision && end < text.size(); ++i) NextCodePoint(text, &end);
  text.resize(end);
  return text;
}

}  // namespace

std::string FormatWithSpec(const Value& value, absl::string_view text, Budget& budget) {
  if (text.empty()) return Str(value, budget);
  Spec spec;
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
  if (i < text.size() && text[i] == '#') spec.alternate = true, ++i;
  if (i < text.size() && text[i] == '0') {
    if (spec.align == 0) spec.fill = "0", spec.align = value.is_string() ? '<' : '=';
    ++i;
  }
  spec.width = ReadNumber(text, &i);
  if (i < text.size() && (text[i] == ',' || text[i] == '_')) {
    if (text[i] == '_') Raise("the format option '_' isn't supported");
    spec.grouped = true;
    ++i;
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

namespace {

// Reads one "%..." field at `*position` (behind the percent sign) into `spec`; `next` gives the
// value of a '*' width.
template <typename Next>
void ReadPercentSpec(absl::string_view format, size_t* position, const Next& next, Spec* spec) {
  size_t& i = *position;
  for (; i < format.size(); ++i) {
    if (format[i] == '-') {
      spec->align = '<';
    } else if (format[i] == '+') {
      spec->sign = '+';
    } else if (format[i] == ' ') {
      if (spec->sign != '+') spec->sign = ' ';
    } else if (format[i] == '#') {
      spec->alternate = true;
    } else if (format[i] == '0') {
      spec->fill = "0";
    } else {
      break;
    }
  }
  const auto read = [&] {
    if (i >= format.size() || format[i] != '*') return ReadNumber(format, &i);
    ++i;
    const Value given = next();
    if (!given.is_integral()) Raise("* wants int");
    if (given.as_int() < -kMaxWidth || given.as_int() > kMaxWidth) {
      Raise("a width or precision of more than ", kMaxWidth, " is refused");
    }
    return static_cast<int>(given.as_int());
  };
  spec->width = read();
  if (spec->width < 0) {
    spec->width = -spec->width;
    spec->align = '<';
  }
  if (i < format.size() && format[i] == '.') {
    ++i;
    spec->precision = std::max(0, read());
  }
  while (i < format.size() && (format[i] == 'l' || format[i] == 'h' || format[i] == 'L')) ++i;
  if (i == format.size()) Raise("incomplete format");
  spec->type = format[i++];
}

std::string PercentField(const Value& value, Spec spec, Budget& budget) {
  switch (spec.type) {
    case 's':
    case 'r':
    case 'a':
      spec.fill = " ";
      return Pad(
          Truncated(spec.type == 's' ? Str(value, budget) : Repr(value, budget), spec.precision),
          spec, '>', budget);
    case 'c': {
      std::string character;
      if (value.is_integral()) {
        if (value.as_int() < 0 || value.as_int() > 0x10FFFF ||
            (value.as_int() >= 0xD800 && value.as_int() < 0xE000)) {
          Raise("%c arg not in range(0x110000)");
        }
        AppendUtf8(static_cast<uint32_t>(value.as_int()), &character);
      } else if (value.is_string() && CountCodePoints(value.as_string()) == 1) {
        character = value.as_string();
      } else {
        Raise("%c requires int or char");
      }
      return Pad(std::move(character), spec, '>', budget);
    }
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': {
      RequireDefined(value);
      const bool integer = absl::StrContains("diuoxX", std::string(1, spec.type));
      const bool decimal = absl::StrContains("diu", std::string(1, spec.type));
      if (!value.is_number() || (integer && !decimal && value.is_float())) {
        if (integer) {
          Raise("%", std::string(1, spec.type), " format: a real number is required, not ",
                TypeName(value));
        }
        Raise("must be real number, not ", TypeName(value));
      }
      if (spec.align == 0 && spec.fill == "0") spec.align = '=';
      if (spec.align == '<') spec.fill = " ";
      if (!integer) return Pad(FloatText(value.as_double(), spec), spec, '>', budget);
      if (decimal) spec.type = 'd';
      if (value.is_float() && !(std::fabs(value.as_double()) < 9.2e18)) {
        Raise("cannot convert float to a 64-bit integer");
      }
      const int64_t number =
          value.is_float() ? static_cast<int64_t>(value.as_double()) : value.as_int();
      return Pad(IntegerText(number, spec), spec, '>', budget);
    }
    default:
      Raise("unsupported format character '", std::string(1, spec.type), "'");
  }
}

}  // namespace

std::string PercentFormat(absl::string_view format, const Value& arguments, Budget& budget) {
  budget.Bytes(static_cast<int64_t>(format.size()));
  const bool is_tuple = arguments.is_tuple();
  size_t used = 0;
  const auto next = [&]() -> Value {
    const size_t available = is_tuple ? arguments.as_list().size() : 1;
    if (used >= available) Raise("not enough arguments for format string");
    ++used;
    return is_tuple ? arguments.as_list()[used - 1] : arguments;
  };
  std::string out;
  for (size_t i = 0; i < format.size();) {
    if (format[i] != '%') {
      out += format[i++];
      continue;
    }
    ++i;
    bool named = false;
    Value value;
    if (i < format.size() && format[i] == '(') {
      if (!arguments.is_dict()) Raise("format requires a mapping");
      size_t depth = 1;
      const size_t begin = ++i;
      for (; i < format.size() && depth > 0; ++i) {
        depth += format[i] == '(' ? 1 : 0;
        depth -= format[i] == ')' ? 1 : 0;
      }
      if (depth > 0) Raise("incomplete format key");
      const absl::string_view key = format.substr(begin, i - 1 - begin);
      const Value* found = arguments.as_dict().Find(key);
      if (found == nullptr) Raise(QuoteString(key));
      value = *found;
      named = true;
    }
    Spec spec;
    ReadPercentSpec(format, &i, next, &spec);
    if (spec.type == '%') {
      out += '%';
      continue;
    }
    if (!named) value = next();
    out += PercentField(value, spec, budget);
  }
  const bool leftover = is_tuple ? used < arguments.as_list().size()
                                 : used == 0 && !arguments.is_dict() && !arguments.is_list();
  if (leftover) Raise("not all arguments converted during string formatting");
  return out;
}

std::string FormatFields(absl::string_view format, const CallArguments& arguments,
                         const FieldLookup& lookup, Budget& budget) {
  budget.Bytes(static_cast<int64_t>(format.size()));
  std::string out;
  size_t automatic = 0;
  // The value that a field's name ("0", "name", "user.name", "items[0]", "") stands for.
  const auto resolve = [&](absl::string_view name) -> Value {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    const absl::string_view first = name.substr(0, first_end);
    Value value;
    uint32_t position = 0;
    if (first.empty() || absl::SimpleAtoi(first, &position)) {
      const size_t at = first.empty() ? automatic++ : position;
      if (at >= arguments.positional.size()) {
        Raise("Replacement index ", at, " out of range for positional args tuple");
      }
      value = arguments.positional[at];
    } else {
      const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto& entry) { return entry.first == first; });
      if (found == arguments.named.end()) Raise(QuoteString(first));
      value = found->second;
    }
    for (size_t i = first_end; i < name.size();) {
      const bool is_attribute = name[i] == '.';
      size_t end = is_attribute ? std::min(name.find_first_of(".[", i + 1), name.size())
                                : name.find(']', i + 1);
      if (end == absl::string_view::npos) Raise("expected '}' before end of string");
      value = lookup(value, name.substr(i + 1, end - i - 1), is_attribute);
      i = is_attribute ? end : end + 1;
    }
    return value;
  };
  for (size_t i = 0; i < format.size();) {
    const char c = format[i];
    if (c != '{' && c != '}') {
      out += c;
      ++i;
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == c) {
      out += c;
      i += 2;
      continue;
    }
    if (c == '}') Raise("Single '}' encountered in format string");
    size_t depth = 1;
    const size_t begin = ++i;
    for (; i < format.size() && depth > 0; ++i) {
      depth += format[i] == '{' ? 1 : 0;
      depth -= format[i] == '}' ? 1 : 0;
    }
    if (depth > 0) Raise("Single '{' encountered in format string");
    const absl::string_view field = format.substr(begin, i - 1 - begin);
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value value = resolve(field.substr(0, name_end));
    RequireDefined(value);
    absl::string_view rest = field.substr(name_end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        Raise("expected ':' after conversion specifier");
      }
      if (rest[1] != 's' && rest[1] != 'r') {
        Raise("Unknown conversion specifier '", rest.substr(1, 1), "'");
      }
      value = rest[1] == 's' ? Str(value, budget) : Repr(value, budget);
      rest.remove_prefix(2);
    }
    std::string spec(rest.empty() ? rest : rest.substr(1));
    if (absl::StrContains(spec, "{")) {  // widths may come from arguments, one level deep
      const size_t open = spec.find('{');
      const size_t close = spec.find('}', open);
      if (close == std::string::npos) Raise("expected '}' before end of string");
      const Value inner = resolve(absl::string_view(spec).substr(open + 1, close - open - 1));
      spec = spec.substr(0, open) + Str(inner, budget) + spec.substr(close + 1);
    }
    const std::string text = FormatWithSpec(value, spec, budget);
    out += text;
  }
  budget.Bytes(static_cast<int64_t>(out.size()));
  return out;
}

}  // namespace lorica::jinja
