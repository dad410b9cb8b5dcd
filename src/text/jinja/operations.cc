#include "lorica/text/jinja/operations.h"

#include <algorithm>
#include <cmath>

#include "lorica/text/jinja/object.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

using Kind = Value::Kind;

std::string TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return value.as_view().type_name;
    case Kind::kIterator:
      return value.as_iterator().type_name;
    case Kind::kObject:
      return value.as_object().type_name();
  }
  return "object";
}

void RequireDefined(const Value& value) {
  if (value.is_undefined()) Raise(value.undefined_reason());
}

bool Truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0;
    case Kind::kString:
      return !value.as_string().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.as_list().empty();
    case Kind::kDict:
      return !value.as_dict().empty();
    case Kind::kRange:
      return value.as_range().size() != 0;
    case Kind::kView:
      return !value.as_view().items.empty();
    case Kind::kIterator:  // a generator is true, whatever it will give
    case Kind::kObject:
      return true;
  }
  return false;
}

namespace {

// Exact for every pair of 64-bit integers and doubles: x86's long double has 64 bits of mantissa,
// other platforms' more.
int CompareNumbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  }
  const auto widen = [](const Value& v) {
    return v.is_float() ? static_cast<long double>(v.as_double())
                        : static_cast<long double>(v.as_int());
  };
  const long double x = widen(a);
  const long double y = widen(b);
  return x < y ? -1 : x > y;
}

bool IsNan(const Value& value) {
  return value.is_float() && value.as_double() != value.as_double();
}

bool ListsEqual(const List& a, const List& b, Budget* budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Equals(a[i], b[i], budget)) return false;
  }
  return true;
}

bool DictsEqual(const Dict& a, const Dict& b, Budget* budget) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.Find(key);
    if (other == nullptr || !Equals(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

bool Equals(const Value& a, const Value& b, Budget* budget) {
  if (budget != nullptr) budget->Step();
  if (a.is_number() && b.is_number()) {
    return !IsNan(a) && !IsNan(b) && CompareNumbers(a, b) == 0;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (budget != nullptr) budget->Step(static_cast<int64_t>(a.as_string().size() / 256));
      return a.as_string() == b.as_string();
    case Kind::kList:
    case Kind::kTuple:
      return a.payload() == b.payload() || ListsEqual(a.as_list(), b.as_list(), budget);
    case Kind::kDict:
      return a.payload() == b.payload() || DictsEqual(a.as_dict(), b.as_dict(), budget);
    case Kind::kRange: {
      const Range& x = a.as_range();
      const Range& y = b.as_range();
      if (x.size() != y.size()) return false;
      return x.size() == 0 || (x.start == y.start && (x.size() == 1 || x.step == y.step));
    }
    default:
      return a.payload() == b.payload();
  }
}

int Compare(const Value& a, const Value& b, absl::string_view symbol, Budget& budget) {
  budget.Step();
  RequireDefined(a);
  RequireDefined(b);
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b);
  if (a.is_string() && b.is_string()) {
    budget.Step(static_cast<int64_t>(std::min(a.as_string().size(), b.as_string().size()) / 256));
    const int order = a.as_string().compare(b.as_string());  // UTF-8 keeps the order of code points
    return order < 0 ? -1 : order > 0;
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const List& x = a.as_list();
    const List& y = b.as_list();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!Equals(x[i], y[i], &budget)) return Compare(x[i], y[i], symbol, budget);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  Raise("'", symbol, "' not supported between instances of '", TypeName(a), "' and '", TypeName(b),
        "'");
}

bool Less(const Value& a, const Value& b, Budget& budget) { return Compare(a, b, "<", budget) < 0; }

bool Contains(const Value& container, const Value& item, Budget& budget) {
  budget.Step();
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.is_string()) {
        RequireDefined(item);
        Raise("'in <string>' requires string as left operand, not ", TypeName(item));
      }
      budget.Step(static_cast<int64_t>(container.as_string().size() / 64));
      return container.as_string().find(item.as_string()) != std::string::npos;
    case Kind::kDict:
      RequireHashable(item);
      return container.as_dict().Find(item) != nullptr;
    case Kind::kRange: {
      const Range& range = container.as_range();
      if (!item.is_number()) return false;
      constexpr double kBeyondInt64 = 9.2e18;
      const double number = item.as_double();
      if (item.is_float() && !(std::fabs(number) < kBeyondInt64 && number == std::trunc(number))) {
        return false;
      }
      const int64_t n = item.is_float() ? static_cast<int64_t>(number) : item.as_int();
      const auto distance = [](int64_t from, int64_t to) {
        return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
      };
      if (range.step > 0) {
        return n >= range.start && n < range.stop &&
               distance(range.start, n) % static_cast<uint64_t>(range.step) == 0;
      }
      return n <= range.start && n > range.stop &&
             distance(n, range.start) % distance(range.step, 0) == 0;
    }
    case Kind::kIterator: {
      Iterator& iterator = container.as_iterator();
      while (iterator.next < iterator.items.size()) {
        if (Equals(iterator.items[iterator.next++], item, &budget)) return true;
      }
      if (!iterator.error.empty()) Raise(iterator.error);
      return false;
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView: {
      const List& items =
          container.kind() == Kind::kView ? container.as_view().items : container.as_list();
      return std::any_of(items.begin(), items.end(),
                         [&](const Value& v) { return Equals(v, item, &budget); });
    }
    default:
      Raise("argument of type '", TypeName(container), "' is not iterable");
  }
}

void RequireHashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
      Raise("unhashable type: '", TypeName(value), "'");
    case Kind::kTuple:
      // Hashing tuples of tuples of shared tuples could take exponential time; nobody has such
      // keys.
      if (value.nesting() > 1) Raise("a tuple of tuples or lists can't be a key");
      break;
    default:
      break;
  }
}

}  // namespace lorica::jinja
