#include "lorica/train/score.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/autograd/autograd.h"
#include "lorica/autograd/ops.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/safetensors.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/layouts/base_facts.h"
#include "lorica/peft/peft_files.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/status.h"
#include "lorica/train/adapter_gradients.h"
#include "lorica/train/batch.h"
#include "lorica/train/data_files.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/load_text.h"

namespace lorica {
namespace {

// Tokens of a pass, and rows of logits at a time: a row of a large vocabulary takes a megabyte.
constexpr int64_t kPassTokens = 2048, kLogitRows = 128;

absl::Status ValidateScore(const ScoreOptions& options) {
  ScoreOptions copy = options;
  LORICA_RETURN_IF_ERROR(
      CheckTextOptions([&](OptionVisitor& visitor) { VisitScoreOptions(copy, visitor); }));
  if (options.model.empty()) {
    return WrongOption("model", "a folder or a .gguf file", "nothing");
  }
  if (options.data.empty()) return WrongOption("data", "at least one file", "nothing");
  if (!options.gradients.empty() && options.adapter.empty()) {
    return absl::InvalidArgumentError("--gradients needs --adapter");
  }
  if (options.max_length < 0) {
    return WrongOption("max-length", "0 or more", absl::StrCat(options.max_length));
  }
  if (options.threads < 0) {
    return WrongOption("threads", "0 or more", absl::StrCat(options.threads));
  }
  if (options.backend != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("--backend ", options.backend, ": this build has no such backend; use cpu"));
  }
  return absl::OkStatus();
}

DType ComputeTypeOf(const ScoreOptions& options) {
  if (options.dtype == "bf16") return DType::kBF16;
  return options.dtype == "f64" ? DType::kF64 : DType::kF32;
}

absl::Span<const uint8_t> BytesOf(const Tensor& tensor) {
  return {static_cast<const uint8_t*>(tensor.view().data), tensor.bytes()};
}

std::string NumberOrNull(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.17g", value) : "null";
}

std::string Line(const RecordScore& score) {
  std::string line =
      absl::StrCat("{\"index\": ", score.index,
                   score.example.has_value() ? absl::StrCat(", \"example\": ", *score.example) : "",
                   ", \"tokens\": ", score.tokens, ", \"trained_tokens\": ", score.trained_tokens,
                   ", \"loss\": ", score.trained_tokens > 0 ? NumberOrNull(score.loss) : "null",
                   ", \"logprobs\": [");
  for (size_t t = 0; t < score.logprobs.size(); ++t) {
    absl::StrAppend(&line, t == 0 ? "" : ", ", NumberOrNull(score.logprobs[t]));
  }
  return line + "]}\n";
}

// Everything a run holds; results go to the sinks as they come.
class Scorer {
 public:
  Scorer(const ScoreOptions& options, FileSystem& files)
      : options_(options), files_(files), compute_(ComputeTypeOf(options)) {}

  absl::Status Load();
  absl::StatusOr<ScoreTotals> Run(const std::function<void(const RecordScore&)>& on_record,
                                  const std::function<bool()>& cancelled);

 private:
  DType FileType() const { return compute_ == DType::kF64 ? DType::kF64 : DType::kF32; }
  absl::Status OpenSinks();
  // The records of one pass, from `first`.
  absl::StatusOr<std::vector<RecordScore>> ScorePass(int64_t first,
                                                     absl::Span<const TrainingSequence> sequences);
  absl::Status AddGradients(absl::Span<const TrainingSequence> sequences);

  const ScoreOptions& options_;
  FileSystem& files_;
  const DType compute_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<CausalLm> model_;
  AdapterSet adapters_;
  ModelText text_;
  std::optional<Dataset> data_;
  std::optional<FileCommit> lines_;
  std::optional<FileCommit> logits_file_;
  std::optional<SafetensorsWriter> logits_;
};

absl::Status Scorer::Load() {
  const int threads = options_.threads > 0
                          ? static_cast<int>(std::min<int64_t>(options_.threads, 1024))
                          : AvailableCores();
  pool_ = std::make_unique<ThreadPool>(threads);
  backend_ = MakeCpuBackend(*pool_);
  LORICA_ASSIGN_OR_RETURN(LoadedModel loaded,
                          AsInputError(LoadModel(options_.model, *backend_, compute_)));
  model_ = std::move(loaded.model);
  if (!options_.adapter.empty()) {
    LORICA_ASSIGN_OR_RETURN(
        adapters_, AsInputError(LoadPeftAdapter(options_.adapter, *model_, *backend_, compute_)));
    if (!options_.gradients.empty()) MakeRoutersTrainable(adapters_);
  }
  LORICA_ASSIGN_OR_RETURN(text_, LoadModelText(options_.model, options_.chat_template));
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                          AsDataNameError(FindPlainFiles(options_.data)));
  LORICA_ASSIGN_OR_RETURN(data_, LoadDataset(files, text_,
                                             {.train_on = options_.train_on,
                                              .system = options_.system,
                                              .overlong = options_.overlong,
                                              .max_length = options_.max_length,
                                              .vocab_size = model_->config().vocab_size,
                                              .pool = pool_.get()}));
  return AsRunError(OpenSinks());
}

