#include "lorica/train/merge_model.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/autograd/autograd.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/merge.h"
#include "lorica/peft/peft_files.h"
#include "lorica/tensor/random.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/model_folder.h"

namespace lorica {
namespace {

// Enough positions that attention mixes, few enough to cost nothing.
constexpr int64_t kCheckTokens = 32;

// How far logits may move when every weight is rounded to a type, as max |a - b| / max |b|: about
// thirty times the type's unit of rounding; f32 also pays for sums in another order. A wrong scale
// or a transposed factor moves them by more.
double Tolerance(StoredType type) {
  switch (type) {
    case StoredType::kBF16:
    case StoredType::kQ8_0:  // to 1/254 of the largest in a block
      return 0.12;
    case StoredType::kF16:
      return 0.015;
    default:
      return 1e-4;
  }
}

bool ToGguf(const MergeOptions& options) { return absl::EndsWith(options.output, ".gguf"); }

absl::StatusOr<std::optional<StoredType>> ParseType(const MergeOptions& options) {
  const std::string& name = options.dtype;
  if (name == "stored") return std::optional<StoredType>();
  if (name == "f32") return std::optional<StoredType>(StoredType::kF32);
  if (name == "bf16") return std::optional<StoredType>(StoredType::kBF16);
  if (name == "f16") return std::optional<StoredType>(StoredType::kF16);
  if (name == "q8_0" && ToGguf(options)) return std::optional<StoredType>(StoredType::kQ8_0);
  return absl::InvalidArgumentError(
      absl::StrCat("--dtype: expected stored, f32, bf16, f16 or, for a GGUF file, q8_0, found ",
                   Quoted(name), ToGguf(options) ? "" : " for a folder"));
}

absl::Status CheckOptions(const MergeOptions& options, FileSystem& files) {
  const std::pair<const char*, const std::string*> required[] = {
      {"--model", &options.model}, {"--adapter", &options.adapter}, {"--output", &options.output}};
  for (const auto& [name, value] : required) {
    if (value->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is needed for merging"));
    }
  }
  if (ToGguf(options) && !IsGgufPath(options.model)) {
    return absl::InvalidArgumentError(absl::StrCat("--output: expected a folder, found ",
                                                   Quoted(options.output),
                                                   "; only a GGUF model can become a GGUF file"));
  }
  if (files.Stat(options.output).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output: ", options.output, " exists already"));
  }
  return absl::OkStatus();
}

// The narrowest type among those the weights are written in, which bounds the check.
StoredType WrittenType(const ModelFiles& model, const std::optional<StoredType>& wanted) {
  if (wanted.has_value()) return *wanted;
  StoredType type = StoredType::kF32;
  for (const std::string& name : model.tensors->names()) {
    const StoredType stored = model.tensors->Find(name)->type;
    if (stored == StoredType::kBF16 || stored == StoredType::kQ8_0) return stored;
    if (stored == StoredType::kF8E4M3 || stored == StoredType::kF8E5M2) return StoredType::kBF16;
    if (stored == StoredType::kF16) type = stored;
  }
  return type;
}

// What a GGUF file's tensors become where nobody says: the type of its largest table.
StoredType TypeOfGguf(const ModelFiles& model) {
  const StoredTensorInfo* table = model.tensors->Find("token_embd.weight");
  if (table == nullptr || IsQuantised(table->type)) return StoredType::kF32;
  return table->type == StoredType::kF64 ? StoredType::kF32 : table->type;
}

// f64 only where the files are, so that such values survive.
DType ComputeFor(const ModelFiles& model) {
  for (const std::string& name : model.tensors->names()) {
    if (model.tensors->Find(name)->type == StoredType::kF64) return DType::kF64;
  }
  return DType::kF32;
}

std::vector<double> CheckLogits(CausalLm& model) {
  RandomStream stream(0, HashName("merge check"));
  std::vector<int32_t> ids(static_cast<size_t>(kCheckTokens));
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(stream.Below(static_cast<uint64_t>(model.config().vocab_size)));
  }
  const NoGrad no_grad;
  const ForwardContext context =
      ForwardContext::ForSequences(Sequences::Single(static_cast<int64_t>(ids.size())));
  return model.Logits(model.Hidden(ids, context), context).ToDoubles();
}

double LargestDifference(const std::vector<double>& got, const std::vector<double>& want) {
  double difference = 0;
  double scale = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double distance = std::abs(got[i] - want[i]);
    if (!(distance <= difference)) difference = distance;  // keeps NaN
    scale = std::max(scale, std::abs(want[i]));
  }
  return scale > 0 ? difference / scale : difference;
}

struct Merged {
  LoadedModel loaded;
  std::vector<double> logits;  // of model and adapter before merging
  std::set<std::string> changed;
};

