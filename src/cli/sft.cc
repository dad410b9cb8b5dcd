// lorica sft, lorica plan.
#include "lorica/train/sft.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lorica/cli/command.h"
#include "lorica/cli/interrupt.h"
#include "lorica/cli/json_result.h"
#include "lorica/cli/plan_report.h"
#include "lorica/cli/terminal.h"
#include "lorica/tensor/status.h"

namespace lorica::cli {
namespace {

std::string StepLine(const StepMetrics& step, const SftProgress& progress, double seconds_left) {
  std::string line = absl::StrFormat(
      "step %d/%d  loss %.4f  lr %.2e  grad norm %.3g  %.0f tokens/s", progress.step,
      progress.total_steps, step.loss, step.lr, step.grad_norm, step.tokens_per_second);
  if (!step.loads.empty()) {
    absl::StrAppendFormat(&line, "  busiest expert %.1fx", WorstImbalance(step.loads));
  }
  if (step.aux_loss != 0) absl::StrAppendFormat(&line, "  balance %.3f", step.aux_loss);
  const int64_t left = static_cast<int64_t>(seconds_left + 0.5);
  if (left > 0) absl::StrAppendFormat(&line, "  %d:%02d left", left / 60, left % 60);
  return line;
}

std::string ReadingLine(int64_t bytes, int64_t total_bytes, int64_t records) {
  std::string line = absl::StrCat("read ", Size(bytes));
  if (total_bytes > 0) {
    absl::StrAppendFormat(&line, " of %s (%d%%)", Size(total_bytes), 100 * bytes / total_bytes);
  }
  return absl::StrCat(line, ", ", Grouped(records), " records");
}

// Shows how far reading has come, once it turns out to take its time.
auto ShowReading(Progress& progress) {
  return [&progress, begin = std::chrono::steady_clock::now()](int64_t bytes, int64_t total_bytes,
                                                               int64_t records) {
    constexpr std::chrono::seconds kPatience(1);
    if (std::chrono::steady_clock::now() - begin < kPatience) return;
    progress.Update(ReadingLine(bytes, total_bytes, records));
  };
}

std::string EvaluationLine(const EvalMetrics& evaluation) {
  return absl::StrFormat("after step %d: held-out loss %.4f, perplexity %.4g over %d tokens",
                         evaluation.step, evaluation.eval_loss, evaluation.perplexity(),
                         evaluation.eval_tokens);
}

nlohmann::ordered_json ResultJson(const SftResult& result) {
  nlohmann::ordered_json json = {{"steps", result.steps},
                                 {"was_finished", result.was_finished},
                                 {"stopped_early", result.stopped_early},
                                 {"result", result.result_path},
                                 {"checkpoint", result.checkpoint_path},
                                 {"report", result.report_path},
                                 {"loss", result.last.loss}};
  if (result.last_evaluation.has_value()) {
    json["eval_loss"] = result.last_evaluation->eval_loss;
    json["best_eval_loss"] = result.evaluations.best_loss;
    json["best_step"] = result.evaluations.best_step;
  }
  json["samples"] = nlohmann::ordered_json::array();
  for (const SampleAnswer& sample : result.samples) {
    json["samples"].push_back(
        {{"prompt", sample.prompt}, {"before", sample.before}, {"after", sample.after}});
  }
  return json;
}

void PrintOutcome(const SftResult& result) {
  if (result.was_finished) {
    PrintResult(absl::StrCat("finished before, after ", Grouped(result.steps), " steps\n"));
  } else {
    PrintResult(absl::StrFormat("%s after %s steps, loss %.4f\n",
                                result.stopped_early ? "stopped early" : "done",
                                Grouped(result.steps), result.last.loss));
  }
  if (result.last_evaluation.has_value()) {
    PrintResult(EvaluationLine(*result.last_evaluation) + "\n");
  }
  for (const SampleAnswer& sample : result.samples) {
    PrintResult(absl::StrCat("\n> ", sample.prompt, "\nbefore: ", sample.before,
                             "\nafter:  ", sample.after, "\n"));
  }
  PrintResult(absl::StrCat("result  ", result.result_path, "\nreport  ", result.report_path, "\n"));
}

class SftCommand final : public Command {
 public:
  const char* name() const override { return "sft"; }
  const char* summary() const override {
    return "train LoRA adapters (or the whole model) on a data set";
  }
  void Visit(OptionVisitor& visitor) override {
    VisitSftOptions(options_, visitor);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>&) override {
    CatchInterrupts();
    Progress progress(output_.quiet);
    SftCallbacks callbacks;
    callbacks.on_reading = ShowReading(progress);
    callbacks.on_plan = [&](const SftPlan& plan) {
      progress.Finish();
      for (const absl::string_view line :
           absl::StrSplit(PlanSummary(plan), '\n', absl::SkipEmpty())) {
        progress.Say(line);
      }
    };
    // Speed of a step varies with the length of its records; of the last ones together, less.
    double seconds_per_step = 0;
    callbacks.on_step = [&](const StepMetrics& step, const SftProgress& place) {
      seconds_per_step =
          seconds_per_step == 0 ? step.seconds : 0.9 * seconds_per_step + 0.1 * step.seconds;
      const int64_t left = place.total_steps - place.step;
      progress.Update(StepLine(step, place, seconds_per_step * static_cast<double>(left)));
    };
    callbacks.on_evaluation = [&](const EvalMetrics& evaluation, const SftProgress&) {
      progress.Finish();
      progress.Say(EvaluationLine(evaluation));
    };
    callbacks.on_message = [&](const std::string& message) {
      progress.Finish();
      progress.Say(message);
    };
    callbacks.cancelled = Interrupted;
    absl::StatusOr<SftResult> result = RunSft(options_, callbacks);
    progress.Finish();
    LORICA_RETURN_IF_ERROR(result.status());
    if (output_.json) {
      PrintJson(ResultJson(*result));
    } else {
      PrintOutcome(*result);
    }
    return absl::OkStatus();
  }

 private:
  SftOptions options_;
  OutputOptions output_;
};

class PlanCommand final : public Command {
 public:
  const char* name() const override { return "plan"; }
  const char* summary() const override {
    return "what sft would do with the same options, without doing it";
  }
  void Visit(OptionVisitor& visitor) override {
    VisitSftOptions(options_, visitor);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>&) override {
    CatchInterrupts();
    Progress progress(output_.quiet);
    SftCallbacks callbacks;
    callbacks.on_reading = ShowReading(progress);
    callbacks.cancelled = Interrupted;
    const absl::StatusOr<SftPlan> planned = PlanSft(options_, callbacks);
    progress.Finish();
    LORICA_RETURN_IF_ERROR(planned.status());
    const SftPlan& plan = *planned;
    if (output_.json) {
      PrintJson(PlanJson(plan));
      return absl::OkStatus();
    }
    PrintResult(PlanSummary(plan));
    PrintResult(PlanModules(plan));
    PrintResult(PlanLengths(plan));
    PrintResult(PlanRecords(plan, ColourOnStdout()));
    return absl::OkStatus();
  }

 private:
  SftOptions options_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> MakeSftCommand() { return std::make_unique<SftCommand>(); }
std::unique_ptr<Command> MakePlanCommand() { return std::make_unique<PlanCommand>(); }

}  // namespace lorica::cli
