// A subcommand: its options and what it does with them.
#ifndef LORICA_CLI_COMMAND_H_
#define LORICA_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lorica/train/option_list.h"

namespace lorica::cli {

class Command {
 public:
  virtual ~Command() = default;

  virtual const char* name() const = 0;
  // One line for the list of commands.
  virtual const char* summary() const = 0;
  // The option that may be given without its name; empty where there is none.
  virtual const char* positional() const { return ""; }
  virtual void Visit(OptionVisitor& visitor) = 0;

  // Runs with the options as they stand. Codes of errors as in train/exit_status.h. `given` tells
  // whether an option stood on the command line.
  virtual absl::Status Run(const std::function<bool(absl::string_view)>& given) = 0;
};

std::unique_ptr<Command> MakeSftCommand();
std::unique_ptr<Command> MakePlanCommand();
std::unique_ptr<Command> MakeScoreCommand();
std::unique_ptr<Command> MakeGenerateCommand();
std::unique_ptr<Command> MakeChatCommand();
std::unique_ptr<Command> MakeMergeCommand();
std::unique_ptr<Command> MakeConvertCommand();
std::unique_ptr<Command> MakeInspectCommand();
std::unique_ptr<Command> MakeTokenizeCommand();
std::unique_ptr<Command> MakeTemplateCommand();

// In the order of the help.
std::vector<std::unique_ptr<Command>> MakeCommands();

// What all commands have.
struct OutputOptions {
  bool json = false;
  bool quiet = false;
};
void VisitOutputOptions(OutputOptions& options, OptionVisitor& visitor);

}  // namespace lorica::cli

#endif  // LORICA_CLI_COMMAND_H_
