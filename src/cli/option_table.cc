#include "lorica/cli/option_table.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lorica/cli/option_values.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"

namespace lorica::cli {
namespace {

// A configuration with a long system prompt has a few kilobytes.
constexpr size_t kLargestFile = size_t{4} << 20;

std::string ToString(absl::string_view text) { return std::string(text.data(), text.size()); }

}  // namespace

struct OptionTable::Entry {
  std::string name;
  CLI::Option* option = nullptr;
  std::vector<std::string> values;  // as given on the command line
};

// Makes a CLI11 option of each: it only collects texts.
class OptionTable::Declarer final : public OptionVisitor {
 public:
  Declarer(OptionTable& table, CLI::App& app, const std::string& positional)
      : table_(table), app_(app), positional_(positional) {}

  void On(const OptionInfo& info, std::string& value) override {
    const std::string type = info.choices.empty() ? "TEXT" : absl::StrJoin(info.choices, "|");
    Add(info, type, value, false);
  }
  void On(const OptionInfo& info, std::vector<std::string>& value) override {
    Add(info, "TEXT", absl::StrJoin(value, " "), true);
  }
  void On(const OptionInfo& info, bool& value) override {
    Entry& entry = NewEntry(info);
    const std::string name = ToString(info.name);
    entry.option = app_.add_flag("--" + name + ",!--no-" + name, entry.values,
                                 absl::StrCat(info.help, " (default ", value ? "on" : "off", ")"));
    entry.option->group(ToString(info.group));
    table_.names_.push_back("--no-" + name);
  }
  void On(const OptionInfo& info, int64_t& value) override {
    Add(info, "N", absl::StrCat(value), false);
  }
  void On(const OptionInfo& info, double& value) override {
    Add(info, "X", RealText(value), false);
  }
  void On(const OptionInfo& info, std::optional<int64_t>& value) override {
    Add(info, "N", value.has_value() ? absl::StrCat(*value) : "", false);
  }
  void On(const OptionInfo& info, std::optional<double>& value) override {
    Add(info, "X", value.has_value() ? RealText(*value) : "", false);
  }

 private:
  Entry& NewEntry(const OptionInfo& info) {
    table_.entries_.push_back(std::make_unique<Entry>());
    Entry& entry = *table_.entries_.back();
    entry.name = ToString(info.name);
    table_.names_.push_back("--" + entry.name);
    return entry;
  }

  void Add(const OptionInfo& info, const std::string& type, const std::string& shown_default,
           bool list) {
    Entry& entry = NewEntry(info);
    std::string names = "--" + entry.name;
    if (entry.name == positional_) names += "," + entry.name;
    std::string help = ToString(info.help);
    const std::string held = shown_default.empty() ? ToString(info.default_text) : shown_default;
    if (!held.empty()) absl::StrAppend(&help, " (default ", held, ")");
    entry.option = app_.add_option(names, entry.values, help);
    entry.option->group(ToString(info.group))->type_name(type);
    if (list) {
      entry.option->expected(1, CLI::detail::expected_max_vector_size);
    } else {
      // One value, though the texts are collected in a list.
      entry.option->expected(1)->allow_extra_args(false)->multi_option_policy(
          CLI::MultiOptionPolicy::Throw);
    }
  }

  OptionTable& table_;
  CLI::App& app_;
  const std::string& positional_;
};

// Converts what the command line gave.
class OptionTable::Assigner final : public OptionVisitor {
 public:
  explicit Assigner(const OptionTable& table) : table_(table) {}

  void On(const OptionInfo& info, std::string& value) override {
    const Entry* entry = Given(info);
    if (entry == nullptr) return;
    if (!info.choices.empty()) Fail(info, CheckChoice(entry->values.back(), info.choices));
    value = entry->values.back();
  }
  void On(const OptionInfo& info, std::vector<std::string>& value) override {
    const Entry* entry = Given(info);
    if (entry != nullptr) value = entry->values;
  }
  void On(const OptionInfo& info, bool& value) override { Convert(info, ParseBool, value); }
  void On(const OptionInfo& info, int64_t& value) override { Convert(info, ParseInt, value); }
  void On(const OptionInfo& info, double& value) override { Convert(info, ParseReal, value); }
  void On(const OptionInfo& info, std::optional<int64_t>& value) override {
    Convert(info, ParseInt, value);
  }
  void On(const OptionInfo& info, std::optional<double>& value) override {
    Convert(info, ParseReal, value);
  }

  const absl::Status& status() const { return status_; }

 private:
  const Entry* Given(const OptionInfo& info) const {
    const Entry* entry = table_.Find(info.name);
    return entry->option->count() > 0 && !entry->values.empty() ? entry : nullptr;
  }

  template <typename Parse, typename Value>
  void Convert(const OptionInfo& info, const Parse& parse, Value& value) {
    const Entry* entry = Given(info);
    if (entry == nullptr) return;
    auto parsed = parse(entry->values.back());
    if (parsed.ok()) {
      value = *parsed;
    } else {
      Fail(info, parsed.status());
    }
  }

  // The first error counts.
  void Fail(const OptionInfo& info, const absl::Status& status) {
    if (status.ok() || !status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat("--", info.name, ": ", status.message()));
  }

  const OptionTable& table_;
  absl::Status status_;
};

OptionTable::OptionTable(CLI::App& app, VisitOptions visit, const std::string& positional)
    : visit_(std::move(visit)) {
  app.add_option("--config", config_,
                 "TOML file with options under their long names; the command line wins")
      ->type_name("FILE");
  names_ = {"--help", "--config"};
  Declarer declarer(*this, app, positional);
  visit_(declarer);
}

OptionTable::~OptionTable() = default;

OptionTable::Entry* OptionTable::Find(absl::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry->name == name) return entry.get();
  }
  return nullptr;
}

bool OptionTable::Given(absl::string_view name) const {
  const Entry* entry = Find(name);
  return entry != nullptr && entry->option->count() > 0;
}

absl::Status OptionTable::Apply() {
  if (!config_.empty()) {
    LORICA_ASSIGN_OR_RETURN(const std::string text,
                            AsOptionError(PosixFiles().Read(config_, kLargestFile)));
    LORICA_RETURN_IF_ERROR(ParseTomlOptions(text, config_, visit_));
  }
  Assigner assigner(*this);
  visit_(assigner);
  return assigner.status();
}

}  // namespace lorica::cli
