// len(), list(), subscripts and slices.
#include <algorithm>

#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

using Kind = Value::Kind;

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
      if (!iterator.error.empty()) Raise(iterator.error);
      return items;
    }
    default:
      Raise("'", TypeName(value), "' object is not iterable");
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
