#include "lorica/train/sft.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/checkpoint.h"
#include "lorica/nn/generate.h"
#include "lorica/peft/layouts/base_facts.h"
#include "lorica/peft/peft_files.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/model_folder.h"
#include "lorica/train/report.h"
#include "lorica/train/resume.h"
#include "lorica/train/run_folder.h"
#include "lorica/train/sft_setup.h"
#include "lorica/train/text_model.h"
#include "lorica/train/training_checkpoint.h"

namespace lorica {
namespace internal {
namespace {

constexpr int64_t kLoadSteps = 50;

// One run: its parts, and the steps from the first look at the folder to the report.
class SftRun {
 public:
  SftRun(const SftOptions& options, const SftCallbacks& callbacks, FileSystem& files)
      : options_(options), callbacks_(callbacks), files_(files) {}

  absl::StatusOr<SftResult> Run();

 private:
  void Say(const std::string& text) const {
    if (callbacks_.on_message) callbacks_.on_message(text);
  }
  bool Cancelled() const { return callbacks_.cancelled && callbacks_.cancelled(); }
  SftProgress Progress() const { return {trainer_->step(), trainer_->total_steps()}; }

  absl::Status LoadCheckpoint(const StartingPoint& start);
  bool IsFinished() const;
  absl::Status Begin(const StartingPoint& start);
  absl::Status Steps();
  // The line of a step; loads of experts, which may be long, stand in the line of a step that is
  // evaluated and of every kLoadSteps-th.
  absl::Status WriteStep(const StepMetrics& metrics, bool with_loads);
  // Evaluates after the step just made. Sets pending when it is interrupted.
  absl::Status EvaluateNow();
  // All that steps change: the optimizer's parameters, then the trainer's buffers.
  ParameterGroup Trained();
  absl::Status Save();
  absl::Status WriteResult();
  absl::Status WriteReport();
  absl::StatusOr<std::vector<std::string>> Answer();
  absl::Status Interrupted() const;

