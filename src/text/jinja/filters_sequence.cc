// Filters on lists, dicts and other things that can be iterated over.
#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "lorica/text/jinja/attribute_path.h"
#include "lorica/text/jinja/generator.h"
#include "lorica/text/jinja/objects.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

AttributePath::AttributePath(const Value& path, Interpreter& interpreter)
    : interpreter_(interpreter) {
  if (path.is_none()) return;
  if (!path.is_string()) {
    parts_.push_back(path);
    return;
  }
  interpreter.budget().Bytes(static_cast<int64_t>(path.as_string().size()));
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(path.as_string(), '.'))) {
    int64_t index = 0;
    const bool is_index =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (is_index && absl::SimpleAtoi(part, &index)) {
      parts_.emplace_back(index);
    } else {
      parts_.emplace_back(part);
    }
  }
}

Value AttributePath::Of(const Value& item, const Value& fallback) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = interpreter_.GetItem(value, part);
    if (value.is_undefined() && !fallback.is_none()) value = fallback;
  }
  return value;
}

Value CaseFolded(const Value& value, bool case_sensitive, Budget& budget) {
  if (case_sensitive || !value.is_string()) return value;
  budget.Bytes(static_cast<int64_t>(value.as_string().size()));
  return ToLower(value.as_string());
}

namespace {

Value Count(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("length", arguments, {});
  if (input.is_string()) {
    interpreter.budget().Step(static_cast<int64_t>(input.as_string().size() / 64));
  }
  return Length(input);
}

Value First(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("first", arguments, {});
  if (input.kind() == Value::Kind::kIterator) {
    Iterator& iterator = input.as_iterator();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    if (!iterator.error.empty()) Raise(iterator.error);
  } else {
    List items = ToList(input, interpreter.budget());
    if (!items.empty()) return items.front();
  }
  return Value::Undefined("No first item, sequence was empty.");
}

Value Last(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("last", arguments, {});
  if (input.kind() == Value::Kind::kIterator || !IsIterable(input)) {
    Raise("'", TypeName(input), "' object is not reversible");
  }
  List items = ToList(input, interpreter.budget());
  return items.empty() ? Value::Undefined("No last item, sequence was empty.") : items.back();
}

Value MakeList(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("list", arguments, {});
  return ToList(input, interpreter.budget());
}

List ItemPairs(const Dict& dict, Budget& budget) {
  budget.Bytes(static_cast<int64_t>(dict.size() * 4 * sizeof(Value)));
  List pairs;
  for (const auto& [key, value] : dict.entries()) pairs.push_back(Value::Tuple({key, value}));
  return pairs;
}

Value Items(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("items", arguments, {});
  return MakeGenerator([&](List* pairs) {
    if (input.is_undefined()) return;
    if (!input.is_dict()) Raise("Can only get item pairs from a mapping.");
    *pairs = ItemPairs(input.as_dict(), interpreter.budget());
  });
}

// Sorts `items` stably by `keys`, which are of the same number.
List SortedBy(const List& items, const List& keys, bool reverse, Budget& budget) {
  budget.Bytes(static_cast<int64_t>(items.size() * (sizeof(size_t) + sizeof(Value))));
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? Less(keys[b], keys[a], budget) : Less(keys[a], keys[b], budget);
  });
  List sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

Value DictSort(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  Budget& budget = interpreter.budget();
  const std::string by = bound.Has(1) ? Str(bound[1], budget) : "key";
  if (by != "key" && by != "value") Raise("You can only sort by either \"key\" or \"value\"");
  RequireDefined(input);
  if (!input.is_dict()) Raise("'", TypeName(input), "' object has no attribute 'items'");
  const List pairs = ItemPairs(input.as_dict(), budget);
  List keys;
  for (const Value& pair : pairs) {
    keys.push_back(CaseFolded(pair.as_list()[by == "key" ? 0 : 1], bound.Truth(0, false), budget));
  }
  return SortedBy(pairs, keys, bound.Truth(2, false), budget);
}

Value Sort(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Budget& budget = interpreter.budget();
  std::vector<AttributePath> paths;  // several, joined by commas
  if (bound[2].is_string()) {
    for (const std::string& path :
         std::vector<std::string>(absl::StrSplit(bound[2].as_string(), ','))) {
      paths.emplace_back(Value(path), interpreter);
    }
  } else {
    paths.emplace_back(bound[2], interpreter);
  }
  const List items = ToList(input, budget);
  List keys;
  for (const Value& item : items) {
    List key;
    for (const AttributePath& path : paths) {
      key.push_back(CaseFolded(path.Of(item), bound.Truth(1, false), budget));
    }
    keys.emplace_back(std::move(key));
  }
  return SortedBy(items, keys, bound.Truth(0, false), budget);
}

Value Unique(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  return MakeGenerator([&](List* kept) {
    Budget& budget = interpreter.budget();
    const AttributePath path(bound[1], interpreter);
    Dict seen;
    for (const Value& item : ToList(input, budget)) {
      const Value key = CaseFolded(path.Of(item), bound.Truth(0, false), budget);
      RequireHashable(key);
      if (seen.Find(key) != nullptr) continue;
      seen.Set(key, nullptr);
      kept->push_back(item);
    }
  });
}

Value Extreme(Interpreter& interpreter, const Value& input, const CallArguments& arguments,
              bool largest) {
  const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  Budget& budget = interpreter.budget();
  const AttributePath path(bound[1], interpreter);
  const List items = ToList(input, budget);
  if (items.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    return CaseFolded(path.Of(item), bound.Truth(0, false), budget);
  };
  Value best = items[0];
  Value best_key = key_of(best);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(items[i]);
    if (largest ? Less(best_key, key, budget) : Less(key, best_key, budget)) {
      best = items[i];
      best_key = std::move(key);
    }
  }
  return best;
}

