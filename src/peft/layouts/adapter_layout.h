// Layouts of adapter files: recognised by content, read into a StoredAdapter and written from one.
// docs/adapters.md has the table of keys, axes and readers.
#ifndef LORICA_PEFT_LAYOUTS_ADAPTER_LAYOUT_H_
#define LORICA_PEFT_LAYOUTS_ADAPTER_LAYOUT_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/io/file_system.h"
#include "lorica/io/safetensors.h"
#include "lorica/peft/layouts/base_facts.h"
#include "lorica/peft/stored_adapter.h"

namespace lorica {

enum class AdapterLayout {
  kPeft2d,             // PEFT folder, one pair of tensors an expert; also what has no experts
  kPeft3d,             // PEFT >= 0.19: stacked experts, A spans the input
  kPeft3d018,          // PEFT 0.18: stacked experts, A spans axis 1 of the parameter
  kMlx,                // mlx-lm
  kGguf,               // llama.cpp, one file
  kSglang,             // [E, R, in] and [E, out, R] a projection
  kSglangSharedOuter,  // the same with a leading 1 where experts share a factor
};

absl::string_view Name(AdapterLayout layout);  // "peft-2d", ...
absl::StatusOr<AdapterLayout> ParseAdapterLayout(absl::string_view name);

// In which order a file counts the folded rank of stacked experts along B's columns.
enum class ExpertAxis {
  kRankMajor,    // rank * E + expert: PEFT, AutoModel
  kExpertMajor,  // expert * R + rank: Megatron-Bridge
};
enum class ExpertOrientation {
  kInOut,  // A spans the input, B the output
  kOutIn,  // the reverse
};
absl::StatusOr<ExpertAxis> ParseExpertAxis(absl::string_view name);
absl::StatusOr<ExpertOrientation> ParseExpertOrientation(absl::string_view name);

struct AdapterReadOptions {
  // Settle what a file leaves open and win over what peft_version suggests; contradicting sizes or
  // Lorica's own record is an error.
  std::optional<ExpertAxis> axis;
  std::optional<ExpertOrientation> orientation;
  // The base model, where it is known: needed for GGUF, settles sizes and forms elsewhere.
  const BaseFacts* base = nullptr;
  DType dtype = DType::kF32;  // or kF64
  // The folder's adapter_model.safetensors, where the caller has it open.
  std::shared_ptr<const SafetensorsFile> opened;
};

struct ReadAdapter {
  StoredAdapter adapter;
  AdapterLayout layout = AdapterLayout::kPeft2d;
};

// `path` is a folder, or a GGUF file. Errors: a tensor that belongs to nothing, a factor without
// its partner, an expert that is missing, sizes that contradict each other or the configuration,
// values that aren't finite, a feature that isn't supported, and what can't be settled, naming the
// option that would settle it. Tensors lie on `backend` (a CPU one), which must outlive the result.
absl::StatusOr<ReadAdapter> ReadStoredAdapter(const std::string& path, Backend& backend,
                                              const AdapterReadOptions& options = {},
                                              FileSystem& files = PosixFiles());

// Writes the files of `layout` into the folder `folder`, which exists; for GGUF `folder` is the
// file, which must not exist. Values are written as f32. Where a layout's readers know one scale
// only, others are folded into B. An error where the layout can't hold the adapter.
absl::Status WriteStoredAdapter(const StoredAdapter& adapter, AdapterLayout layout,
                                const std::string& folder, const BaseFacts* base,
                                FileSystem& files = PosixFiles());

}  // namespace lorica

#endif  // LORICA_PEFT_LAYOUTS_ADAPTER_LAYOUT_H_
