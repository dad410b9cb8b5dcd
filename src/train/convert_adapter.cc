#include "lorica/train/convert_adapter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/adapter_layout.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"

namespace lorica {
namespace {

absl::Status CheckOptions(const ConvertOptions& options, FileSystem& files) {
  const std::pair<const char*, const std::string*> required[] = {
      {"--adapter", &options.adapter}, {"--to", &options.to}, {"--output", &options.output}};
  for (const auto& [name, value] : required) {
    if (value->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is needed for converting"));
    }
  }
  if (files.Stat(options.output).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output: ", options.output, " exists already"));
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<T> Option(const char* name, absl::StatusOr<T> value) {
  if (value.ok()) return value;
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", value.status().message()));
}

absl::StatusOr<AdapterReadOptions> ReadOptions(const ConvertOptions& options) {
  AdapterReadOptions read;
  if (!options.expert_axis.empty()) {
    LORICA_ASSIGN_OR_RETURN(read.axis,
                            Option("--expert-axis", ParseExpertAxis(options.expert_axis)));
  }
  if (!options.expert_orientation.empty()) {
    LORICA_ASSIGN_OR_RETURN(
        read.orientation,
        Option("--expert-orientation", ParseExpertOrientation(options.expert_orientation)));
  }
  return read;
}

// Reads `path` and compares it with what it was written from.
absl::Status Check(const std::string& path, const StoredAdapter& want, Backend& backend,
                   const BaseFacts* base, FileSystem& files) {
  AdapterReadOptions options;
  options.base = base;
  absl::StatusOr<ReadAdapter> again = ReadStoredAdapter(path, backend, options, files);
  const absl::Status status =
      again.ok() ? CompareDeltas(again->adapter, want) : std::move(again).status();
  if (status.ok()) return status;
  return absl::InternalError(
      absl::StrCat("what was written reads differently: ", status.message()));
}

// One file under a temporary name, which nothing is left of on failure.
absl::Status WriteOneFile(const ConvertOptions& options, const StoredAdapter& adapter,
                          AdapterLayout layout, Backend& backend, const BaseFacts* base,
                          FileSystem& files) {
  const std::string folder = FolderOf(options.output);
  const std::string temporary =
      JoinPath(folder, TemporaryName(NameOf(options.output), MakeNonce()));
  absl::Status status = WriteStoredAdapter(adapter, layout, temporary, base, files);
  if (status.ok()) status = Check(temporary, adapter, backend, base, files);
  if (status.ok()) status = files.RenameNew(temporary, options.output);
  if (!status.ok()) {
    (void)files.RemoveFile(temporary);
    return status;
  }
  return files.SyncDirectory(folder);
}

absl::Status WriteFolder(const ConvertOptions& options, const StoredAdapter& adapter,
                         AdapterLayout layout, Backend& backend, const BaseFacts* base,
                         FileSystem& files) {
  absl::StatusOr<DirectoryCommit> folder = DirectoryCommit::Begin(files, options.output);
  if (!folder.ok()) return folder.status();
  LORICA_RETURN_IF_ERROR(
      WriteStoredAdapter(adapter, layout, folder->temporary_path(), base, files));
  LORICA_RETURN_IF_ERROR(Check(folder->temporary_path(), adapter, backend, base, files));
  return folder->Commit();
}

// What the layout or the missing model is to blame for, rather than the disk.
absl::Status AsWriteError(absl::Status status) {
  const absl::StatusCode code = status.code();
  if (code == absl::StatusCode::kFailedPrecondition || code == absl::StatusCode::kUnimplemented) {
    return AsInputError(std::move(status));
  }
  return AsRunError(std::move(status));
}

// Families whose experts PEFT 0.21 doesn't stack from one tensor an expert.
constexpr absl::string_view kNotStacked[] = {"qwen2_moe", "gpt_oss", "qwen3_5_moe",
                                             "qwen3_5_moe_text"};

std::vector<std::string> NotesOn(const StoredAdapter& adapter, AdapterLayout layout,
                                 const BaseFacts& base) {
  std::vector<std::string> notes;
  if (layout == AdapterLayout::kPeft2d && !ExpertKindName(adapter).empty() &&
      std::find(std::begin(kNotStacked), std::end(kNotStacked), base.model_type) !=
          std::end(kNotStacked)) {
    notes.push_back(absl::StrCat("PEFT with transformers 5 leaves experts of ", base.model_type,
                                 " out of a peft-2d file without a word; it reads peft-3d"));
  }
  return notes;
}

}  // namespace

void VisitConvertOptions(ConvertOptions& options, OptionVisitor& visitor) {
  visitor.On({.name = "adapter", .group = "Input", .help = "adapter folder or GGUF file"},
             options.adapter);
  visitor.On({.name = "model",
              .group = "Input",
              .help = "base model, folder or GGUF file; needed for gguf and for models whose "
                      "experts have an order of their own"},
             options.model);
  visitor.On({.name = "expert-axis",
              .group = "Input",
              .help = "order of ranks and experts in stacked experts, where no version tells it",
              .choices = {"rank-major", "expert-major"},
              .default_text = "told by the file"},
             options.expert_axis);
  visitor.On({.name = "expert-orientation",
              .group = "Input",
              .help = "what lora_A and lora_B of stacked experts span, where sizes don't tell it",
              .choices = {"in-out", "out-in"},
              .default_text = "told by the file"},
             options.expert_orientation);
  visitor.On({.name = "to",
              .group = "Output",
              .help = "layout to write",
              .choices = {"peft-2d", "peft-3d", "peft-3d-0.18", "mlx", "gguf", "sglang",
                          "sglang-shared-outer"}},
             options.to);
  visitor.On({.name = "output", .group = "Output", .help = "folder to make; for gguf a file"},
             options.output);
}

absl::StatusOr<ConvertSummary> ConvertAdapter(const ConvertOptions& options, Backend& backend,
                                              FileSystem& files) {
  LORICA_RETURN_IF_ERROR(CheckOptions(options, files));
  LORICA_ASSIGN_OR_RETURN(const AdapterLayout layout,
                          Option("--to", ParseAdapterLayout(options.to)));
  LORICA_ASSIGN_OR_RETURN(AdapterReadOptions read_options, ReadOptions(options));
  BaseFacts facts;
  if (!options.model.empty()) {
    LORICA_ASSIGN_OR_RETURN(facts, AsInputError(ReadBaseFacts(options.model, files)));
    read_options.base = &facts;
  }
  LORICA_ASSIGN_OR_RETURN(
      const ReadAdapter source,
      AsInputError(ReadStoredAdapter(options.adapter, backend, read_options, files)));
  const bool folded =
      source.layout == AdapterLayout::kPeft3d || source.layout == AdapterLayout::kPeft3d018;
  if (!folded && (read_options.axis.has_value() || read_options.orientation.has_value())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--expert-", read_options.axis.has_value() ? "axis" : "orientation",
                     " is for ", Name(AdapterLayout::kPeft3d), ", and ", Quoted(options.adapter),
                     " is ", Name(source.layout)));
  }
  const auto write = layout == AdapterLayout::kGguf ? WriteOneFile : WriteFolder;
  LORICA_RETURN_IF_ERROR(
      AsWriteError(write(options, source.adapter, layout, backend, read_options.base, files)));
  ConvertSummary summary;
  summary.from = std::string(Name(source.layout));
  summary.expert_kind = std::string(ExpertKindName(source.adapter));
  summary.modules = static_cast<int64_t>(source.adapter.modules.size());
  summary.left_behind = source.adapter.left_behind;
  summary.notes = NotesOn(source.adapter, layout, facts);
  return summary;
}

}  // namespace lorica