Value Min(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Extreme(interpreter, input, arguments, false);
}

Value Max(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Extreme(interpreter, input, arguments, true);
}

Value Reverse(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("reverse", arguments, {});
  Budget& budget = interpreter.budget();
  if (input.is_string()) return Slice(input, nullptr, nullptr, -1, budget);
  if (!IsIterable(input)) Raise("argument must be iterable");
  List items = ToList(input, budget);
  std::reverse(items.begin(), items.end());
  // Python's reversed() takes no generators; those come back as a list.
  if (input.kind() == Value::Kind::kIterator) return items;
  const bool is_list = input.is_list();
  return Value::FromIterator(is_list ? "list_reverseiterator" : "reversed", std::move(items));
}

Value Batch(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  return MakeGenerator([&](List* batches) {
    Budget& budget = interpreter.budget();
    const List items = ToList(input, budget);
    const auto size = static_cast<size_t>(std::max<int64_t>(bound.Int(0, 1), 0));
    List current;
    for (const Value& item : items) {
      if (current.size() == size) {  // a size of 0 gives one empty batch first
        batches->emplace_back(std::exchange(current, {}));
      }
      current.push_back(item);
    }
    if (current.empty()) return;
    if (bound.Has(1) && !bound[1].is_none() && current.size() < size) {
      budget.Bytes(static_cast<int64_t>(std::min(size, size_t{1} << 40) * sizeof(Value)));
      current.resize(size, bound[1]);
    }
    batches->emplace_back(std::move(current));
  });
}

Value Columns(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  return MakeGenerator([&](List* columns) {
    Budget& budget = interpreter.budget();
    const List items = ToList(input, budget);
    const int64_t slices = bound.Int(0, 1);
    if (slices == 0) Raise("integer division or modulo by zero");
    if (slices < 0) return;
    budget.Bytes(std::min<int64_t>(slices, int64_t{1} << 40) * static_cast<int64_t>(sizeof(Value)));
    const auto size = static_cast<int64_t>(items.size());
    const int64_t each = size / slices;
    const int64_t longer = size % slices;
    auto at = items.begin();
    for (int64_t i = 0; i < slices; ++i) {
      const auto end = at + static_cast<ptrdiff_t>(each + (i < longer));
      List column(at, end);
      if (bound.Has(1) && !bound[1].is_none() && i >= longer) column.push_back(bound[1]);
      columns->emplace_back(std::move(column));
      at = end;
    }
  });
}

Value Sum(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Budget& budget = interpreter.budget();
  const AttributePath path(bound[0], interpreter);
  Value sum = bound.Has(1) ? bound[1] : Value(0);
  if (sum.is_string()) Raise("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : ToList(input, budget)) sum = Add(sum, path.Of(item), budget);
  return sum;
}

Value Join(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  Budget& budget = interpreter.budget();
  const std::string separator = bound.Has(0) ? Str(bound[0], budget) : "";
  const AttributePath path(bound[1], interpreter);
  std::string out;
  bool first = true;
  for (const Value& item : ToList(input, budget)) {
    if (!first) out += separator;
    first = false;
    out += Str(path.Of(item), budget);
    budget.Bytes(static_cast<int64_t>(separator.size()));
  }
  return out;
}

Value GroupBy(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  Budget& budget = interpreter.budget();
  const AttributePath path(bound[0], interpreter);
  const bool case_sensitive = bound.Truth(2, false);
  const auto key_of = [&](const Value& item) {
    return CaseFolded(path.Of(item, bound[1]), case_sensitive, budget);
  };
  const List items = ToList(input, budget);
  List keys;
  for (const Value& item : items) keys.push_back(key_of(item));
  List groups;
  List current;
  Value current_key;
  const auto finish = [&] {
    if (current.empty()) return;
    const Value grouper = case_sensitive ? current_key : path.Of(current[0], bound[1]);
    groups.push_back(Value::Tuple({grouper, Value(std::exchange(current, {}))}));
  };
  for (const Value& item : SortedBy(items, keys, false, budget)) {
    Value key = key_of(item);
    if (!current.empty() && !Equals(key, current_key, &budget)) finish();
    current_key = std::move(key);
    current.push_back(item);
  }
  finish();
  return groups;
}

Value Default(Interpreter&, const Value& input, const CallArguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool replaces = input.is_undefined() || (bound.Truth(1, false) && !Truthy(input));
  if (!replaces) return input;
  return bound.Has(0) ? bound[0] : Value("");
}

// Unlike `value.name`, never an item of a dict.
Value Attribute(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  if (!bound[0].is_string()) Raise("attribute name must be string, not '", TypeName(bound[0]), "'");
  const std::string& name = bound[0].as_string();
  RequireDefined(input);
  if (input.is_object() || FindMethod(input, name) != nullptr) {
    return interpreter.GetAttribute(input, name);
  }
  return Value::Undefined(
      absl::StrCat("'", TypeName(input), " object' has no attribute '", name, "'"));
}

constexpr NamedFunction<FilterFunction> kFilters[] = {
    {"length", Count},  {"count", Count},     {"default", Default}, {"d", Default},
    {"join", Join},     {"first", First},     {"last", Last},       {"list", MakeList},
    {"items", Items},   {"reverse", Reverse}, {"sort", Sort},       {"dictsort", DictSort},
    {"unique", Unique}, {"min", Min},         {"max", Max},         {"sum", Sum},
    {"batch", Batch},   {"slice", Columns},   {"groupby", GroupBy}, {"attr", Attribute},
};

}  // namespace

FilterFunction FindSequenceFilter(absl::string_view name) { return FindIn(kFilters, name); }

}  // namespace lorica::jinja
