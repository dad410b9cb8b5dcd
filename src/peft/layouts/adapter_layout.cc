#include "lorica/peft/layouts/adapter_layout.h"

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/model_config.h"
#include "lorica/peft/layouts/layout_files.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

struct LayoutName {
  AdapterLayout layout;
  absl::string_view name;
};
constexpr LayoutName kLayouts[] = {
    {AdapterLayout::kPeft2d, "peft-2d"},
    {AdapterLayout::kPeft3d, "peft-3d"},
    {AdapterLayout::kPeft3d018, "peft-3d-0.18"},
    {AdapterLayout::kMlx, "mlx"},
    {AdapterLayout::kGguf, "gguf"},
    {AdapterLayout::kSglang, "sglang"},
    {AdapterLayout::kSglangSharedOuter, "sglang-shared-outer"},
};

}  // namespace

absl::string_view Name(AdapterLayout layout) {
  for (const LayoutName& row : kLayouts) {
    if (row.layout == layout) return row.name;
  }
  return "";
}

absl::StatusOr<AdapterLayout> ParseAdapterLayout(absl::string_view name) {
  for (const LayoutName& row : kLayouts) {
    if (row.name == name) return row.layout;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected peft-2d, peft-3d, peft-3d-0.18, mlx, gguf, sglang or "
                   "sglang-shared-outer, found ",
                   Quoted(name)));
}

absl::StatusOr<ExpertAxis> ParseExpertAxis(absl::string_view name) {
  if (name == "rank-major") return ExpertAxis::kRankMajor;
  if (name == "expert-major") return ExpertAxis::kExpertMajor;
  return absl::InvalidArgumentError(
      absl::StrCat("expected rank-major or expert-major, found ", Quoted(name)));
}

absl::StatusOr<ExpertOrientation> ParseExpertOrientation(absl::string_view name) {
  if (name == "in-out") return ExpertOrientation::kInOut;
  if (name == "out-in") return ExpertOrientation::kOutIn;
  return absl::InvalidArgumentError(
      absl::StrCat("expected in-out or out-in, found ", Quoted(name)));
}

absl::StatusOr<ReadAdapter> ReadStoredAdapter(const std::string& path, Backend& backend,
                                              const AdapterReadOptions& options,
                                              FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
  if (info.is_regular) {
    if (IsGgufPath(path)) return layouts::ReadGgufAdapter(path, backend, options, files);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected an adapter folder or a GGUF file"));
  }
  const bool peft = files.Stat(JoinPath(path, "adapter_model.safetensors")).ok();
  const bool mlx = files.Stat(JoinPath(path, "adapters.safetensors")).ok();
  if (peft && mlx) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": holds adapter_model.safetensors (PEFT) and adapters.safetensors "
                     "(mlx-lm); expected one of them"));
  }
  if (mlx) return layouts::ReadMlxFolder(path, backend, options, files);
  if (peft) return layouts::ReadPeftFolder(path, backend, options, files);
  return absl::NotFoundError(absl::StrCat(
      path, ": holds neither adapter_model.safetensors (PEFT) nor adapters.safetensors (mlx-lm)"));
}

absl::Status WriteStoredAdapter(const StoredAdapter& adapter, AdapterLayout layout,
                                const std::string& folder, const BaseFacts* base,
                                FileSystem& files) {
  const bool peft = layout == AdapterLayout::kPeft2d || layout == AdapterLayout::kPeft3d ||
                    layout == AdapterLayout::kPeft3d018;
  if (!peft && !adapter.saved.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(Name(layout), ": has no place for ",
                                                      Quoted(adapter.saved[0].module),
                                                      ", which the adapter brings in full"));
  }
  switch (layout) {
    case AdapterLayout::kPeft2d:
      return layouts::WritePeft2d(adapter, folder, files);
    case AdapterLayout::kPeft3d:
    case AdapterLayout::kPeft3d018:
      return layouts::WritePeft3d(adapter, layout, folder, files);
    case AdapterLayout::kMlx:
      return layouts::WriteMlx(adapter, folder, files);
    case AdapterLayout::kSglang:
    case AdapterLayout::kSglangSharedOuter:
      return layouts::WriteSglang(adapter, layout == AdapterLayout::kSglangSharedOuter, folder,
                                  files);
    case AdapterLayout::kGguf:
      if (base == nullptr) {
        return absl::FailedPreconditionError(
            "gguf: an adapter is written for its base model; give --model");
      }
      return layouts::WriteGgufAdapter(adapter, *base, folder, files);
  }
  return absl::InternalError("unknown layout");
}

}  // namespace lorica
