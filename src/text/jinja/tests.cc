// The tests of `is`.
#include <algorithm>

#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

namespace {

using Kind = Value::Kind;

const Value& Operand(const CallArguments& arguments) {
  const Bound bound("test", arguments, {"other"}, 1);
  return bound[0];
}

void NoOperand(const CallArguments& arguments) { const Bound bound("test", arguments, {}); }

template <bool (*kCheck)(const Value&)>
bool Unary(Interpreter&, const Value& input, const CallArguments& arguments) {
  NoOperand(arguments);
  return kCheck(input);
}

int64_t RemainderBy(Interpreter& interpreter, const Value& input, const Value& divisor) {
  const Value remainder = Modulo(input, divisor, interpreter.budget());
  if (!remainder.is_number()) Raise("not all arguments converted during string formatting");
  return remainder.is_float() ? (remainder.as_double() == 0   ? 0
                                 : remainder.as_double() == 1 ? 1
                                                              : 2)
                              : remainder.as_int();
}

bool IsOdd(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  NoOperand(arguments);
  return RemainderBy(interpreter, input, 2) == 1;
}

bool IsEven(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  NoOperand(arguments);
  return RemainderBy(interpreter, input, 2) == 0;
}

bool IsDivisibleBy(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return RemainderBy(interpreter, input, Operand(arguments)) == 0;
}

// Python's str.islower and isupper: a cased character, and none of the other case.
template <bool (*kWanted)(uint32_t), bool (*kOther)(uint32_t)>
bool HasCase(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  NoOperand(arguments);
  const std::string text = Str(input, interpreter.budget());
  bool found = false;
  for (size_t i = 0; i < text.size();) {
    const uint32_t c = NextCodePoint(text, &i);
    if (kOther(c)) return false;
    found = found || kWanted(c);
  }
  return found;
}

bool IsSequence(const Value& v) {
  return IsIterable(v) && v.kind() != Kind::kView && v.kind() != Kind::kIterator;
}

bool IsSame(Interpreter&, const Value& input, const CallArguments& arguments) {
  const Value& other = Operand(arguments);
  if (input.kind() != other.kind()) return false;
  // Python shares small numbers and most short strings; which ones is an accident that nobody
  // should rely on.
  if (input.payload() == nullptr || input.is_string()) return Equals(input, other, nullptr);
  return input.payload() == other.payload();
}

bool IsIn(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Contains(Operand(arguments), input, interpreter.budget());
}

bool IsEqual(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Equals(input, Operand(arguments), &interpreter.budget());
}

bool IsNotEqual(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return !IsEqual(interpreter, input, arguments);
}

bool IsLess(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Compare(input, Operand(arguments), "<", interpreter.budget()) < 0;
}

bool IsLessEqual(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Compare(input, Operand(arguments), "<=", interpreter.budget()) <= 0;
}

bool IsGreater(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Compare(input, Operand(arguments), ">", interpreter.budget()) > 0;
}

bool IsGreaterEqual(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Compare(input, Operand(arguments), ">=", interpreter.budget()) >= 0;
}

bool IsFilterName(const Value& v) {
  RequireHashable(v);
  return v.is_string() && FindFilter(v.as_string()) != nullptr;
}
bool IsTestName(const Value& v) {
  RequireHashable(v);
  return v.is_string() && FindTest(v.as_string()) != nullptr;
}
bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsUndefined(const Value& v) { return v.is_undefined(); }
bool IsNone(const Value& v) { return v.is_none(); }
bool IsBoolean(const Value& v) { return v.is_bool(); }
bool IsTrue(const Value& v) { return v.is_bool() && v.as_bool(); }
bool IsFalse(const Value& v) { return v.is_bool() && !v.as_bool(); }
bool IsInteger(const Value& v) { return v.is_int(); }
bool IsFloat(const Value& v) { return v.is_float(); }
bool IsNumber(const Value& v) { return v.is_number(); }
bool IsString(const Value& v) { return v.is_string(); }
bool IsMapping(const Value& v) { return v.is_dict(); }
bool IsCallable(const Value& v) {
  // Undefined has a __call__, which fails.
  return v.is_undefined() || (v.is_object() && v.as_object().is_callable());
}
bool IsEscaped(const Value&) { return false; }

constexpr NamedFunction<TestFunction> kTests[] = {
    {"defined", Unary<IsDefined>},
    {"undefined", Unary<IsUndefined>},
    {"none", Unary<IsNone>},
    {"string", Unary<IsString>},
    {"mapping", Unary<IsMapping>},
    {"sequence", Unary<IsSequence>},
    {"iterable", Unary<IsIterable>},
    {"number", Unary<IsNumber>},
    {"integer", Unary<IsInteger>},
    {"float", Unary<IsFloat>},
    {"boolean", Unary<IsBoolean>},
    {"true", Unary<IsTrue>},
    {"false", Unary<IsFalse>},
    {"callable", Unary<IsCallable>},
    {"escaped", Unary<IsEscaped>},
    {"filter", Unary<IsFilterName>},
    {"test", Unary<IsTestName>},
    {"odd", IsOdd},
    {"even", IsEven},
    {"divisibleby", IsDivisibleBy},
    {"lower", HasCase<IsLower, IsUpper>},
    {"upper", HasCase<IsUpper, IsLower>},
    {"sameas", IsSame},
    {"in", IsIn},
    {"==", IsEqual},
    {"eq", IsEqual},
    {"equalto", IsEqual},
    {"!=", IsNotEqual},
    {"ne", IsNotEqual},
    {"<", IsLess},
    {"lt", IsLess},
    {"lessthan", IsLess},
    {"<=", IsLessEqual},
    {"le", IsLessEqual},
    {">", IsGreater},
    {"gt", IsGreater},
    {"greaterthan", IsGreater},
    {">=", IsGreaterEqual},
    {"ge", IsGreaterEqual},
};

}  // namespace

TestFunction FindTest(absl::string_view name) { return FindIn(kTests, name); }

}  // namespace lorica::jinja
