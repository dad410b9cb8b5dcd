#include "lorica/cli/command.h"

namespace lorica::cli {

std::vector<std::unique_ptr<Command>> MakeCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeSftCommand());
  commands.push_back(MakePlanCommand());
  commands.push_back(MakeScoreCommand());
  commands.push_back(MakeGenerateCommand());
  commands.push_back(MakeChatCommand());
  commands.push_back(MakeMergeCommand());
  commands.push_back(MakeConvertCommand());
  commands.push_back(MakeInspectCommand());
  commands.push_back(MakeTokenizeCommand());
  commands.push_back(MakeTemplateCommand());
  return commands;
}

void VisitOutputOptions(OutputOptions& options, OptionVisitor& visitor) {
  visitor.On({.name = "json", .group = "Output", .help = "one JSON document on stdout"},
             options.json);
  visitor.On({.name = "quiet", .group = "Output", .help = "no messages and no progress on stderr"},
             options.quiet);
}

}  // namespace lorica::cli