// Model and adapter in memory, merged.
absl::StatusOr<Merged> MergeInMemory(const MergeOptions& options, Backend& backend, DType compute) {
  Merged merged;
  LORICA_ASSIGN_OR_RETURN(merged.loaded, AsInputError(LoadModel(options.model, backend, compute)));
  CausalLm& model = *merged.loaded.model;
  LORICA_ASSIGN_OR_RETURN(const AdapterSet adapters,
                          AsInputError(LoadPeftAdapter(options.adapter, model, backend, compute)));
  merged.logits = CheckLogits(model);
  LORICA_ASSIGN_OR_RETURN(MergedWeights weights,
                          AsInputError(MergedWeights::Merge(model, adapters)));
  weights.Keep();
  std::set<const Parameter*> touched;
  for (const AdaptedModule& module : adapters.modules()) touched.insert(&module.host->weight());
  for (const ReplacedWeight& weight : adapters.replaced()) touched.insert(&weight.host->weight());
  for (const SavedRouter& router : adapters.routers()) {
    for (const RouterPart& part : PartsOf(*router.router)) touched.insert(part.parameter);
  }
  if (model.config().tied && !model.lm_head().tied()) touched.insert(&model.lm_head().weight());
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    if (touched.count(&parameter) > 0) merged.changed.insert(path);
  });
  return merged;
}

// One of the two.
struct Output {
  std::optional<DirectoryCommit> folder;
  std::optional<FileCommit> file;
};

absl::StatusOr<Output> BeginOutput(const MergeOptions& options, FileSystem& files) {
  Output output;
  if (ToGguf(options)) {
    LORICA_ASSIGN_OR_RETURN(FileCommit file, FileCommit::Begin(files, options.output));
    output.file.emplace(std::move(file));
  } else {
    LORICA_ASSIGN_OR_RETURN(DirectoryCommit folder, DirectoryCommit::Begin(files, options.output));
    output.folder.emplace(std::move(folder));
  }
  return output;
}

}  // namespace

void VisitMergeOptions(MergeOptions& options, OptionVisitor& visitor) {
  visitor.On({.name = "model", .group = "Input", .help = "Hugging Face folder or GGUF file"},
             options.model);
  visitor.On({.name = "adapter", .group = "Input", .help = "adapter folder or GGUF file"},
             options.adapter);
  visitor.On({.name = "output", .group = "Output", .help = "folder to make, or .gguf file"},
             options.output);
  visitor.On({.name = "dtype",
              .group = "Output",
              .help = "type of the merged weights; stored: as they are in the model",
              .choices = {"stored", "f32", "bf16", "f16", "q8_0"}},
             options.dtype);
}

absl::StatusOr<MergeSummary> MergeModel(const MergeOptions& options, Backend& backend,
                                        const std::function<void(const std::string&)>& on_message,
                                        FileSystem& files) {
  const auto say = [&](const std::string& message) {
    if (on_message) on_message(message);
  };
  LORICA_RETURN_IF_ERROR(CheckOptions(options, files));
  internal::ChangedModel changed;
  LORICA_ASSIGN_OR_RETURN(changed.type, ParseType(options));
  LORICA_ASSIGN_OR_RETURN(const ModelFiles opened, AsInputError(OpenModel(options.model)));
  const bool to_gguf = ToGguf(options);
  if (opened.gguf && !to_gguf && !changed.type.has_value()) changed.type = TypeOfGguf(opened);
  changed.source = opened.tensors.get();
  const DType compute = ComputeFor(opened);

  say(absl::StrCat("merging ", options.adapter, " into ", options.model));
  LORICA_ASSIGN_OR_RETURN(Merged merged, MergeInMemory(options, backend, compute));
  changed.model = merged.loaded.model.get();
  changed.changed = merged.changed;

  LORICA_ASSIGN_OR_RETURN(Output output, AsRunError(BeginOutput(options, files)));
  LORICA_ASSIGN_OR_RETURN(
      const internal::WrittenWeights written,
      AsRunError(to_gguf ? internal::WriteGgufAsGguf(changed, options.model, output.file->file())
                 : opened.gguf ? internal::WriteGgufAsFolder(changed, options.model, *output.folder)
                               : internal::WriteChangedFolder(changed, options.model, files,
                                                              *output.folder)));
  merged.loaded.model.reset();  // makes room for the one that is loaded again

  say("loading what was written, and comparing");
  LORICA_ASSIGN_OR_RETURN(const LoadedModel again,
                          AsRunError(LoadModel(to_gguf ? output.file->temporary_path()
                                                       : output.folder->temporary_path(),
                                               backend, compute)));
  MergeSummary summary;
  summary.difference = LargestDifference(CheckLogits(*again.model), merged.logits);
  const double tolerance = Tolerance(WrittenType(opened, changed.type));
  if (!(summary.difference <= tolerance)) {
    return absl::AbortedError(absl::StrFormat(
        "the merged model's logits differ by %.3g from those of model and adapter, more than the "
        "%.3g that rounding explains; nothing was written",
        summary.difference, tolerance));
  }
  LORICA_RETURN_IF_ERROR(AsRunError(to_gguf ? output.file->Commit() : output.folder->Commit()));
  summary.merged = static_cast<int64_t>(merged.changed.size());
  summary.tensors = written.tensors;
  summary.bytes = written.bytes;
  summary.left_behind = written.left_behind;
  return summary;
}

}  // namespace lorica
