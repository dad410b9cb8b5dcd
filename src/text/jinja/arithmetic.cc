// Python's arithmetic operators on values. Integers have 64 bits: where Python would grow, an error
// is raised.
#include <cmath>

#include "lorica/text/jinja/format.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

namespace {

[[noreturn]] void Unsupported(absl::string_view symbol, const Value& a, const Value& b) {
  RequireDefined(a);
  RequireDefined(b);
  Raise("unsupported operand type(s) for ", symbol, ": '", TypeName(a), "' and '", TypeName(b),
        "'");
}

[[noreturn]] void Overflow() { Raise("integer overflow: the result needs more than 64 bits"); }

bool BothNumbers(const Value& a, const Value& b) { return a.is_number() && b.is_number(); }
bool BothIntegral(const Value& a, const Value& b) { return a.is_integral() && b.is_integral(); }

List Concatenate(const List& a, const List& b, Budget& budget) {
  budget.Bytes(static_cast<int64_t>((a.size() + b.size()) * sizeof(Value)));
  List out;
  out.reserve(a.size() + b.size());
  out.insert(out.end(), a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

// The number of bytes that `count` repetitions take, charged; 0 for a negative count.
size_t ChargeRepetition(size_t size, int64_t count, Budget& budget) {
  if (count <= 0 || size == 0) return 0;
  int64_t total = 0;
  if (__builtin_mul_overflow(static_cast<int64_t>(size), count, &total)) total = INT64_MAX / 2;
  budget.Bytes(total);
  return static_cast<size_t>(count);
}

bool Repeat(const Value& sequence, const Value& times, Budget& budget, Value* out) {
  if (!times.is_integral()) return false;
  if (sequence.is_string()) {
    const std::string& text = sequence.as_string();
    const size_t count = ChargeRepetition(text.size(), times.as_int(), budget);
    std::string repeated;
    repeated.reserve(text.size() * count);
    for (size_t i = 0; i < count; ++i) repeated += text;
    *out = Value(std::move(repeated));
    return true;
  }
  if (sequence.is_list() || sequence.is_tuple()) {
    const List& items = sequence.as_list();
    const size_t count = ChargeRepetition(items.size() * sizeof(Value), times.as_int(), budget);
    List repeated;
    repeated.reserve(items.size() * count);
    for (size_t i = 0; i < count; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
    *out = sequence.is_list() ? Value(std::move(repeated)) : Value::Tuple(std::move(repeated));
    return true;
  }
  return false;
}

double FlooredRemainder(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) remainder += b;
  } else {
    remainder = std::copysign(0.0, b);
  }
  return remainder;
}

double FlooredQuotient(double a, double b) {
  const double quotient = (a - FlooredRemainder(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

}  // namespace

Value Add(const Value& a, const Value& b, Budget& budget) {
  if (a.is_string() && b.is_string()) {
    budget.Bytes(static_cast<int64_t>(a.as_string().size() + b.as_string().size()));
    return absl::StrCat(a.as_string(), b.as_string());
  }
  if (BothIntegral(a, b)) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a.as_int(), b.as_int(), &sum)) Overflow();
    return sum;
  }
  if (BothNumbers(a, b)) return a.as_double() + b.as_double();
  if (a.is_list() && b.is_list()) return Concatenate(a.as_list(), b.as_list(), budget);
  if (a.is_tuple() && b.is_tuple()) {
    return Value::Tuple(Concatenate(a.as_list(), b.as_list(), budget));
  }
  RequireDefined(a);
  RequireDefined(b);
  if (a.is_string() || a.is_list() || a.is_tuple()) {
    const std::string type = TypeName(a);
    Raise("can only concatenate ", type, " (not \"", TypeName(b), "\") to ", type);
  }
  Unsupported("+", a, b);
}

Value Subtract(const Value& a, const Value& b) {
  if (BothIntegral(a, b)) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a.as_int(), b.as_int(), &difference)) Overflow();
    return difference;
  }
  if (BothNumbers(a, b)) return a.as_double() - b.as_double();
  Unsupported("-", a, b);
}

Value Multiply(const Value& a, const Value& b, Budget& budget) {
  if (BothIntegral(a, b)) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a.as_int(), b.as_int(), &product)) Overflow();
    return product;
  }
  if (BothNumbers(a, b)) return a.as_double() * b.as_double();
  Value repeated;
  if (Repeat(a, b, budget, &repeated) || Repeat(b, a, budget, &repeated)) return repeated;
  Unsupported("*", a, b);
}

Value Divide(const Value& a, const Value& b) {
  if (!BothNumbers(a, b)) Unsupported("/", a, b);
  if (b.as_double() == 0) Raise("division by zero");
  return a.as_double() / b.as_double();
}

Value FloorDivide(const Value& a, const Value& b) {
  if (!BothNumbers(a, b)) Unsupported("//", a, b);
  if (b.as_double() == 0) Raise("division by zero");
  if (!BothIntegral(a, b)) return FlooredQuotient(a.as_double(), b.as_double());
  const int64_t x = a.as_int();
  const int64_t y = b.as_int();
  if (y == -1) return Negate(a);  // the one quotient that can overflow
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

Value Modulo(const Value& a, const Value& b, Budget& budget) {
  if (a.is_string()) return PercentFormat(a.as_string(), b, budget);
  if (!BothNumbers(a, b)) Unsupported("%", a, b);
  if (b.as_double() == 0) Raise("integer division or modulo by zero");
  if (!BothIntegral(a, b)) return FlooredRemainder(a.as_double(), b.as_double());
  const int64_t y = b.as_int();
  if (y == -1) return int64_t{0};
  const int64_t remainder = a.as_int() % y;
  return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}

Value Power(const Value& a, const Value& b) {
  if (!BothNumbers(a, b)) Unsupported("** or pow()", a, b);
  if (BothIntegral(a, b) && b.as_int() >= 0) {
    int64_t result = 1;
    int64_t base = a.as_int();
    for (int64_t exponent = b.as_int(); exponent > 0; exponent >>= 1) {
      if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) Overflow();
      if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) Overflow();
    }
    return result;
  }
  const double x = a.as_double();
  const double y = b.as_double();
  if (x == 0 && y < 0) Raise("0.0 cannot be raised to a negative power");
  if (x < 0 && std::isfinite(y) && y != std::floor(y)) Raise("complex numbers aren't supported");
  const double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) {
    Raise("(34, 'Numerical result out of range')");
  }
  return result;
}

Value Negate(const Value& a) {
  if (a.is_float()) return -a.as_double();
  RequireDefined(a);
  if (!a.is_integral()) Raise("bad operand type for unary -: '", TypeName(a), "'");
  int64_t negated = 0;
  if (__builtin_sub_overflow(int64_t{0}, a.as_int(), &negated)) Overflow();
  return negated;
}

Value Plus(const Value& a) {
  RequireDefined(a);
  if (!a.is_number()) Raise("bad operand type for unary +: '", TypeName(a), "'");
  return a.is_float() ? a : Value(a.as_int());
}

}  // namespace lorica::jinja
