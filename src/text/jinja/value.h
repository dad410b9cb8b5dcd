// The values of the template language: what Python's jinja2 would hold as None, bool, int, float,
// str, list, tuple, dict, range, dictionary views, generators and callables.
//
// A Value is a cheap handle (copying shares its payload). Strings, lists, tuples and dicts never
// change after they are made, so they are shared between threads and renders freely; iterators and
// objects (namespaces, loops, macros) belong to one render.
#ifndef LORICA_TEXT_JINJA_VALUE_H_
#define LORICA_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica::jinja {

class Dict;
class Object;
class Value;

using List = std::vector<Value>;

// Arithmetic progression as Python's range(); `step` is never 0.
struct Range {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t size() const;
  int64_t at(int64_t index) const {  // in unsigned arithmetic: index * step alone may not fit
    return static_cast<int64_t>(static_cast<uint64_t>(start) +
                                static_cast<uint64_t>(index) * static_cast<uint64_t>(step));
  }
};

// A view of a dictionary, as dict.items(): has a length and can be iterated over again and again,
// not subscripted.
struct View {
  std::string type_name;  // "dict_items"
  List items;
};

// What generators and iterators give: every item once. `next` advances through all handles.
struct Iterator {
  std::string type_name;  // "generator"
  List items;
  size_t next = 0;
  std::string error;  // what asking for more than the items raises; empty: they simply end
};

class Value {
 public:
  enum class Kind : uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kTuple,
    kDict,
    kRange,
    kView,
    kIterator,
    kObject,
  };

  // Nesting beyond which a list, tuple or dict refuses to be made (lorica::Error).
  static constexpr int kMaxNesting = 256;

  Value() = default;  // undefined, without a story
  Value(std::nullptr_t) : kind_(Kind::kNone) {}
  Value(bool value) : kind_(Kind::kBool), int_(value) {}
  Value(int value) : kind_(Kind::kInt), int_(value) {}
  Value(int64_t value) : kind_(Kind::kInt), int_(value) {}
  Value(double value) : kind_(Kind::kFloat), float_(value) {}
  Value(std::string value);
  Value(absl::string_view value);
  Value(const char* value);
  Value(List items);
  Value(Dict dict);

  // `why` is what an operation on the undefined value will say: "'name' is undefined".
  static Value Undefined(std::string why);
  static Value Tuple(List items);
  static Value FromRange(Range range);
  static Value FromView(std::string type_name, List items);
  static Value FromIterator(std::string type_name, List items, std::string error = "");
  static Value FromObject(std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_integral() const { return is_int() || is_bool(); }  // Python: isinstance(x, int)
  bool is_number() const { return is_integral() || is_float(); }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_tuple() const { return kind_ == Kind::kTuple; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_object() const { return kind_ == Kind::kObject; }

  // The accessors below require the matching kind (checked in debug builds).
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }  // kBool and kInt
  double as_double() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  const std::string& as_string() const;
  const List& as_list() const;  // kList and kTuple
  const Dict& as_dict() const;
  const Range& as_range() const;
  const View& as_view() const;
  Iterator& as_iterator() const;
  Object& as_object() const;
  const std::shared_ptr<void>& payload() const { return payload_; }
  // Why this value is undefined; for kUndefined only.
  std::string undefined_reason() const;

  // The value under a string key of a dict; undefined where this is no dict or the key is absent.
  Value Get(absl::string_view key) const;

  // Levels of lists, tuples and dicts: 0 for a scalar, 1 for a list of scalars.
  int nesting() const;

 private:
  Kind kind_ = Kind::kUndefined;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<void> payload_;
};

// An ordered dictionary: iteration follows insertion, as Python's. Keys are hashable values (no
// list, no dict).
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  Dict() = default;
  // `entries` in insertion order; of equal keys the first keeps its place and takes the last one's
  // value.
  explicit Dict(std::vector<Entry> entries);

  // Adds the key at the end or replaces its value in place.
  void Set(Value key, Value value);

  // Null where the key is absent. Numbers compare across types (1, 1.0 and true are one key), as in
  // Python.
  const Value* Find(const Value& key) const;
  const Value* FindText(absl::string_view key) const;  // of a string key

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

 private:
  size_t IndexOf(const Value& key, size_t hash) const;
  void BuildIndex();

  std::vector<Entry> entries_;
  // Open-addressed table of entry positions + 1; empty while the dict is small enough for a linear
  // search.
  std::vector<uint32_t> table_;
};

// ---- JSON
// ------------------------------------------------------------------------------------------------------

// Parses one JSON document, keeping the order of keys. Strings are checked to be UTF-8. Integers
// beyond 64 bits become floats. Errors: InvalidArgument that names the byte offset; nesting beyond
// Value::kMaxNesting is one.
absl::StatusOr<Value> ParseJson(absl::string_view text);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool pretty = false;                // one item per line, each level indented by `indent`
  std::string indent;                 // pretty only
  std::string item_separator = ", ";  // "," where pretty
  std::string key_separator = ": ";
};

// Python's json.dumps. Errors: InvalidArgument for values that JSON doesn't have.
absl::StatusOr<std::string> ToJson(const Value& value, const JsonStyle& style = {});

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_VALUE_H_
