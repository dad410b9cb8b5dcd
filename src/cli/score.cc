// lorica score.
#include "lorica/train/score.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/cli/command.h"
#include "lorica/cli/interrupt.h"
#include "lorica/cli/json_result.h"
#include "lorica/cli/terminal.h"
#include "lorica/tensor/status.h"

namespace lorica::cli {
namespace {

class ScoreCommand final : public Command {
 public:
  const char* name() const override { return "score"; }
  const char* summary() const override {
    return "loss and log-probabilities of a model on a data set";
  }
  void Visit(OptionVisitor& visitor) override {
    VisitScoreOptions(options_, visitor);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>&) override {
    CatchInterrupts();
    Progress progress(output_.quiet);
    nlohmann::ordered_json records = nlohmann::ordered_json::array();
    const auto on_record = [&](const RecordScore& record) {
      if (output_.json) {
        records.push_back({{"index", record.index},
                           {"tokens", record.tokens},
                           {"trained_tokens", record.trained_tokens},
                           {"loss", record.loss}});
      } else {
        PrintResult(absl::StrFormat("record %d: %d tokens, %d trained, loss %.6f\n", record.index,
                                    record.tokens, record.trained_tokens, record.loss));
      }
      progress.Update(absl::StrCat("scored ", record.index + 1, " records"));
    };
    LORICA_ASSIGN_OR_RETURN(const ScoreTotals totals, RunScore(options_, on_record, Interrupted));
    progress.Finish();
    if (output_.json) {
      PrintJson({{"records", std::move(records)},
                 {"tokens", totals.tokens},
                 {"trained_tokens", totals.trained_tokens},
                 {"loss", totals.loss},
                 {"perplexity", totals.perplexity}});
    } else {
      PrintResult(absl::StrFormat("%d records, %d tokens, %d trained: loss %.6f, perplexity %.6g\n",
                                  totals.records, totals.tokens, totals.trained_tokens, totals.loss,
                                  totals.perplexity));
    }
    return absl::OkStatus();
  }

 private:
  ScoreOptions options_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> MakeScoreCommand() { return std::make_unique<ScoreCommand>(); }

}  // namespace lorica::cli
