// lorica: the command. Reads options, calls the library, prints.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lorica/cli/command.h"
#include "lorica/cli/option_table.h"
#include "lorica/cli/terminal.h"
#include "lorica/cli/version.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"

namespace lorica::cli {
namespace {

struct Subcommand {
  std::unique_ptr<Command> command;
  CLI::App* app = nullptr;
  std::unique_ptr<OptionTable> options;
};

// CLI11 shows a flag's negation as "--no-x{false}".
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    return absl::StrReplaceAll(CLI::Formatter::make_option_name(option, positional),
                               {{"{false}", ""}});
  }
};

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

// The first argument that nobody took, as a sentence.
std::string UnexpectedArgument(const CLI::App& app, const std::vector<Subcommand>& subcommands) {
  const std::vector<std::string> left = app.remaining(true);
  std::string first = left.empty() ? "" : left.front();
  for (const std::string& argument : left) {
    if (absl::StartsWith(argument, "-")) {
      first = argument;
      break;
    }
  }
  const std::string name = first.substr(0, first.find('='));
  for (const Subcommand& subcommand : subcommands) {
    if (!subcommand.app->parsed()) continue;
    if (!absl::StartsWith(name, "-")) {
      return absl::StrCat(subcommand.command->name(), " expects no argument ", Quoted(first));
    }
    return absl::StrCat(subcommand.command->name(), " has no option ", name,
                        DidYouMean(name, subcommand.options->names()));
  }
  std::vector<std::string> names;
  for (const Subcommand& subcommand : subcommands) names.push_back(subcommand.command->name());
  return absl::StrCat("expected one of the commands ", absl::StrJoin(names, ", "), ", found ",
                      Quoted(first), DidYouMean(first, names));
}

absl::Status Parse(CLI::App& app, const std::vector<Subcommand>& subcommands, int argc,
                   char** argv) {
  try {
    app.parse(argc, argv);
    return absl::OkStatus();
  } catch (const CLI::CallForHelp&) {
    PrintResult(app.help());
  } catch (const CLI::CallForVersion&) {
    PrintResult(VersionText());
  } catch (const CLI::ExtrasError&) {
    return absl::InvalidArgumentError(UnexpectedArgument(app, subcommands));
  } catch (const CLI::RequiredError&) {
    if (!app.remaining(true).empty()) {
      return absl::InvalidArgumentError(UnexpectedArgument(app, subcommands));
    }
    return absl::InvalidArgumentError("expected a command; lorica --help lists them");
  } catch (const CLI::ArgumentMismatch& error) {
    // "--lr: 1 required X missing", "--lr: At Most 1 required but received 2".
    const absl::string_view text = error.what();
    return absl::InvalidArgumentError(
        absl::StrCat(text.substr(0, text.find(':')), absl::StrContains(text, "received")
                                                         ? ": expected one value, found several"
                                                         : ": expected a value, found none"));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return absl::CancelledError();  // nothing is left to do
}

absl::Status Execute(const Subcommand& subcommand) {
  LORICA_RETURN_IF_ERROR(subcommand.options->Apply());
  LORICA_RETURN_IF_ERROR(subcommand.command->Run(
      [&](absl::string_view name) { return subcommand.options->Given(name); }));
  return FlushResults();
}

// The last line of stderr, one sentence.
int Report(const absl::Status& status) {
  if (!status.ok()) {
    std::string line = absl::StrReplaceAll(status.message(), {{"\n", " "}, {"\r", " "}});
    if (absl::EndsWith(line, ".")) line.pop_back();  // some texts are a template's own
    std::fprintf(stderr, "lorica: %s\n", line.c_str());
  }
  return ExitStatus(status);
}

int Main(int argc, char** argv) {
  CLI::App app("Trains LoRA adapters for language models, and uses them.", "lorica");
  app.set_help_flag("--help,-h", "this text");
  app.set_version_flag("--version", std::string(),
                       "version, commit, compiler, CPU, optional parts");
  app.require_subcommand(1);
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(34);
  app.formatter(formatter);
  std::vector<Subcommand> subcommands;
  for (std::unique_ptr<Command>& command : MakeCommands()) {
    Subcommand subcommand;
    subcommand.app = app.add_subcommand(command->name(), command->summary());
    Command* visited = command.get();
    subcommand.options = std::make_unique<OptionTable>(
        *subcommand.app, [visited](OptionVisitor& visitor) { visited->Visit(visitor); },
        command->positional());
    subcommand.command = std::move(command);
    subcommands.push_back(std::move(subcommand));
  }
  const absl::Status parsed = Parse(app, subcommands, argc, argv);
  if (absl::IsCancelled(parsed)) return Report(FlushResults());
  if (!parsed.ok()) return Report(parsed);
  for (const Subcommand& subcommand : subcommands) {
    if (subcommand.app->parsed()) return Report(Execute(subcommand));
  }
  return kExitUsage;
}

}  // namespace
}  // namespace lorica::cli

int main(int argc, char** argv) {
  // Nothing below throws for bad input; what arrives here is a failed device, exhausted memory, or
  // a mistake of ours.
  try {
    return lorica::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "lorica: memory ran out\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lorica: %s\n", error.what());
  }
  return lorica::kExitFailed;
}
