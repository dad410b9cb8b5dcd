#include "lorica/text/jinja/value.h"

#include <algorithm>
#include <functional>

#include "lorica/tensor/check.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/object.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

namespace {

// Payloads that know how deep they nest.
template <typename T>
struct Nested : T {
  explicit Nested(T value, int levels) : T(std::move(value)), nesting(levels) {}
  int nesting;
};

int CheckedNesting(int levels) {
  LORICA_CHECK(levels <= Value::kMaxNesting, "[jinja] lists and dicts nest more than ",
               Value::kMaxNesting, " levels");
  return levels;
}

int NestingOf(const List& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.nesting());
  return CheckedNesting(deepest + 1);
}

int NestingOf(const Dict& dict) {
  int deepest = 0;
  for (const auto& [key, value] : dict.entries()) {
    deepest = std::max({deepest, key.nesting(), value.nesting()});
  }
  return CheckedNesting(deepest + 1);
}

template <typename T>
std::shared_ptr<void> MakeNested(T value, int levels) {
  return std::make_shared<Nested<T>>(std::move(value), levels);
}

template <typename T>
T& Payload(const std::shared_ptr<void>& payload) {
  return *static_cast<Nested<T>*>(payload.get());
}

}  // namespace

int64_t Range::size() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  // In unsigned arithmetic: the distance may not fit the signed type.
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  return static_cast<int64_t>(std::min<uint64_t>((distance - 1) / stride + 1, INT64_MAX));
}

Value::Value(std::string value)
    : kind_(Kind::kString), payload_(std::make_shared<std::string>(std::move(value))) {}

Value::Value(absl::string_view value) : Value(std::string(value)) {}

Value::Value(const char* value) : Value(std::string(value)) {}

Value::Value(List items) : kind_(Kind::kList) {
  const int levels = NestingOf(items);
  payload_ = MakeNested(std::move(items), levels);
}

Value::Value(Dict dict) : kind_(Kind::kDict) {
  const int levels = NestingOf(dict);
  payload_ = MakeNested(std::move(dict), levels);
}

Value Value::Undefined(std::string why) {
  Value value;
  value.payload_ = std::make_shared<std::string>(std::move(why));
  return value;
}

Value Value::Tuple(List items) {
  Value value(std::move(items));
  value.kind_ = Kind::kTuple;
  return value;
}

Value Value::FromRange(Range range) {
  Value value;
  value.kind_ = Kind::kRange;
  value.payload_ = std::make_shared<Range>(range);
  return value;
}

Value Value::FromView(std::string type_name, List items) {
  Value value;
  value.kind_ = Kind::kView;
  const int levels = NestingOf(items);
  value.payload_ = MakeNested(View{std::move(type_name), std::move(items)}, levels);
  return value;
}

Value Value::FromIterator(std::string type_name, List items, std::string error) {
  Value value;
  value.kind_ = Kind::kIterator;
  const int levels = NestingOf(items);
  value.payload_ =
      MakeNested(Iterator{std::move(type_name), std::move(items), 0, std::move(error)}, levels);
  return value;
}

Value Value::FromObject(std::shared_ptr<Object> object) {
  Value value;
  value.kind_ = Kind::kObject;
  CheckedNesting(object->nesting());
  value.payload_ = std::move(object);
  return value;
}

const std::string& Value::as_string() const {
  LORICA_DCHECK(kind_ == Kind::kString);
  return *static_cast<const std::string*>(payload_.get());
}

const List& Value::as_list() const {
  LORICA_DCHECK(kind_ == Kind::kList || kind_ == Kind::kTuple);
  return Payload<List>(payload_);
}

const Dict& Value::as_dict() const {
  LORICA_DCHECK(kind_ == Kind::kDict);
  return Payload<Dict>(payload_);
}

const Range& Value::as_range() const {
  LORICA_DCHECK(kind_ == Kind::kRange);
  return *static_cast<const Range*>(payload_.get());
}

const View& Value::as_view() const {
  LORICA_DCHECK(kind_ == Kind::kView);
  return Payload<View>(payload_);
}

Iterator& Value::as_iterator() const {
  LORICA_DCHECK(kind_ == Kind::kIterator);
  return Payload<Iterator>(payload_);
}

