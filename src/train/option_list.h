// One list of a command's options: the command line, TOML files, validation of names and the
// comparison with a checkpoint are loops over it.
#ifndef LORICA_TRAIN_OPTION_LIST_H_
#define LORICA_TRAIN_OPTION_LIST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lorica {

struct OptionInfo {
  absl::string_view name;   // long name in kebab-case, without dashes
  absl::string_view group;  // heading in the help
  absl::string_view help;   // one line; the unit included, the default not
  // The values that a text option may have; empty: any.
  std::vector<absl::string_view> choices = {};
  // What holds where the value is absent, for options without a value of their own by default.
  absl::string_view default_text = "";
  // May differ from the checkpoint's when a run is resumed.
  bool may_change = false;
};

// Receives every option and the variable that holds its value. Where a variable is optional, its
// absence is the default.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  virtual void On(const OptionInfo& info, std::string& value) = 0;
  virtual void On(const OptionInfo& info, std::vector<std::string>& value) = 0;
  virtual void On(const OptionInfo& info, bool& value) = 0;
  virtual void On(const OptionInfo& info, int64_t& value) = 0;
  virtual void On(const OptionInfo& info, double& value) = 0;
  virtual void On(const OptionInfo& info, std::optional<int64_t>& value) = 0;
  virtual void On(const OptionInfo& info, std::optional<double>& value) = 0;
};

// Calls its argument for every option of some command.
using VisitOptions = std::function<void(OptionVisitor&)>;

// Every text is UTF-8 without NUL bytes and, where choices are listed, one of them; no list has an
// empty text. InvalidArgument naming the option, and the nearest choice.
absl::Status CheckTextOptions(const VisitOptions& visit);

// "--name: expected ..., found ...": what all options' errors say.
absl::Status WrongOption(absl::string_view name, absl::string_view expected,
                         absl::string_view found);

}  // namespace lorica

#endif  // LORICA_TRAIN_OPTION_LIST_H_
