// Filters that make numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

namespace {

// Digits as Python's int() and float() take them: single underscores between digits are dropped.
// False for others.
bool DropUnderscores(absl::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      *out += text[i];
    } else if (i == 0 || i + 1 == text.size() ||
               !absl::ascii_isalnum(static_cast<unsigned char>(text[i - 1])) ||
               !absl::ascii_isalnum(static_cast<unsigned char>(text[i + 1]))) {
      return false;
    }
  }
  return true;
}

// int(text, base); false where Python raises ValueError. Throws for numbers beyond 64 bits.
bool ParseInt(absl::string_view text, int64_t base, int64_t* out) {
  if (base != 0 && (base < 2 || base > 36)) return false;
  std::string digits;
  if (!DropUnderscores(StripSpace(text), &digits)) return false;
  const bool negative = absl::StartsWith(digits, "-");
  if (negative || absl::StartsWith(digits, "+")) digits.erase(0, 1);
  const std::string prefix = absl::AsciiStrToLower(digits.substr(0, 2));
  const int64_t prefixed = prefix == "0x" ? 16 : prefix == "0o" ? 8 : prefix == "0b" ? 2 : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    digits.erase(0, 2);
    base = prefixed;
  } else if (base == 0) {
    // A decimal number doesn't start with 0 unless it is 0.
    if (digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of('0') != std::string::npos) {
      return false;
    }
    base = 10;
  }
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return false;
  if (negative) digits.insert(0, 1, '-');
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), *out, static_cast<int>(base));
  if (end != digits.data() + digits.size()) return false;
  if (error == std::errc::result_out_of_range) Raise("the integer needs more than 64 bits");
  return error == std::errc();
}

// float(text); false where Python raises ValueError.
bool ParseFloat(absl::string_view text, double* out) {
  std::string digits;
  if (!DropUnderscores(StripSpace(text), &digits)) return false;
  absl::string_view rest = digits;
  const bool negative = absl::StartsWith(rest, "-");
  if (negative || absl::StartsWith(rest, "+")) rest.remove_prefix(1);
  if (rest.empty()) return false;
  const std::string lower = absl::AsciiStrToLower(rest);
  if (lower == "inf" || lower == "infinity") {
    *out = HUGE_VAL;
  } else if (lower == "nan") {
    *out = std::nan("");
  } else {
    if (rest[0] == '-' || rest[0] == '+') return false;
    if (lower.find_first_not_of("0123456789.e+-") != std::string::npos) return false;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *out);
    if (end != rest.data() + rest.size()) return false;
    if (error == std::errc::result_out_of_range) {
      // Too large or too small: strtod tells which.
      *out = std::strtod(std::string(rest).c_str(), nullptr);
    } else if (error != std::errc()) {
      return false;
    }
  }
  if (negative) *out = -*out;
  return true;
}

constexpr double kBeyondInt64 = 9.2e18;

// int(float(...)) where the quotient is a number; false for nan.
bool Truncate(double value, int64_t* out) {
  if (std::isnan(value)) return false;
  if (std::isinf(value)) Raise("cannot convert float infinity to integer");
  if (std::fabs(value) > kBeyondInt64) Raise("the integer needs more than 64 bits");
  *out = static_cast<int64_t>(value);
  return true;
}

Value Int(Interpreter&, const Value& input, const CallArguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  RequireDefined(input);
  const Value fallback = bound.Has(0) ? bound[0] : Value(0);
  int64_t result = 0;
  if (input.is_integral()) return input.as_int();
  if (input.is_float()) return Truncate(input.as_double(), &result) ? Value(result) : fallback;
  if (!input.is_string()) return fallback;
  if (ParseInt(input.as_string(), bound.Int(1, 10), &result)) return result;
  double number = 0;
  if (!ParseFloat(input.as_string(), &number) || std::isinf(number)) return fallback;
  return Truncate(number, &result) ? Value(result) : fallback;
}