absl::Status Scorer::OpenSinks() {
  if (!options_.output.empty()) {
    LORICA_ASSIGN_OR_RETURN(FileCommit file, FileCommit::Begin(files_, options_.output));
    lines_.emplace(std::move(file));
  }
  if (options_.logits.empty()) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(FileCommit file, FileCommit::Begin(files_, options_.logits));
  logits_file_.emplace(std::move(file));
  std::vector<SafetensorsSpec> specs;
  for (int64_t i = 0; i < data_->size(); ++i) {
    const std::optional<int64_t> example = data_->example_index(i);
    specs.push_back({absl::StrCat("logits.", data_->record_index(i),
                                  example.has_value() ? absl::StrCat(".", *example) : ""),
                     FileType() == DType::kF64 ? StoredType::kF64 : StoredType::kF32,
                     {data_->tokens(i), model_->config().vocab_size}});
  }
  LORICA_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::Begin(logits_file_->file(), std::move(specs), {{"format", "pt"}}));
  logits_.emplace(std::move(writer));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RecordScore>> Scorer::ScorePass(
    int64_t first, absl::Span<const TrainingSequence> sequences) {
  const NoGrad no_grad;
  const Batch batch = Batch::Of(sequences, {});
  // What each row is asked for: the token that follows, and what the record trains there (another
  // one where labels say so).
  std::vector<int32_t> following(batch.ids.size(), -1);
  for (int s = 0; s < batch.context.sequences.groups(); ++s) {
    const int64_t begin = batch.context.sequences.begin(s);
    for (int64_t t = begin; t + 1 < begin + batch.context.sequences.size(s); ++t) {
      following[t] = batch.ids[t + 1];
    }
  }
  std::vector<double> next_loss, trained_loss;
  const Tensor hidden = model_->Hidden(batch.ids, batch.context);
  for (int64_t begin = 0; begin < batch.tokens(); begin += kLogitRows) {
    const int64_t count = std::min(kLogitRows, batch.tokens() - begin);
    std::vector<int32_t> rows(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), static_cast<int32_t>(begin));
    const Tensor logits = model_->LogitsOfRows(hidden, rows, batch.context);
    if (logits_.has_value()) {
      const Tensor wide = raw::Contiguous(raw::Cast(logits, FileType()));
      LORICA_RETURN_IF_ERROR(AsRunError(logits_->Append(BytesOf(wide))));
    }
    const absl::Span<const int32_t> next(following.data() + begin, rows.size());
    const absl::Span<const int32_t> trained(batch.targets.data() + begin, rows.size());
    const std::vector<double> of_next = CrossEntropy(logits, next).ToDoubles();
    const bool same = std::equal(next.begin(), next.end(), trained.begin(),
                                 [](int32_t n, int32_t t) { return t < 0 || t == n; });
    const std::vector<double> of_trained =
        same ? of_next : CrossEntropy(logits, trained).ToDoubles();
    next_loss.insert(next_loss.end(), of_next.begin(), of_next.end());
    trained_loss.insert(trained_loss.end(), of_trained.begin(), of_trained.end());
  }

  std::vector<RecordScore> scores;
  for (int s = 0; s < batch.context.sequences.groups(); ++s) {
    RecordScore score;
    score.index = data_->record_index(first + s);
    score.example = data_->example_index(first + s);
    score.tokens = batch.context.sequences.size(s);
    score.logprobs.push_back(NAN);
    const int64_t begin = batch.context.sequences.begin(s);
    for (int64_t t = begin; t < begin + score.tokens; ++t) {
      if (t + 1 < begin + score.tokens) score.logprobs.push_back(-next_loss[t]);
      if (batch.targets[t] < 0) continue;
      const double weight = batch.weights.empty() ? 1 : batch.weights[t];
      ++score.trained_tokens;
      score.trained_weight += weight;
      score.loss += weight * trained_loss[t];
    }
    if (!std::isfinite(score.loss)) {
      return absl::AbortedError(absl::StrCat("record ", score.index, ": the loss isn't finite"));
    }
    if (score.trained_tokens > 0) score.loss /= score.trained_weight;
    scores.push_back(std::move(score));
  }
  return scores;
}

absl::Status Scorer::AddGradients(absl::Span<const TrainingSequence> sequences) {
  const Batch batch = Batch::Of(sequences, {});
  if (batch.trained_tokens == 0) return absl::OkStatus();
  const Tensor losses = model_->Loss(batch.ids, batch.targets, batch.context);
  Backward(losses, batch.WeightsLike(losses));
  return absl::OkStatus();
}

