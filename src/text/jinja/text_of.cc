// str() and repr() as Python writes them.
#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"
#include "lorica/text/jinja/object.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

using Kind = Value::Kind;

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that read back as the same number; Python writes them out from 1e-4 up to
  // 1e16.
  char buffer[32] = {};  // stays terminated: the shortest form has at most 24 characters
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const absl::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  const size_t e = shortest.find('e');
  const int exponent = std::atoi(shortest.data() + e + 1);
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c != '.' && c != '-') digits += c;
  }
  const std::string sign = std::signbit(value) ? "-" : "";
  if (exponent < 0) {
    return absl::StrCat(sign, "0.", std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return absl::StrCat(sign, digits, std::string(whole - digits.size(), '0'), ".0");
  }
  return absl::StrCat(sign, digits.substr(0, whole), ".", digits.substr(whole));
}

std::string QuoteString(absl::string_view text) {
  const bool has_single = text.find('\'') != absl::string_view::npos;
  const char quote = has_single && text.find('"') == absl::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const uint32_t c = NextCodePoint(text, &i);
    if (c == static_cast<uint32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      out.append(text.data() + begin, i - begin);
    } else if (c < 0x100) {
      out += absl::StrFormat("\\x%02x", c);
    } else if (c < 0x10000) {
      out += absl::StrFormat("\\u%04x", c);
    } else {
      out += absl::StrFormat("\\U%08x", c);
    }
  }
  out += quote;
  return out;
}

namespace {

void AppendItems(const List& items, Budget& budget, std::string* out);

void AppendRepr(const Value& value, Budget& budget, std::string* out) {
  budget.Step();
  const size_t before = out->size();
  switch (value.kind()) {
    case Kind::kUndefined:
      *out += "Undefined";
      break;
    case Kind::kNone:
      *out += "None";
      break;
    case Kind::kBool:
      *out += value.as_bool() ? "True" : "False";
      break;
    case Kind::kInt:
      absl::StrAppend(out, value.as_int());
      break;
    case Kind::kFloat:
      *out += FloatRepr(value.as_double());
      break;
    case Kind::kString:
      budget.Bytes(static_cast<int64_t>(value.as_string().size()));
      *out += QuoteString(value.as_string());
      return;
    case Kind::kList:
      *out += '[';
      AppendItems(value.as_list(), budget, out);
      *out += ']';
      return;
    case Kind::kTuple:
      *out += '(';
      AppendItems(value.as_list(), budget, out);
      *out += value.as_list().size() == 1 ? ",)" : ")";
      return;
    case Kind::kDict: {
      *out += '{';
      bool first = true;
      for (const auto& [key, item] : value.as_dict().entries()) {
        if (!first) *out += ", ";
        first = false;
        AppendRepr(key, budget, out);
        *out += ": ";
        AppendRepr(item, budget, out);
      }
      *out += '}';
      return;
    }
    case Kind::kRange: {
      const Range& range = value.as_range();
      absl::StrAppend(out, "range(", range.start, ", ", range.stop);
      if (range.step != 1) absl::StrAppend(out, ", ", range.step);
      *out += ')';
      break;
    }
    case Kind::kView:
      absl::StrAppend(out, value.as_view().type_name, "([");
      AppendItems(value.as_view().items, budget, out);
      *out += "])";
      return;
    case Kind::kIterator:
      absl::StrAppend(out, "<", value.as_iterator().type_name, " object>");
      break;
    case Kind::kObject:
      *out += value.as_object().Repr();
      break;
  }
  budget.Bytes(static_cast<int64_t>(out->size() - before));
}

void AppendItems(const List& items, Budget& budget, std::string* out) {
  budget.Bytes(static_cast<int64_t>(2 * items.size()));
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) *out += ", ";
    AppendRepr(items[i], budget, out);
  }
}

}  // namespace

std::string Repr(const Value& value, Budget& budget) {
  std::string out;
  AppendRepr(value, budget, &out);
  return out;
}

std::string Str(const Value& value, Budget& budget) {
  if (value.is_undefined()) return "";
  if (!value.is_string()) return Repr(value, budget);
  budget.Bytes(static_cast<int64_t>(value.as_string().size()));
  return value.as_string();
}

}  // namespace lorica::jinja
