// The options of one subcommand, as the library lists them (train/option_list.h), on the command
// line and in the TOML file that --config names. The command line wins.
#ifndef LORICA_CLI_OPTION_TABLE_H_
#define LORICA_CLI_OPTION_TABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lorica/train/toml_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace lorica::cli {

class OptionTable {
 public:
  // Adds --config and every option of `visit` to `app`; what the variables hold now are the
  // defaults that help names. `positional` is the name of one option that may also be given
  // without its name, or empty.
  OptionTable(CLI::App& app, VisitOptions visit, const std::string& positional = "");
  ~OptionTable();
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  // After CLI11 has parsed: writes the values of the file, then those of the command line, into the
  // variables. InvalidArgument naming the option, and the file where the value stands there.
  absl::Status Apply();

  // Given on the command line.
  bool Given(absl::string_view name) const;
  // "--lr", ... for suggestions.
  const std::vector<std::string>& names() const { return names_; }

 private:
  class Declarer;
  class Assigner;
  struct Entry;
  Entry* Find(absl::string_view name) const;

  VisitOptions visit_;
  std::string config_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::string> names_;
};

}  // namespace lorica::cli

#endif  // LORICA_CLI_OPTION_TABLE_H_
