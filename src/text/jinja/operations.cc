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

int64_t Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CountCodePoints(value.as_string());
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.as_list().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as_dict().size());
    case Kind::kRange:
      return value.as_range().size();
    case Kind::kView:
      return static_cast<int64_t>(value.as_view().items.size());
    default:
      Raise("object of type '", TypeName(value), "' has no len()");
  }
}

bool IsIterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kObject:
      return false;
    default:
      return true;
  }
}

List ToList(const Value& value, Budget& budget) {
  const auto charge = [&budget](size_t items) {
    budget.Bytes(static_cast<int64_t>(items * sizeof(Value)));
    budget.Step(static_cast<int64_t>(items));
  };
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kString: {
      const std::string& text = value.as_string();
      charge(text.size() * 2);  // a character costs an allocation, too
      List items;
      for (size_t i = 0; i < text.size();) {
        const size_t begin = i;
        NextCodePoint(text, &i);
        items.emplace_back(text.substr(begin, i - begin));
      }
      return items;
    }
    case Kind::kList:
    case Kind::kTuple:
      charge(value.as_list().size());
      return value.as_list();
    case Kind::kDict: {
      charge(value.as_dict().size());
      List keys;
      keys.reserve(value.as_dict().size());
      for (const auto& entry : value.as_dict().entries()) keys.push_back(entry.first);
      return keys;
    }
    case Kind::kRange: {
      const Range& range = value.as_range();
      const int64_t size = range.size();
      charge(static_cast<size_t>(size));
      List items;
      items.reserve(static_cast<size_t>(size));
      for (int64_t i = 0; i < size; ++i) items.emplace_back(range.at(i));
      return items;
    }
    case Kind::kView:
      charge(value.as_view().items.size());
      return value.as_view().items;
    case Kind::kIterator: {
      Iterator& iterator = value.as_iterator();
      charge(iterator.items.size() - iterator.next);
      List items(iterator.items.begin() + static_cast<ptrdiff_t>(iterator.next),
                 iterator.items.end());
      iterator.next = iterator.items.size();
      return items;
    }
    default:
      Raise("'", TypeName(value), "' object is not iterable");
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

namespace {

// Position of `index` (from the end where negative) in a sequence of `size`; false where out of
// range.
bool Locate(int64_t index, int64_t size, int64_t* position) {
  if (index < 0) index += size;
  *position = index;
  return index >= 0 && index < size;
}

}  // namespace

bool Subscript(const Value& value, const Value& index, Budget& budget, Value* out) {
  RequireDefined(value);
  int64_t position = 0;
  switch (value.kind()) {
    case Kind::kDict: {
      if (index.is_list() || index.is_dict() || (index.is_tuple() && index.nesting() > 1)) {
        return false;
      }
      const Value* found = value.as_dict().Find(index);
      if (found == nullptr) return false;
      *out = *found;
      return true;
    }
    case Kind::kList:
    case Kind::kTuple: {
      const List& items = value.as_list();
      if (!index.is_integral() ||
          !Locate(index.as_int(), static_cast<int64_t>(items.size()), &position)) {
        return false;
      }
      *out = items[static_cast<size_t>(position)];
      return true;
    }
    case Kind::kRange: {
      if (!index.is_integral() || !Locate(index.as_int(), value.as_range().size(), &position)) {
        return false;
      }
      *out = value.as_range().at(position);
      return true;
    }
    case Kind::kString: {
      if (!index.is_integral()) return false;
      const std::string& text = value.as_string();
      budget.Step(static_cast<int64_t>(text.size() / 64));
      if (IsAscii(text)) {
        if (!Locate(index.as_int(), static_cast<int64_t>(text.size()), &position)) return false;
        *out = Value(std::string(1, text[static_cast<size_t>(position)]));
        return true;
      }
      const std::vector<uint32_t> offsets = CodePointOffsets(text);
      if (!Locate(index.as_int(), static_cast<int64_t>(offsets.size()) - 1, &position))
        return false;
      const auto at = static_cast<size_t>(position);
      *out = Value(text.substr(offsets[at], offsets[at + 1] - offsets[at]));
      return true;
    }
    default:
      return false;
  }
}

namespace {

int64_t SliceBound(const Value& bound, int64_t fallback) {
  if (bound.is_none()) return fallback;
  RequireDefined(bound);
  if (!bound.is_integral()) {
    Raise("slice indices must be integers or None or have an __index__ method");
  }
  return bound.as_int();
}

// The indices that Python's slice(start, stop, step) takes from a sequence of `size`.
Range SliceRange(int64_t size, const Value& start, const Value& stop, const Value& step) {
  Range range;
  range.step = SliceBound(step, 1);
  if (range.step == 0) Raise("slice step cannot be zero");
  // Beyond the size every step is alike, and a bounded one can't overflow.
  range.step = std::clamp<int64_t>(range.step, -(size + 1), size + 1);
  const bool forward = range.step > 0;
  const auto clamp = [&](const Value& bound, int64_t fallback) {
    if (bound.is_none()) return fallback;
    int64_t at = SliceBound(bound, 0);
    if (at < 0) at = at < -size ? -1 : at + size;
    return forward ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  range.start = clamp(start, forward ? 0 : size - 1);
  range.stop = clamp(stop, forward ? size : -1);
  return range;
}

}  // namespace

Value Slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget) {
  RequireDefined(value);
  if (value.is_string()) {
    const std::string& text = value.as_string();
    budget.Bytes(static_cast<int64_t>(text.size()));
    if (IsAscii(text)) {
      const Range range = SliceRange(static_cast<int64_t>(text.size()), start, stop, step);
      if (range.step == 1) {
        return text.substr(static_cast<size_t>(range.start), static_cast<size_t>(range.size()));
      }
      std::string out;
      for (int64_t i = 0; i < range.size(); ++i) out += text[static_cast<size_t>(range.at(i))];
      return out;
    }
    budget.Bytes(static_cast<int64_t>(text.size() * sizeof(uint32_t)));
    const std::vector<uint32_t> offsets = CodePointOffsets(text);
    const Range range = SliceRange(static_cast<int64_t>(offsets.size()) - 1, start, stop, step);
    std::string out;
    for (int64_t i = 0; i < range.size(); ++i) {
      const auto at = static_cast<size_t>(range.at(i));
      out.append(text, offsets[at], offsets[at + 1] - offsets[at]);
    }
    return out;
  }
  if (value.is_list() || value.is_tuple()) {
    const List& items = value.as_list();
    const Range range = SliceRange(static_cast<int64_t>(items.size()), start, stop, step);
    budget.Bytes(range.size() * static_cast<int64_t>(sizeof(Value)));
    List out;
    out.reserve(static_cast<size_t>(range.size()));
    for (int64_t i = 0; i < range.size(); ++i)
      out.push_back(items[static_cast<size_t>(range.at(i))]);
    return value.is_tuple() ? Value::Tuple(std::move(out)) : Value(std::move(out));
  }
  if (value.kind() == Kind::kRange) {
    const Range& whole = value.as_range();
    const Range range = SliceRange(whole.size(), start, stop, step);
    int64_t stride = 0;
    if (__builtin_mul_overflow(whole.step, range.step, &stride)) {
      Raise("integer overflow: the step of the range needs more than 64 bits");
    }
    return Value::FromRange({whole.at(range.start), whole.at(range.stop), stride});
  }
  if (value.is_dict()) Raise("unhashable type: 'slice'");
  Raise("'", TypeName(value), "' object is not subscriptable");
}

}  // namespace lorica::jinja
