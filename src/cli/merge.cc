// lorica merge.
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lorica/cli/command.h"
#include "lorica/cli/engine.h"
#include "lorica/cli/json_result.h"
#include "lorica/cli/plan_report.h"
#include "lorica/cli/terminal.h"
#include "lorica/tensor/status.h"
#include "lorica/train/merge_model.h"

namespace lorica::cli {
namespace {

class MergeCommand final : public Command {
 public:
  const char* name() const override { return "merge"; }
  const char* summary() const override { return "write a model with an adapter merged into it"; }

  void Visit(OptionVisitor& visitor) override {
    VisitMergeOptions(options_, visitor);
    visitor.On({.name = "threads",
                .group = "Running",
                .help = "threads to compute with; 0: the cores that this process may use"},
               threads_);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>&) override {
    LORICA_ASSIGN_OR_RETURN(const Engine engine, MakeEngine({.threads = threads_}));
    Progress progress(output_.quiet);
    LORICA_ASSIGN_OR_RETURN(const MergeSummary summary,
                            MergeModel(options_, *engine.backend,
                                       [&](const std::string& message) { progress.Say(message); }));
    if (!summary.left_behind.empty()) {
      progress.Say("left behind, because they hold the unmerged weights: " +
                   absl::StrJoin(summary.left_behind, ", "));
    }
    if (output_.json) {
      PrintJson({{"output", options_.output},
                 {"merged", summary.merged},
                 {"tensors", summary.tensors},
                 {"bytes", summary.bytes},
                 {"difference", summary.difference},
                 {"left_behind", summary.left_behind}});
    } else {
      PrintResult(absl::StrFormat("%s: %d of %d tensors merged, %s; logits differ by %.2g\n",
                                  options_.output, summary.merged, summary.tensors,
                                  Size(summary.bytes), summary.difference));
    }
    return absl::OkStatus();
  }

 private:
  MergeOptions options_;
  int64_t threads_ = 0;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> MakeMergeCommand() { return std::make_unique<MergeCommand>(); }

}  // namespace lorica::cli