absl::StatusOr<ScoreTotals> Scorer::Run(const std::function<void(const RecordScore&)>& on_record,
                                        const std::function<bool()>& cancelled) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < data_->size(); ++i) lengths.push_back(data_->tokens(i));
  ScoreTotals totals;
  double loss_sum = 0, weight_sum = 0;
  int64_t first = 0;
  for (const int64_t count : CutIntoPasses(lengths, {.pass_tokens = kPassTokens})) {
    if (cancelled && cancelled()) return absl::CancelledError("interrupted");
    std::vector<TrainingSequence> sequences;
    for (int64_t i = 0; i < count; ++i) {
      LORICA_ASSIGN_OR_RETURN(TrainingSequence sequence, data_->Read(first + i));
      sequences.push_back(std::move(sequence));
    }
    LORICA_ASSIGN_OR_RETURN(const std::vector<RecordScore> scores, ScorePass(first, sequences));
    if (!options_.gradients.empty()) LORICA_RETURN_IF_ERROR(AddGradients(sequences));
    for (const RecordScore& score : scores) {
      ++totals.records;
      totals.tokens += score.tokens;
      totals.trained_tokens += score.trained_tokens;
      loss_sum += score.loss * score.trained_weight;
      weight_sum += score.trained_weight;
      if (lines_.has_value()) {
        LORICA_RETURN_IF_ERROR(AsRunError(lines_->file().Append(absl::string_view(Line(score)))));
      }
      if (on_record) on_record(score);
    }
    first += count;
  }
  if (totals.trained_tokens == 0) {
    return absl::FailedPreconditionError("expected a trained token in the data, found none");
  }
  totals.loss = loss_sum / weight_sum;
  totals.perplexity = std::exp(totals.loss);
  if (!options_.gradients.empty()) {
    LORICA_RETURN_IF_ERROR(
        AsRunError(WriteAdapterGradients(adapters_, BaseFactsOf(model_->config()).form,
                                         1 / weight_sum, *backend_, files_, options_.gradients)));
  }
  if (logits_.has_value()) {
    LORICA_RETURN_IF_ERROR(AsRunError(logits_->Finish()));
    LORICA_RETURN_IF_ERROR(AsRunError(logits_file_->Commit()));
  }
  if (lines_.has_value()) LORICA_RETURN_IF_ERROR(AsRunError(lines_->Commit()));
  return totals;
}

}  // namespace

void VisitScoreOptions(ScoreOptions& o, OptionVisitor& v) {
  constexpr absl::string_view kInput = "Input and output", kData = "Data", kRunning = "Running";
  v.On({.name = "model", .group = kInput, .help = "Hugging Face folder or .gguf file"}, o.model);
  v.On({.name = "adapter",
        .group = kInput,
        .help = "adapter folder or GGUF file",
        .default_text = "none"},
       o.adapter);
  v.On({.name = "data", .group = kInput, .help = "files, 'patterns*' or folders, as of sft"},
       o.data);
  v.On({.name = "output",
        .group = kInput,
        .help = "JSONL file with a line a record: losses and log-probabilities",
        .default_text = "none"},
       o.output);
  v.On({.name = "logits",
        .group = kInput,
        .help = "safetensors file with the logits of every record",
        .default_text = "none"},
       o.logits);
  v.On({.name = "gradients",
        .group = kInput,
        .help = "safetensors file with the gradient of the mean loss for every factor and router",
        .default_text = "none"},
       o.gradients);
  v.On({.name = "max-length", .group = kData, .help = "tokens of a record, at most; 0: no limit"},
       o.max_length);
  v.On({.name = "overlong",
        .group = kData,
        .help = "what becomes of longer records",
        .choices = {"truncate", "error", "drop"}},
       o.overlong);
  v.On({.name = "train-on",
        .group = kData,
        .help = "which tokens of a conversation count in the loss",
        .choices = {"assistant", "last", "all"}},
       o.train_on);
  v.On({.name = "system",
        .group = kData,
        .help = "system message for conversations without one",
        .default_text = "the template's"},
       o.system);
  v.On({.name = "chat-template",
        .group = kData,
        .help = "one of the model's templates by name, or a file",
        .default_text = "the model's"},
       o.chat_template);
  v.On({.name = "dtype",
        .group = kRunning,
        .help = "compute type; f64 is slow and exact",
        .choices = {"bf16", "f32", "f64"}},
       o.dtype);
  v.On({.name = "threads",
        .group = kRunning,
        .help = "threads; 0: the cores that this process may use"},
       o.threads);
  v.On({.name = "backend", .group = kRunning, .help = "device kind", .choices = {"cpu", "cuda"}},
       o.backend);
  v.On({.name = "device", .group = kRunning, .help = "device number"}, o.device);
}

absl::StatusOr<ScoreTotals> RunScore(const ScoreOptions& options,
                                     const std::function<void(const RecordScore&)>& on_record,
                                     const std::function<bool()>& cancelled, FileSystem& files) {
  LORICA_RETURN_IF_ERROR(ValidateScore(options));
  try {
    Scorer scorer(options, files);
    LORICA_RETURN_IF_ERROR(scorer.Load());
    return scorer.Run(on_record, cancelled);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const DeviceError& error) {
    return absl::ResourceExhaustedError(error.what());
  } catch (const Error& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace lorica
