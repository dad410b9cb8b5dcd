#include "lorica/io/json_file.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Input for the parser that leaves a trace of how far it got, since its events carry no position.
class TracedIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  TracedIterator(const char* at, const char** trace) : at_(at), trace_(trace) {}
  reference operator*() const { return *at_; }
  TracedIterator& operator++() {
    *trace_ = ++at_;
    return *this;
  }
  TracedIterator operator++(int) {
    TracedIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TracedIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TracedIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** trace_;
};

// Builds the document from the parser's events, within the limits.
template <typename J>
class DocumentBuilder : public nlohmann::json_sax<J> {
 public:
  using typename nlohmann::json_sax<J>::number_integer_t;
  using typename nlohmann::json_sax<J>::number_unsigned_t;
  using typename nlohmann::json_sax<J>::number_float_t;
  using typename nlohmann::json_sax<J>::string_t;
  using typename nlohmann::json_sax<J>::binary_t;

  explicit DocumentBuilder(const JsonOptions& options) : options_(options) {}

  bool null() override { return Put(nullptr) != nullptr; }
  bool boolean(bool value) override { return Put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Put(value) != nullptr;
  }
  bool string(string_t& value) override { return Put(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return Refuse("binary values don't belong into JSON"); }
  bool start_object(std::size_t) override { return Open(J::object()); }
  bool start_array(std::size_t) override { return Open(J::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (options_.unique_keys && open_.back()->contains(name)) {
      return Refuse(absl::StrCat("key ", Quoted(name), " occurs twice in one object"));
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception...] parse error at line 1, column 2: what": the position is told in bytes,
    // for files of one line.
    absl::string_view what = error.what();
    const size_t colon = what.find(": ");
    if (colon != absl::string_view::npos) what.remove_prefix(colon + 2);
    message_ = std::string(what);
    position_ = position;
    return false;
  }

  J Take() { return std::move(root_); }
  const std::string& message() const { return message_; }
  // Of a syntax error; 0 for the builder's own refusals.
  size_t position() const { return position_; }

 private:
  bool Refuse(std::string message) {
    message_ = std::move(message);
    return false;
  }

  template <typename V>
  J* Put(V&& value) {
    if (++values_ > options_.max_values) {
      Refuse(absl::StrCat("expected at most ", options_.max_values, " values"));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = J(std::forward<V>(value));
      return &root_;
    }
    J& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(J(std::forward<V>(value)));
      return &parent.back();
    }
    J& member = parent[key_];
    member = J(std::forward<V>(value));
    return &member;
  }

  bool Open(J container) {
    if (static_cast<int>(open_.size()) >= options_.max_depth) {
      return Refuse(absl::StrCat("nested deeper than ", options_.max_depth, " levels"));
    }
    J* at = Put(std::move(container));
    if (at == nullptr) return false;
    // Stays valid while open: a container's siblings are only added after it is closed.
    open_.push_back(at);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonOptions& options_;
  J root_;
  std::vector<J*> open_;
  string_t key_;
  size_t values_ = 0;
  std::string message_;
  size_t position_ = 0;
};

template <typename J>
absl::StatusOr<J> Parse(absl::string_view text, absl::string_view where,
                        const JsonOptions& options) {
  if (text.size() > options.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected at most ", options.max_bytes,
                                                   " bytes of JSON, found ", text.size()));
  }
  constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const size_t skipped = text.substr(0, 3) == kByteOrderMark ? 3 : 0;
  const char* begin = text.data() + skipped;
  const char* end = text.data() + text.size();
  const char* reached = begin;
  DocumentBuilder<J> builder(options);
  bool done = false;
  try {
    done = J::sax_parse(TracedIterator(begin, &reached), TracedIterator(end, &reached), &builder);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": JSON: ", error.what(), " at byte ", reached - text.data()));
  }
  if (done) return builder.Take();
  // The parser counts bytes from 1 and from behind the mark.
  const size_t position = builder.position() > 0 ? builder.position() - 1 + skipped
                                                 : static_cast<size_t>(reached - text.data());
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": JSON at byte ", position, ": ", builder.message()));
}

absl::StatusOr<std::string> ReadText(const std::string& path, const JsonOptions& options) {
  return PosixFiles().Read(path, options.max_bytes);
}

// Every insertion into an ordered object compares with all its keys: 50,000 of them take about a
// second.
constexpr size_t kMostOrderedValues = 50000;

absl::string_view KindOf(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a fractional number";
    default:
      return "another type";
  }
}

bool ToInt(const Json& json, int64_t* out) {
  if (json.is_number_unsigned()) {
    const uint64_t value = json.get<uint64_t>();
    *out = static_cast<int64_t>(value);
    return value <= static_cast<uint64_t>(INT64_MAX);
  }
  if (json.is_number_integer()) {
    *out = json.get<int64_t>();
    return true;
  }
  if (json.is_number_float()) {
    const double value = json.get<double>();
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (!(value >= -kExact && value <= kExact)) return false;
    *out = static_cast<int64_t>(value);
    return static_cast<double>(*out) == value;
  }
  return false;
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view where,
                               const JsonOptions& options) {
  return Parse<Json>(text, where, options);
}

absl::StatusOr<Json> ReadJsonFile(const std::string& path, const JsonOptions& options) {
  LORICA_ASSIGN_OR_RETURN(const std::string text, ReadText(path, options));
  return Parse<Json>(text, path, options);
}