  const SftOptions options_;
  const SftCallbacks& callbacks_;
  FileSystem& files_;
  std::optional<RunFolder> folder_;
  std::optional<SftSetup> setup_;
  std::optional<Trainer> trainer_;
  std::optional<MetricsWriter> metrics_;
  TrainingState state_;
  ParameterCopies best_;
  SftPlan plan_;
  SftResult result_;
  std::string result_path_;
};

absl::StatusOr<SftResult> SftRun::Run() {
  LORICA_RETURN_IF_ERROR(Validate(options_));
  LORICA_ASSIGN_OR_RETURN(RunFolder claimed, RunFolder::Claim(files_, options_.output));
  folder_.emplace(std::move(claimed));
  const auto say = [this](const std::string& text) { Say(text); };
  LORICA_ASSIGN_OR_RETURN(const StartingPoint start, FindStart(files_, *folder_, options_, say));

  LORICA_ASSIGN_OR_RETURN(SftSetup setup,
                          SetUp(options_, /*with_weights=*/true, callbacks_, start.state.now));
  setup_.emplace(std::move(setup));
  trainer_.emplace(*setup_->model, setup_->Parameters(), *setup_->train, setup_->trainer_options);
  result_path_ = IsFullTraining(options_) ? folder_->model() : folder_->adapter();
  LORICA_RETURN_IF_ERROR(trainer_->CheckSteps());
  state_.run = IdentityOf(*setup_);
  state_.run_id = MakeNonce();
  state_.now = setup_->now;
  state_.evaluations = start.state.evaluations;
  if (start.checkpoint.has_value()) {
    LORICA_RETURN_IF_ERROR(CheckSameRun(start.checkpoint->path(), start.state.run, state_.run));
  }
  // The model as it came, before a checkpoint's parameters take their place.
  LORICA_ASSIGN_OR_RETURN(plan_, PlanOf(*setup_));
  std::vector<std::string> before;
  if (!start.checkpoint.has_value() || start.state.step < trainer_->total_steps()) {
    LORICA_ASSIGN_OR_RETURN(before, Answer());
  }
  if (start.checkpoint.has_value()) {
    LORICA_RETURN_IF_ERROR(LoadCheckpoint(start));
    result_.checkpoint_path = start.checkpoint->path();
  }
  plan_.resumed_step = trainer_->step();
  if (IsFinished() && files_.Stat(result_path_).ok()) {
    folder_->Keep();
    result_.was_finished = true;
    result_.steps = trainer_->step();
    result_.stopped_early = state_.stopped_early;
    result_.evaluations = state_.evaluations;
    result_.result_path = result_path_;
    result_.report_path = folder_->report();
    Say(absl::StrCat("the run in ", folder_->path(), " is finished after step ", result_.steps));
    return result_;
  }
  if (callbacks_.on_plan) callbacks_.on_plan(plan_);
  if (Cancelled()) return absl::CancelledError("interrupted before the first step");

  LORICA_RETURN_IF_ERROR(AsRunError(Begin(start)));
  LORICA_RETURN_IF_ERROR(Steps());
  LORICA_RETURN_IF_ERROR(AsRunError(WriteResult()));
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> after, Answer());
  for (size_t i = 0; i < after.size(); ++i) {
    result_.samples.push_back({options_.sample[i], i < before.size() ? before[i] : "", after[i]});
  }
  LORICA_RETURN_IF_ERROR(AsRunError(WriteReport()));
  result_.steps = trainer_->step();
  result_.stopped_early = state_.stopped_early;
  result_.evaluations = state_.evaluations;
  result_.result_path = result_path_;
  return result_;
}

absl::Status SftRun::LoadCheckpoint(const StartingPoint& start) {
  const RunIdentity run = std::move(state_.run);
  const std::optional<std::tm> now = state_.now;
  state_ = start.state;
  state_.run = run;
  state_.now = now;
  if (options_.fresh_optimizer) Say("the optimizer's moments start anew");
  LORICA_RETURN_IF_ERROR(
      AsInputError(LoadTraining(*start.checkpoint, state_, options_.fresh_optimizer,
                                trainer_->optimizer(), trainer_->buffers(), &best_)));
  trainer_->ContinueAt(state_.step);
  if (trainer_->position() != state_.position) {
    return absl::DataLossError(absl::StrCat(start.checkpoint->path(), ": expected record ",
                                            trainer_->position(), " at step ", state_.step,
                                            ", found ", state_.position));
  }
  Say(absl::StrCat("continuing after step ", state_.step, " of ", trainer_->total_steps()));
  return absl::OkStatus();
}

bool SftRun::IsFinished() const {
  if (state_.evaluation_pending) return false;
  const bool stopped = state_.stopped_early && options_.early_stop.has_value() &&
                       state_.evaluations.without_improvement >= *options_.early_stop;
  return trainer_->done() || stopped;
}

absl::Status SftRun::Begin(const StartingPoint& start) {
  if (start.clear) LORICA_RETURN_IF_ERROR(folder_->Clear());
  LORICA_RETURN_IF_ERROR(RemoveLeftovers(files_, folder_->checkpoints()));
  LORICA_RETURN_IF_ERROR(RemoveLaterSteps(files_, folder_->checkpoints(), state_.step));
  LORICA_RETURN_IF_ERROR(
      CutMetrics(files_, folder_->metrics(), state_.step, !state_.evaluation_pending));
  LORICA_RETURN_IF_ERROR(
      WriteFileAtomically(files_, folder_->config(), SftOptionsToToml(options_)));
  LORICA_ASSIGN_OR_RETURN(MetricsWriter metrics, MetricsWriter::Open(files_, folder_->metrics()));
  metrics_.emplace(std::move(metrics));
  // From here on a resumed run has touched what was there; a fresh one stays removable until its
  // first step is made.
  if (start.checkpoint.has_value()) folder_->Keep();
  return absl::OkStatus();
}

absl::Status SftRun::Interrupted() const {
  return absl::CancelledError(absl::StrCat("interrupted after step ", state_.step, " of ",
                                           trainer_->total_steps(), "; ", result_.checkpoint_path,
                                           " is saved, and the same command with --resume auto "
                                           "continues there"));
}

absl::Status SftRun::Steps() {
  if (state_.evaluation_pending) {
    // The checkpoint keeps saying so; its line in the metrics is cut before it is written again.
    LORICA_RETURN_IF_ERROR(EvaluateNow());
    if (state_.evaluation_pending) return Interrupted();
  } else if (options_.eval_at_start && setup_->eval.has_value() && trainer_->step() == 0) {
    absl::StatusOr<Evaluation> evaluation = Evaluate(
        *setup_->model, *setup_->eval, setup_->trainer_options.batch, callbacks_.cancelled);
    LORICA_RETURN_IF_ERROR(evaluation.status());
    const EvalMetrics line = {0, evaluation->loss(), evaluation->trained_tokens};
    LORICA_RETURN_IF_ERROR(AsRunError(metrics_->Write(line)));
    if (callbacks_.on_evaluation) callbacks_.on_evaluation(line, Progress());
  }
  while (!IsFinished()) {
    if (Cancelled()) {
      if (trainer_->step() == 0) return absl::CancelledError("interrupted before the first step");
      // A checkpoint of this step may stand already.
      const std::string here = JoinPath(folder_->checkpoints(), CheckpointName(state_.step));
      if (result_.checkpoint_path != here) LORICA_RETURN_IF_ERROR(Save());
      return Interrupted();
    }
    LORICA_ASSIGN_OR_RETURN(const StepMetrics metrics, trainer_->Step());
    state_.step = trainer_->step();
    const bool last = trainer_->done();
    const bool evaluate =
        setup_->eval.has_value() &&
        (last || (options_.eval_every.has_value() && state_.step % *options_.eval_every == 0));
    LORICA_RETURN_IF_ERROR(AsRunError(WriteStep(metrics, evaluate || last)));
    folder_->Keep();
    result_.last = metrics;
    if (callbacks_.on_step) callbacks_.on_step(metrics, Progress());

    if (evaluate) LORICA_RETURN_IF_ERROR(EvaluateNow());
    const bool save = last || IsFinished() || state_.evaluation_pending ||
                      (options_.save_every.has_value() && state_.step % *options_.save_every == 0);
    if (save) LORICA_RETURN_IF_ERROR(Save());
    if (state_.evaluation_pending) return Interrupted();
  }
  return absl::OkStatus();
}

absl::Status SftRun::WriteStep(const StepMetrics& metrics, bool with_loads) {
  AddLoads(metrics.loads, state_.loads);
  StepMetrics line = metrics;
  line.loads.clear();
  if (with_loads || state_.step % kLoadSteps == 0) line.loads = std::exchange(state_.loads, {});
  return metrics_->Write(line);
}

absl::Status SftRun::EvaluateNow() {
  state_.evaluation_pending = true;
  const absl::StatusOr<Evaluation> evaluation =
      Evaluate(*setup_->model, *setup_->eval, setup_->trainer_options.batch, callbacks_.cancelled);
  if (absl::IsCancelled(evaluation.status())) return absl::OkStatus();
  LORICA_RETURN_IF_ERROR(evaluation.status());
  state_.evaluation_pending = false;
  const EvalMetrics line = {state_.step, evaluation->loss(), evaluation->trained_tokens};
  LORICA_RETURN_IF_ERROR(AsRunError(metrics_->Write(line)));
  const bool best = state_.evaluations.Add(state_.step, line.eval_loss);
  if (best && options_.keep_best) best_ = CopyParameters(Trained());
  state_.stopped_early = options_.early_stop.has_value() && !trainer_->done() &&
                         state_.evaluations.without_improvement >= *options_.early_stop;
  result_.last_evaluation = line;
  if (callbacks_.on_evaluation) callbacks_.on_evaluation(line, Progress());
  return absl::OkStatus();
}

ParameterGroup SftRun::Trained() {
  ParameterGroup all = trainer_->optimizer().parameters();
  const ParameterGroup& buffers = trainer_->buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

absl::Status SftRun::Save() {
  state_.position = trainer_->position();
  state_.clock = trainer_->optimizer().clock();
  // The lines up to this step must be there when the checkpoint is.
  LORICA_RETURN_IF_ERROR(AsRunError(metrics_->Sync()));
  LORICA_ASSIGN_OR_RETURN(
      result_.checkpoint_path,
      AsRunError(SaveTraining(files_, folder_->checkpoints(), state_, trainer_->optimizer(),
                              trainer_->buffers(), best_)));
  return AsRunError(KeepNewest(files_, folder_->checkpoints(), options_.keep));
}

absl::Status SftRun::WriteResult() {
  const ParameterGroup parameters = Trained();
  for (size_t i = 0; options_.keep_best && i < best_.size(); ++i) {
    Tensor master = parameters[i].master;
    if (master.numel() > 0) setup_->backend->Copy(best_[i].view(), master.mutable_view());
  }
  if (!IsFullTraining(options_)) {
    return ReplaceFolder(files_, result_path_, [&] {
      return SavePeftAdapter(files_, result_path_, setup_->adapters,
                             {.base_model = options_.model,
                              .init = *ParseLoraInit(options_.lora_init),
                              .text_part = setup_->model->config().text_part,
                              .layout = *ParseAdapterLayout(options_.adapter_format),
                              .form = BaseFactsOf(setup_->model->config()).form});
    });
  }
  ChangedModel changed = {.model = setup_->model.get()};
  for (const NamedParameter& parameter : parameters) changed.changed.insert(parameter.path);
  return ReplaceFolder(files_, result_path_, [&]() -> absl::Status {
    LORICA_ASSIGN_OR_RETURN(DirectoryCommit folder, DirectoryCommit::Begin(files_, result_path_));
    const absl::StatusOr<WrittenWeights> written =
        IsGgufPath(options_.model) ? WriteGgufAsFolder(changed, options_.model, folder)
                                   : WriteChangedFolder(changed, options_.model, files_, folder);
    LORICA_RETURN_IF_ERROR(written.status());
    return folder.Commit();
  });
}

absl::Status SftRun::WriteReport() {
  ReportData data;
  data.title = folder_->path();
  data.plan = plan_;
  data.config = SftOptionsToToml(options_);
  LORICA_ASSIGN_OR_RETURN(data.metrics, ReadMetrics(files_, folder_->metrics()));
  data.samples = result_.samples;
  data.evaluations = state_.evaluations;
  data.stopped_early = state_.stopped_early;
  data.result_path = result_path_;
  LORICA_RETURN_IF_ERROR(WriteFileAtomically(files_, folder_->report(), FormatReport(data)));
  result_.report_path = folder_->report();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SftRun::Answer() {
  std::vector<std::string> answers;
  if (options_.sample.empty()) return answers;
  Say("answering the sample prompts");
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& prompt : options_.sample) {
    LORICA_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                            EncodePrompt(*setup_->text, prompt, options_.system, setup_->now));
    prompts.push_back(std::move(ids));
  }
  GenerateOptions generate;
  generate.max_tokens = options_.sample_tokens;
  generate.cancelled = callbacks_.cancelled;
  LORICA_ASSIGN_OR_RETURN(
      generate.stop_ids,
      AsInputError(StopIds(options_.model, setup_->model->config(), &*setup_->text->tokenizer)));
  LORICA_ASSIGN_OR_RETURN(const std::vector<GeneratedSequence> sequences,
                          AsRunError(Generate(*setup_->model, prompts, generate)));
  for (const GeneratedSequence& sequence : sequences) {
    LORICA_ASSIGN_OR_RETURN(std::string text, AsRunError(setup_->text->tokenizer->Decode(
                                                  sequence.ids, {.skip_special_tokens = true})));
    answers.push_back(std::move(text));
  }
  return answers;
}

}  // namespace
}  // namespace internal

absl::StatusOr<SftResult> RunSft(const SftOptions& options, const SftCallbacks& callbacks,
                                 FileSystem& files) {
  try {
    return internal::SftRun(options, callbacks, files).Run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const DeviceError& error) {
    return absl::ResourceExhaustedError(error.what());
  } catch (const Error& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace lorica
