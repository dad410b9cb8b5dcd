// Methods of dicts, lists, tuples, ranges and numbers: those that change nothing.
#include <algorithm>
#include <cmath>

#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

namespace {

using Arguments = CallArguments;

// ---- dict

Value Get(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  RequireHashable(bound[0]);
  const Value* found = self.as_dict().Find(bound[0]);
  return found == nullptr ? bound[1] : *found;
}

Value Items(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  in.budget().Bytes(static_cast<int64_t>(self.as_dict().size() * 4 * sizeof(Value)));
  List items;
  for (const auto& [key, value] : self.as_dict().entries()) {
    items.push_back(Value::Tuple({key, value}));
  }
  return Value::FromView("dict_items", std::move(items));
}

Value Keys(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("keys", arguments, {});
  return Value::FromView("dict_keys", ToList(self, in.budget()));
}

Value Values(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("values", arguments, {});
  in.budget().Bytes(static_cast<int64_t>(self.as_dict().size() * sizeof(Value)));
  List values;
  for (const auto& entry : self.as_dict().entries()) values.push_back(entry.second);
  return Value::FromView("dict_values", std::move(values));
}

// Values never change: the copy may as well be the original.
Value Copy(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound("copy", arguments, {});
  return self;
}

constexpr NamedFunction<MethodFunction> kDictMethods[] = {
    {"get", Get}, {"items", Items}, {"keys", Keys}, {"values", Values}, {"copy", Copy},
};

// ---- list, tuple, range

Value IndexOf(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value", "start", "stop"}, 1);
  const List items = ToList(self, in.budget());
  const auto size = static_cast<int64_t>(items.size());
  const auto clamp = [&](size_t i, int64_t fallback) {
    const int64_t at = bound.Int(i, fallback);
    return std::clamp<int64_t>(at < 0 ? (at < -size ? 0 : at + size) : at, 0, size);
  };
  const int64_t stop = clamp(2, size);
  for (int64_t i = clamp(1, 0); i < stop; ++i) {
    if (Equals(items[static_cast<size_t>(i)], bound[0], &in.budget())) return i;
  }
  Raise(Repr(bound[0], in.budget()), " is not in ", TypeName(self));
}

Value CountOf(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : ToList(self, in.budget())) {
    count += Equals(item, bound[0], &in.budget());
  }
  return count;
}

constexpr NamedFunction<MethodFunction> kSequenceMethods[] = {
    {"index", IndexOf},
    {"count", CountOf},
};

// ---- numbers

Value IsInteger(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound("is_integer", arguments, {});
  return self.as_double() == std::floor(self.as_double()) && std::isfinite(self.as_double());
}

constexpr NamedFunction<MethodFunction> kFloatMethods[] = {
    {"is_integer", IsInteger},
};

}  // namespace

MethodFunction FindContainerMethod(const Value& self, absl::string_view name) {
  switch (self.kind()) {
    case Value::Kind::kDict:
      return FindIn(kDictMethods, name);
    case Value::Kind::kList:
      if (name == "copy") return Copy;
      return FindIn(kSequenceMethods, name);
    case Value::Kind::kTuple:
    case Value::Kind::kRange:
      return FindIn(kSequenceMethods, name);
    case Value::Kind::kFloat:
      return FindIn(kFloatMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace lorica::jinja