Object& Value::as_object() const {
  LORICA_DCHECK(kind_ == Kind::kObject);
  return *static_cast<Object*>(payload_.get());
}

std::string Value::undefined_reason() const {
  LORICA_DCHECK(kind_ == Kind::kUndefined);
  return payload_ == nullptr ? "the value is undefined"
                             : *static_cast<const std::string*>(payload_.get());
}

Value Value::Get(absl::string_view key) const {
  if (kind_ != Kind::kDict) return Value();
  const Value* found = as_dict().FindText(key);
  return found == nullptr ? Value() : *found;
}

int Value::nesting() const {
  switch (kind_) {
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<Nested<List>*>(payload_.get())->nesting;
    case Kind::kDict:
      return static_cast<Nested<Dict>*>(payload_.get())->nesting;
    case Kind::kView:
      return static_cast<Nested<View>*>(payload_.get())->nesting;
    case Kind::kIterator:
      return static_cast<Nested<Iterator>*>(payload_.get())->nesting;
    case Kind::kObject:
      return as_object().nesting();
    default:
      return 0;
  }
}

// ---- Dict
// --------------------------------------------------------------------------------------------------------

namespace {

// Up to here a linear search wins over hashing (chat messages have 2 to 5 keys).
constexpr size_t kLinearSize = 8;

size_t HashKey(const Value& key) {
  switch (key.kind()) {
    case Value::Kind::kNone:
      return 0x9E3779B9;
    case Value::Kind::kBool:
    case Value::Kind::kInt:
    case Value::Kind::kFloat:
      // 1, 1.0 and true are the same key; integers beyond 2^53 that share a double merely collide.
      return std::hash<double>()(key.as_double() + 0.0);
    case Value::Kind::kString:
      return std::hash<std::string>()(key.as_string());
    case Value::Kind::kTuple: {
      size_t hash = 0x345678;
      for (const Value& item : key.as_list()) hash = hash * 1000003 ^ HashKey(item);
      return hash;
    }
    default:
      return std::hash<const void*>()(key.payload().get());
  }
}

bool SameKey(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return a.as_string() == b.as_string();
  return Equals(a, b, nullptr);
}

}  // namespace

Dict::Dict(std::vector<Entry> entries) {
  entries_.reserve(entries.size());
  for (Entry& entry : entries) Set(std::move(entry.first), std::move(entry.second));
}

void Dict::BuildIndex() {
  size_t capacity = 32;
  while (capacity < 2 * entries_.capacity() + 2) capacity *= 2;
  table_.assign(capacity, 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t slot = HashKey(entries_[i].first) & (capacity - 1);
    while (table_[slot] != 0) slot = (slot + 1) & (capacity - 1);
    table_[slot] = static_cast<uint32_t>(i + 1);
  }
}

size_t Dict::IndexOf(const Value& key, size_t hash) const {
  if (table_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (SameKey(entries_[i].first, key)) return i;
    }
    return entries_.size();
  }
  const size_t mask = table_.size() - 1;
  for (size_t slot = hash & mask; table_[slot] != 0; slot = (slot + 1) & mask) {
    const size_t i = table_[slot] - 1;
    if (SameKey(entries_[i].first, key)) return i;
  }
  return entries_.size();
}

void Dict::Set(Value key, Value value) {
  const size_t hash = table_.empty() ? 0 : HashKey(key);
  const size_t i = IndexOf(key, hash);
  if (i < entries_.size()) {
    entries_[i].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kLinearSize) return;
  if (table_.size() < 2 * entries_.size()) {
    BuildIndex();
    return;
  }
  const size_t mask = table_.size() - 1;
  size_t slot = hash & mask;
  while (table_[slot] != 0) slot = (slot + 1) & mask;
  table_[slot] = static_cast<uint32_t>(entries_.size());
}

const Value* Dict::Find(const Value& key) const {
  const size_t i = IndexOf(key, table_.empty() ? 0 : HashKey(key));
  return i < entries_.size() ? &entries_[i].second : nullptr;
}

const Value* Dict::FindText(absl::string_view key) const {
  if (table_.empty()) {
    for (const Entry& entry : entries_) {
      if (entry.first.is_string() && entry.first.as_string() == key) return &entry.second;
    }
    return nullptr;
  }
  return Find(Value(key));
}

}  // namespace lorica::jinja
