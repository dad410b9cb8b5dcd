#include "lorica/train/option_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lorica/io/quoted.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

class TextCheck final : public OptionVisitor {
 public:
  void On(const OptionInfo& info, std::string& value) override { Check(info, value); }
  void On(const OptionInfo& info, std::vector<std::string>& value) override {
    for (const std::string& text : value) {
      Check(info, text);
      if (text.empty()) Keep(WrongOption(info.name, "a text", "an empty one"));
    }
  }
  void On(const OptionInfo&, bool&) override {}
  void On(const OptionInfo&, int64_t&) override {}
  void On(const OptionInfo&, double&) override {}
  void On(const OptionInfo&, std::optional<int64_t>&) override {}
  void On(const OptionInfo&, std::optional<double>&) override {}

  absl::Status status() const { return status_; }

 private:
  void Check(const OptionInfo& info, const std::string& value) {
    if (FirstInvalidUtf8(value) != value.size()) {
      Keep(WrongOption(info.name, "valid UTF-8", Quoted(value)));
    } else if (value.find('\0') != std::string::npos) {
      Keep(WrongOption(info.name, "a text without NUL bytes", Quoted(value)));
    }
    const auto& choices = info.choices;
    const bool absent = value.empty() && !info.default_text.empty();
    if (choices.empty() || absent ||
        std::find(choices.begin(), choices.end(), value) != choices.end()) {
      return;
    }
    const std::vector<std::string> names(choices.begin(), choices.end());
    const std::string nearest = NearestName(value, names);
    Keep(WrongOption(
        info.name,
        names.size() == 1 ? names[0] : absl::StrCat("one of ", absl::StrJoin(names, ", ")),
        absl::StrCat(Quoted(value), nearest.empty() ? "" : "; did you mean ", nearest)));
  }
  void Keep(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  absl::Status status_;
};

}  // namespace

absl::Status CheckTextOptions(const VisitOptions& visit) {
  TextCheck check;
  visit(check);
  return check.status();
}

absl::Status WrongOption(absl::string_view name, absl::string_view expected,
                         absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, ": expected ", expected, ", found ", found));
}

}  // namespace lorica
