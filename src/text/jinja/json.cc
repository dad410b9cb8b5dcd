// JSON in (through nlohmann's event parser, which needs no recursion and no quadratic object) and
// out (as Python's json.dumps).
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

namespace {

using Json = nlohmann::json;

// Builds Values from the parser's events; the open lists and dicts stand on a stack.
class ValueBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(int64_t value) override { return Put(value); }
  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Put(static_cast<double>(value));
    return Put(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string&) override { return Put(value); }
  bool string(std::string& value) override { return Put(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(true); }
  bool start_array(size_t) override { return Open(false); }
  bool key(std::string& value) override {
    open_.back().key = Value(std::move(value));
    return true;
  }
  bool end_object() override {
    Dict dict = std::move(open_.back().dict);
    open_.pop_back();
    return Put(std::move(dict));
  }
  bool end_array() override {
    List list = std::move(open_.back().list);
    open_.pop_back();
    return Put(std::move(list));
  }
  bool parse_error(size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    // nlohmann's text: "[json.exception...] parse error at line 1, column 5: syntax error while ...
    // - <what>".
    absl::string_view what = error.what();
    const size_t dash = what.find(" - ");
    if (dash != absl::string_view::npos) what.remove_prefix(dash + 3);
    error_ = absl::StrCat("invalid JSON at byte ", position == 0 ? 0 : position - 1, ": ", what);
    return false;
  }

  const std::string& error() const { return error_; }
  Value& root() { return root_; }

 private:
  struct OpenContainer {
    bool is_dict;
    Dict dict;
    List list;
    Value key;
  };

  bool Open(bool is_dict) {
    if (open_.size() >= static_cast<size_t>(Value::kMaxNesting)) {
      error_ = absl::StrCat("JSON nests more than ", Value::kMaxNesting, " levels");
      return false;
    }
    open_.push_back({is_dict, {}, {}, {}});
    return true;
  }

  template <typename T>
  bool Put(T value) {
    if (open_.empty()) {
      root_ = Value(std::move(value));
    } else if (open_.back().is_dict) {
      open_.back().dict.Set(std::move(open_.back().key), Value(std::move(value)));
    } else {
      open_.back().list.emplace_back(std::move(value));
    }
    return true;
  }

  std::vector<OpenContainer> open_;
  Value root_;
  std::string error_;
};

void AppendJsonString(absl::string_view text, bool ensure_ascii, std::string* out) {
  *out += '"';
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const uint32_t c = NextCodePoint(text, &i);
    switch (c) {
      case '"':
        *out += "\\\"";
        continue;
      case '\\':
        *out += "\\\\";
        continue;
      case '\n':
        *out += "\\n";
        continue;
      case '\r':
        *out += "\\r";
        continue;
      case '\t':
        *out += "\\t";
        continue;
      case '\f':
        *out += "\\f";
        continue;
      case '\b':
        *out += "\\b";
        continue;
      default:
        break;
    }
    if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
      absl::StrAppendFormat(out, "\\u%04x", c);
    } else if (ensure_ascii && c >= 0x10000) {
      const uint32_t high = 0xD800 + ((c - 0x10000) >> 10);
      const uint32_t low = 0xDC00 + ((c - 0x10000) & 0x3FF);
      absl::StrAppendFormat(out, "\\u%04x\\u%04x", high, low);
    } else {
      out->append(text.data() + begin, i - begin);
    }
  }
  *out += '"';
}

std::string JsonFloat(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return FloatRepr(value);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void Write(const Value& value) {
    budget_.Step();
    const size_t before = out_.size();
    switch (value.kind()) {
      case Value::Kind::kNone:
        out_ += "null";
        break;
      case Value::Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        break;
      case Value::Kind::kInt:
        absl::StrAppend(&out_, value.as_int());
        break;
      case Value::Kind::kFloat:
        out_ += JsonFloat(value.as_double());
        break;
      case Value::Kind::kString:
        AppendJsonString(value.as_string(), style_.ensure_ascii, &out_);
        break;
      case Value::Kind::kList:
      case Value::Kind::kTuple:
        WriteList(value.as_list());
        return;
      case Value::Kind::kDict:
        WriteDict(value.as_dict());
        return;
      default:
        Raise("Object of type ", TypeName(value), " is not JSON serializable");
    }
    budget_.Bytes(static_cast<int64_t>(out_.size() - before));
  }

  std::string Take() { return std::move(out_); }

 private:
  void BreakLine() {
    if (!style_.pretty) return;
    budget_.Bytes(static_cast<int64_t>(1 + style_.indent.size() * level_));
    out_ += '\n';
    for (size_t i = 0; i < level_; ++i) out_ += style_.indent;
  }

  void Separate(bool first) {
    if (!first) out_ += style_.item_separator;
    BreakLine();
  }

  void WriteList(const List& items) {
    out_ += '[';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      Separate(i == 0);
      Write(items[i]);
    }
    --level_;
    if (!items.empty()) BreakLine();
    out_ += ']';
  }

  static std::string KeyText(const Value& key) {
    switch (key.kind()) {
      case Value::Kind::kString:
        return key.as_string();
      case Value::Kind::kNone:
        return "null";
      case Value::Kind::kBool:
        return key.as_bool() ? "true" : "false";
      case Value::Kind::kInt:
        return absl::StrCat(key.as_int());
      case Value::Kind::kFloat:
        return JsonFloat(key.as_double());
      default:
        Raise("keys must be str, int, float, bool or None, not ", TypeName(key));
    }
  }

  void WriteDict(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const Dict::Entry* a, const Dict::Entry* b) {
                         return Less(a->first, b->first, budget_);
                       });
    }
    out_ += '{';
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      Separate(i == 0);
      AppendJsonString(KeyText(entries[i]->first), style_.ensure_ascii, &out_);
      out_ += style_.key_separator;
      Write(entries[i]->second);
    }
    --level_;
    if (!entries.empty()) BreakLine();
    out_ += '}';
  }

  const JsonStyle& style_;
  Budget& budget_;
  size_t level_ = 0;
  std::string out_;
};

}  // namespace

absl::StatusOr<Value> ParseJson(absl::string_view text) {
  ValueBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(builder.error().empty() ? "invalid JSON" : builder.error());
  }
  return std::move(builder.root());
}

std::string ToJson(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.Write(value);
  return writer.Take();
}

absl::StatusOr<std::string> ToJson(const Value& value, const JsonStyle& style) {
  Budget budget(RenderLimits{});
  try {
    return ToJson(value, style, budget);
  } catch (const TemplateError& error) {
    return absl::InvalidArgumentError(error.what());
  } catch (const LimitError& error) {
    return absl::ResourceExhaustedError(error.what());
  }
}

}  // namespace lorica::jinja
