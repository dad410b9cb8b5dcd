// lorica convert.
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lorica/cli/command.h"
#include "lorica/cli/engine.h"
#include "lorica/cli/json_result.h"
#include "lorica/cli/terminal.h"
#include "lorica/tensor/status.h"
#include "lorica/train/convert_adapter.h"

namespace lorica::cli {
namespace {

class ConvertCommand final : public Command {
 public:
  const char* name() const override { return "convert"; }
  const char* summary() const override { return "write an adapter in another layout"; }

  void Visit(OptionVisitor& visitor) override {
    VisitConvertOptions(options_, visitor);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>&) override {
    LORICA_ASSIGN_OR_RETURN(const Engine engine, MakeEngine({.threads = 1}));
    LORICA_ASSIGN_OR_RETURN(const ConvertSummary summary,
                            ConvertAdapter(options_, *engine.backend));
    Progress progress(output_.quiet);
    if (!summary.left_behind.empty()) {
      progress.Say("left behind, because they are no part of the adapter: " +
                   absl::StrJoin(summary.left_behind, ", "));
    }
    for (const std::string& note : summary.notes) progress.Say(note);
    if (output_.json) {
      PrintJson({{"output", options_.output},
                 {"from", summary.from},
                 {"to", options_.to},
                 {"experts", summary.expert_kind},
                 {"modules", summary.modules},
                 {"left_behind", summary.left_behind},
                 {"notes", summary.notes}});
    } else {
      PrintResult(absl::StrFormat("%s: %d modules from %s to %s, read again and the same\n",
                                  options_.output, summary.modules, summary.from, options_.to));
    }
    return absl::OkStatus();
  }

 private:
  ConvertOptions options_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> MakeConvertCommand() { return std::make_unique<ConvertCommand>(); }

}  // namespace lorica::cli