Value Float(Interpreter&, const Value& input, const CallArguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  RequireDefined(input);
  if (input.is_number()) return input.as_double();
  double number = 0;
  if (input.is_string() && ParseFloat(input.as_string(), &number)) return number;
  return bound.Has(0) ? bound[0] : Value(0.0);
}

Value Abs(Interpreter&, const Value& input, const CallArguments& arguments) {
  const Bound bound("abs", arguments, {});
  RequireDefined(input);
  if (!input.is_number()) Raise("bad operand type for abs(): '", TypeName(input), "'");
  if (input.is_float()) return std::fabs(input.as_double());
  return input.as_int() < 0 ? Negate(input) : Value(input.as_int());
}

// round() of Python: to the nearest decimal, of the exact binary value, halves to even.
double RoundTo(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 330) return value;
  if (digits < 0) {
    if (digits < -308) return std::copysign(0.0, value);
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  const std::string text = absl::StrFormat("%.*f", static_cast<int>(digits), value);
  return std::strtod(text.c_str(), nullptr);
}

// An integer to a multiple of 10^digits, halves to even.
int64_t RoundToTens(int64_t value, int64_t digits) {
  if (digits > 18) {  // 10^19 and up: the multiple is 0, or has more than 64 bits
    if (digits == 19 && (value > 5'000'000'000'000'000'000 || value < -5'000'000'000'000'000'000)) {
      Raise("the integer needs more than 64 bits");
    }
    return 0;
  }
  int64_t unit = 1;
  for (int64_t i = 0; i < digits; ++i) unit *= 10;
  int64_t quotient = value / unit;
  const int64_t rest = value % unit < 0 ? -(value % unit) : value % unit;
  if (rest > unit - rest || (rest == unit - rest && quotient % 2 != 0))
    quotient += value < 0 ? -1 : 1;
  int64_t result = 0;
  if (__builtin_mul_overflow(quotient, unit, &result)) Raise("the integer needs more than 64 bits");
  return result;
}

Value Round(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::string method = bound.Has(1) ? Str(bound[1], interpreter.budget()) : "common";
  const int64_t precision = bound.Int(0, 0);
  RequireDefined(input);
  if (method != "common" && method != "ceil" && method != "floor") {
    Raise("method must be common, ceil or floor");
  }
  if (!input.is_number()) Raise("type ", TypeName(input), " doesn't define __round__ method");
  if (method == "common") {
    if (input.is_float()) return RoundTo(input.as_double(), precision);
    return precision >= 0 ? input.as_int()
                          : RoundToTens(input.as_int(), -std::max<int64_t>(precision, -20));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_double() * scale;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value FileSize(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("filesizeformat", arguments, {"binary"});
  RequireDefined(input);
  if (!input.is_number() && !input.is_string()) {
    Raise("float() argument must be a string or a real number, not '", TypeName(input), "'");
  }
  const Value number = Float(interpreter, input, {{Value(nullptr)}, {}});
  if (!number.is_float())
    Raise("could not convert string to float: ", QuoteString(Str(input, interpreter.budget())));
  const double bytes = number.as_double();
  const bool binary = bound.Truth(0, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return "1 Byte";
  if (bytes < base) return absl::StrFormat("%.0f Bytes", std::trunc(bytes));
  static constexpr const char* kPrefixes = "kMGTPEZY";
  double unit = base;
  for (int i = 0;; ++i) {
    unit *= base;
    if (bytes >= unit && i < 7) continue;
    const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
    return absl::StrFormat("%.1f %c%s", base * bytes / unit, prefix, binary ? "iB" : "B");
  }
}

constexpr NamedFunction<FilterFunction> kFilters[] = {
    {"int", Int}, {"float", Float}, {"abs", Abs}, {"round", Round}, {"filesizeformat", FileSize},
};

}  // namespace

FilterFunction FindNumberFilter(absl::string_view name) { return FindIn(kFilters, name); }

}  // namespace lorica::jinja
