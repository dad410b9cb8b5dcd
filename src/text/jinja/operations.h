// Operators and built-in functions of Python on values: what `==`, `<`, `+`, `in`, subscripts,
// str() and repr() do.
//
// They throw TemplateError where Python raises, and charge a Budget for work and memory that grow
// with their operands.
#ifndef LORICA_TEXT_JINJA_OPERATIONS_H_
#define LORICA_TEXT_JINJA_OPERATIONS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

// Python's name of the value's type: "str", "NoneType"; "Undefined" for undefined values.
std::string TypeName(const Value& value);

// Throws why `value` is undefined, where it is; the operations that jinja2's Undefined refuses
// start with this.
void RequireDefined(const Value& value);

bool Truthy(const Value& value);
// `budget` may be null where neither side is a container.
bool Equals(const Value& a, const Value& b, Budget* budget);
// Negative, 0 or positive; throws where Python has no order between the two. `symbol` names the
// operator in errors. NaN compares as "not less": see Less.
int Compare(const Value& a, const Value& b, absl::string_view symbol, Budget& budget);
bool Less(const Value& a, const Value& b, Budget& budget);  // a < b
// `item in container`.
bool Contains(const Value& container, const Value& item, Budget& budget);

Value Add(const Value& a, const Value& b, Budget& budget);
Value Subtract(const Value& a, const Value& b);
Value Multiply(const Value& a, const Value& b, Budget& budget);
Value Divide(const Value& a, const Value& b);
Value FloorDivide(const Value& a, const Value& b);
Value Modulo(const Value& a, const Value& b, Budget& budget);  // str % arguments included
Value Power(const Value& a, const Value& b);
Value Negate(const Value& a);
Value Plus(const Value& a);

// str(), repr(), and repr() of a float.
std::string Str(const Value& value, Budget& budget);
std::string Repr(const Value& value, Budget& budget);
std::string FloatRepr(double value);
std::string QuoteString(absl::string_view text);

// len(); throws for values without one.
int64_t Length(const Value& value);

// list(value): the items that iteration gives; an iterator is used up. Throws for values that can't
// be iterated over.
List ToList(const Value& value, Budget& budget);
bool IsIterable(const Value& value);

// value[index] without attribute lookup: nothing where Python raises LookupError or TypeError.
bool Subscript(const Value& value, const Value& index, Budget& budget, Value* out);
// value[start:stop:step]; none stands for an absent bound.
Value Slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget);

// Throws for values that can't be keys of a dict.
void RequireHashable(const Value& value);

// json.dumps; as the public ToJson, but it throws and charges.
std::string ToJson(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_OPERATIONS_H_