absl::StatusOr<OrderedJson> ParseOrderedJson(absl::string_view text, absl::string_view where,
                                             JsonOptions options) {
  options.max_values = std::min(options.max_values, kMostOrderedValues);
  return Parse<OrderedJson>(text, where, options);
}

absl::StatusOr<OrderedJson> ReadOrderedJsonFile(const std::string& path, JsonOptions options) {
  LORICA_ASSIGN_OR_RETURN(const std::string text, ReadText(path, options));
  return ParseOrderedJson(text, path, options);
}

absl::StatusOr<std::string> JsonQuoted(absl::string_view text, absl::string_view where) {
  try {
    return Json(std::string(text)).dump();
  } catch (const Json::type_error&) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected valid UTF-8, found ", Quoted(text)));
  }
}

absl::StatusOr<JsonObject> JsonObject::Of(const Json& json, absl::string_view where) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected a JSON object, found ", KindOf(json)));
  }
  return JsonObject(&json, std::string(where), false);
}

const Json* JsonObject::Find(absl::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::Has(absl::string_view key) const { return Find(key) != nullptr; }

std::vector<std::string> JsonObject::Keys() const {
  std::vector<std::string> keys;
  for (const auto& member : json_->items()) keys.push_back(member.key());
  return keys;
}

std::string JsonObject::WhereIs(absl::string_view key) const {
  const std::string quoted = Quoted(key);  // of which the escapes count, not the quotes
  return absl::StrCat(where_, nested_ ? "." : ": ",
                      absl::string_view(quoted).substr(1, quoted.size() - 2));
}

absl::Status JsonObject::Wrong(absl::string_view key, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(WhereIs(key), ": ", message));
}

absl::Status JsonObject::WrongType(absl::string_view key, absl::string_view expected) const {
  const Json* value = Find(key);
  if (value == nullptr) {
    const bool is_null = json_->contains(std::string(key));
    return Wrong(key,
                 absl::StrCat("expected ", expected, is_null ? ", found null" : ", found nothing"));
  }
  // The value itself helps where it is short.
  const std::string text =
      value->is_primitive() ? value->dump(-1, ' ', false, Json::error_handler_t::replace) : "";
  return Wrong(key,
               absl::StrCat("expected ", expected, ", found ", KindOf(*value),
                            text.empty() || text.size() > 80 ? "" : absl::StrCat(" (", text, ")")));
}

absl::StatusOr<std::string> JsonObject::String(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_string()) return WrongType(key, "a string");
  return value->get<std::string>();
}

absl::StatusOr<int64_t> JsonObject::Int(absl::string_view key) const {
  const Json* value = Find(key);
  int64_t result = 0;
  if (value == nullptr || !ToInt(*value, &result)) return WrongType(key, "an integer");
  return result;
}

absl::StatusOr<double> JsonObject::Double(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_number()) return WrongType(key, "a number");
  return value->get<double>();
}

absl::StatusOr<bool> JsonObject::Bool(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_boolean()) return WrongType(key, "true or false");
  return value->get<bool>();
}

absl::StatusOr<JsonObject> JsonObject::Object(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_object()) return WrongType(key, "an object");
  return JsonObject(value, WhereIs(key), true);
}

absl::StatusOr<std::vector<std::string>> JsonObject::Strings(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_array()) return WrongType(key, "an array of strings");
  std::vector<std::string> result;
  result.reserve(value->size());
  for (const Json& element : *value) {
    if (!element.is_string()) {
      return Wrong(key, absl::StrCat("expected an array of strings, found ", KindOf(element),
                                     " at index ", result.size()));
    }
    result.push_back(element.get<std::string>());
  }
  return result;
}

absl::StatusOr<std::vector<int64_t>> JsonObject::Ints(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_array()) return WrongType(key, "an array of integers");
  std::vector<int64_t> result;
  result.reserve(value->size());
  for (const Json& element : *value) {
    int64_t number = 0;
    if (!ToInt(element, &number)) {
      return Wrong(key, absl::StrCat("expected an array of integers, found ", KindOf(element),
                                     " at index ", result.size()));
    }
    result.push_back(number);
  }
  return result;
}

absl::StatusOr<std::vector<double>> JsonObject::Doubles(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_array()) return WrongType(key, "an array of numbers");
  std::vector<double> result;
  result.reserve(value->size());
  for (const Json& element : *value) {
    if (!element.is_number()) {
      return Wrong(key, absl::StrCat("expected an array of numbers, found ", KindOf(element),
                                     " at index ", result.size()));
    }
    result.push_back(element.get<double>());
  }
  return result;
}

absl::StatusOr<std::string> JsonObject::StringOr(absl::string_view key,
                                                 absl::string_view fallback) const {
  return Has(key) ? String(key) : std::string(fallback);
}

absl::StatusOr<int64_t> JsonObject::IntOr(absl::string_view key, int64_t fallback) const {
  return Has(key) ? Int(key) : fallback;
}

absl::StatusOr<double> JsonObject::DoubleOr(absl::string_view key, double fallback) const {
  return Has(key) ? Double(key) : fallback;
}

absl::StatusOr<bool> JsonObject::BoolOr(absl::string_view key, bool fallback) const {
  return Has(key) ? Bool(key) : fallback;
}

}  // namespace lorica
