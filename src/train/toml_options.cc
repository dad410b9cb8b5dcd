#include "lorica/train/toml_options.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// A TOML basic string on one line.
std::string TomlText(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          absl::StrAppendFormat(&out, "\\u%04X", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

// The shortest text that reads back as the same bits, with a mark of being a float.
std::string TomlNumber(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string TomlList(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& value : values) {
    absl::StrAppend(&out, out.size() == 1 ? "" : ", ", TomlText(value));
  }
  return out + ']';
}

// Turns every option into (info, text); an absent optional value has no text.
class Formatter : public OptionVisitor {
 public:
  void On(const OptionInfo& info, std::string& value) override { Add(info, TomlText(value)); }
  void On(const OptionInfo& info, std::vector<std::string>& value) override {
    Add(info, TomlList(value));
  }
  void On(const OptionInfo& info, bool& value) override { Add(info, value ? "true" : "false"); }
  void On(const OptionInfo& info, int64_t& value) override { Add(info, absl::StrCat(value)); }
  void On(const OptionInfo& info, double& value) override { Add(info, TomlNumber(value)); }
  void On(const OptionInfo& info, std::optional<int64_t>& value) override {
    Add(info, value.has_value() ? absl::StrCat(*value) : "");
  }
  void On(const OptionInfo& info, std::optional<double>& value) override {
    Add(info, value.has_value() ? TomlNumber(*value) : "");
  }

 private:
  virtual void Add(const OptionInfo& info, std::string text) = 0;
};

class FileFormatter final : public Formatter {
 public:
  std::string text;

 private:
  void Add(const OptionInfo& info, std::string value) override {
    if (info.group != group_) {
      absl::StrAppend(&text, text.empty() ? "" : "\n", "# ", info.group, "\n");
      group_ = info.group;
    }
    if (value.empty()) {
      absl::StrAppend(&text, "# ", info.name, ": ", info.default_text, "\n");
    } else {
      absl::StrAppend(&text, info.name, " = ", value, "\n");
    }
  }
  absl::string_view group_;
};

class FixedCollector final : public Formatter {
 public:
  std::vector<std::pair<std::string, std::string>> fixed;

 private:
  void Add(const OptionInfo& info, std::string value) override {
    if (!info.may_change) fixed.emplace_back(info.name, value.empty() ? "none" : value);
  }
};

std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }

absl::string_view KindOf(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  if (node.is_string()) return "a text";
  if (node.is_integer()) return "a whole number";
  if (node.is_floating_point()) return "a number";
  if (node.is_boolean()) return "true or false";
  return "a date or time";
}

// Fills every option that the table has.
class Reader final : public OptionVisitor {
 public:
  Reader(const toml::table& table, absl::string_view where) : table_(table), where_(where) {}

  void On(const OptionInfo& info, std::string& value) override {
    const toml::node* node = Take(info);
    if (node == nullptr) return;
    if (const auto text = node->value_exact<std::string>()) {
      value = *text;
    } else {
      WrongType(info, *node, "a text");
    }
  }
  void On(const OptionInfo& info, std::vector<std::string>& value) override {
    const toml::node* node = Take(info);
    if (node == nullptr) return;
    if (const auto text = node->value_exact<std::string>()) {
      value = {*text};
      return;
    }
    const toml::array* array = node->as_array();
    if (array == nullptr) return WrongType(info, *node, "an array of texts");
    value.clear();
    for (const toml::node& item : *array) {
      const auto text = item.value_exact<std::string>();
      if (!text) return WrongType(info, item, "an array of texts");
      value.push_back(*text);
    }
  }
  void On(const OptionInfo& info, bool& value) override {
    const toml::node* node = Take(info);
    if (node == nullptr) return;
    if (const auto flag = node->value_exact<bool>()) {
      value = *flag;
    } else {
      WrongType(info, *node, "true or false");
    }
  }
  void On(const OptionInfo& info, int64_t& value) override {
    const toml::node* node = Take(info);
    if (node == nullptr) return;
    if (const auto number = node->value_exact<int64_t>()) {
      value = *number;
    } else {
      WrongType(info, *node, "a whole number");
    }
  }
  void On(const OptionInfo& info, double& value) override {
    const toml::node* node = Take(info);
    if (node == nullptr) return;
    if (const auto number = node->value_exact<double>()) {
      value = *number;
    } else if (const auto whole = node->value_exact<int64_t>()) {
      value = static_cast<double>(*whole);
    } else {
      WrongType(info, *node, "a number");
    }
  }
  void On(const OptionInfo& info, std::optional<int64_t>& value) override {
    int64_t number = value.value_or(0);
    const bool given = table_.contains(StdView(info.name));
    On(info, number);
    if (given) value = number;
  }
  void On(const OptionInfo& info, std::optional<double>& value) override {
    double number = value.value_or(0);
    const bool given = table_.contains(StdView(info.name));
    On(info, number);
    if (given) value = number;
  }

  // What was wrong with a value, else the first key in file order that is no option.
  absl::Status Finish(const std::vector<std::string>& ignored) {
    if (!status_.ok()) return status_;
    const toml::key* first = nullptr;
    for (auto&& [key, value] : table_) {
      const std::string name(key.str());
      if (known_.count(name) > 0 ||
          std::find(ignored.begin(), ignored.end(), name) != ignored.end()) {
        continue;
      }
      if (first == nullptr || key.source().begin < first->source().begin) first = &key;
    }
    if (first == nullptr) return absl::OkStatus();
    const std::string name(first->str());
    const std::string nearest =
        NearestName(name, std::vector<std::string>(known_.begin(), known_.end()));
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ":", first->source().begin.line, ": ", Quoted(name), " is no option",
                     nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest)));
  }

 private:
  const toml::node* Take(const OptionInfo& info) {
    known_.emplace(info.name);
    return table_.get(StdView(info.name));
  }
  void WrongType(const OptionInfo& info, const toml::node& node, absl::string_view expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(where_, ":", node.source().begin.line, ": ",
                                                      info.name, ": expected ", expected,
                                                      ", found ", KindOf(node)));
  }

  const toml::table& table_;
  absl::string_view where_;
  std::set<std::string> known_;
  absl::Status status_;
};

}  // namespace

std::string FormatTomlOptions(const VisitOptions& visit) {
  FileFormatter formatter;
  visit(formatter);
  return std::move(formatter.text);
}

absl::Status ParseTomlOptions(absl::string_view text, absl::string_view where,
                              const VisitOptions& visit, const std::vector<std::string>& ignored) {
  toml::table table;
  try {
    table = toml::parse(StdView(text));
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ":", error.source().begin.line, ": expected TOML: ", error.what()));
  }
  Reader reader(table, where);
  visit(reader);
  return reader.Finish(ignored);
}

std::vector<std::pair<std::string, std::string>> FixedOptions(const VisitOptions& visit) {
  FixedCollector collector;
  visit(collector);
  return std::move(collector.fixed);
}

}  // namespace lorica
