#include "lorica/text/jinja/format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "lorica/text/jinja/format_spec.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

namespace {

// Reads one "%..." field at `*position` (behind the percent sign) into `spec`; `next` gives the
// value of a '*' width.
template <typename Next>
void ReadPercentSpec(absl::string_view format, size_t* position, const Next& next,
                     FormatSpec* spec) {
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
      spec->fill.assign(1, '0');
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

std::string PercentField(const Value& value, FormatSpec spec, Budget& budget) {
  switch (spec.type) {
    case 's':
    case 'r':
    case 'a':
      spec.fill.assign(1, ' ');
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
      const bool integer = IsOneOf(spec.type, "diuoxX");
      const bool decimal = IsOneOf(spec.type, "diu");
      if (!value.is_number() || (integer && !decimal && value.is_float())) {
        if (integer) {
          Raise("%", std::string(1, spec.type), " format: a real number is required, not ",
                TypeName(value));
        }
        Raise("must be real number, not ", TypeName(value));
      }
      if (spec.align == 0 && spec.fill == "0") spec.align = '=';
      if (spec.align == '<') spec.fill.assign(1, ' ');
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
      const Value* found = arguments.as_dict().FindText(key);
      if (found == nullptr) Raise(QuoteString(key));
      value = *found;
      named = true;
    }
    FormatSpec spec;
    ReadPercentSpec(format, &i, next, &spec);
    if (spec.type == '%') {
      out += '%';
      continue;
    }
    if (!named) value = next();
    out += PercentField(value, spec, budget);
  }
  // What can be subscripted, but is neither tuple nor text, may stay unused.
  const bool is_mapping = arguments.is_dict() || arguments.is_list() || arguments.is_undefined() ||
                          arguments.kind() == Value::Kind::kRange;
  const bool leftover = is_tuple ? used < arguments.as_list().size() : used == 0 && !is_mapping;
  if (leftover) Raise("not all arguments converted during string formatting");
  return out;
}

std::string FormatFields(absl::string_view format, const CallArguments& arguments,
                         const FieldLookup& lookup, Budget& budget) {
  budget.Bytes(static_cast<int64_t>(format.size()));
  std::string out;
  size_t automatic = 0;
  bool counts = false, names_positions = false;  // "{}" and "{0}" can't be mixed
  // The value that a field's name ("0", "name", "user.name", "items[0]", "") stands for.
  const auto resolve = [&](absl::string_view name) -> Value {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    const absl::string_view first = name.substr(0, first_end);
    Value value;
    uint32_t position = 0;
    if (first.empty() || absl::SimpleAtoi(first, &position)) {
      (first.empty() ? counts : names_positions) = true;
      if (counts && names_positions) {
        Raise("cannot mix manual field specification and automatic field numbering");
      }
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
    if (spec.find('{') != std::string::npos) {  // widths may come from arguments, one level deep
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
