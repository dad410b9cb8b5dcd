// PEFT adapter folders: adapter_config.json and adapter_model.safetensors.
//
// Keys: base_model.model.<path>.lora_A.weight [R, in], .lora_B.weight [out, R]; for an embedding
// .lora_embedding_A [R, V] and .lora_embedding_B [C, R]. Written as f32; read as f32, f16, bf16 or
// f64.
#ifndef LORICA_PEFT_PEFT_FILES_H_
#define LORICA_PEFT_PEFT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/peft/layouts/adapter_layout.h"

namespace lorica {

struct PeftSaveOptions {
  std::string base_model;  // written as base_model_name_or_path
  LoraInit init = LoraInit::kKaiming;
  int slot = 0;
  // The model is the text part of a larger one, whose names of modules are written
  // (nn/text_part.h).
  bool text_part = false;
  // Of models with experts: kPeft2d or kPeft3d, and how files of the model have its experts.
  AdapterLayout layout = AdapterLayout::kPeft2d;
  ExpertForm form;
};

// Writes the folder, complete or not at all; an existing one is an error (AlreadyExists). The
// folder above must exist. Replaced weights go along as they are; throws Error for a set with
// replaced weights and experts.
absl::Status SavePeftAdapter(FileSystem& files, const std::string& folder, const AdapterSet& set,
                             const PeftSaveOptions& options = {});

// Reads an adapter, in any layout of adapter_layout.h, and attaches it to `root`, whose parameters
// are frozen by it. Weights that it brings in full (modules_to_save; the embedding, the head and
// routers can be) take the place of the model's. Errors, before anything is changed: a tensor that
// belongs to no module of the model or doesn't fit it, a factor without its partner, a module that
// the configuration names and the file lacks, or the reverse; a rank that contradicts the
// configuration; a value that isn't finite; a feature that isn't supported, by name. A copy of a
// base weight that PEFT stores beside an adapted embedding or head must equal the model's. `seed`
// keys dropout, should the adapter be trained on.
absl::StatusOr<AdapterSet> LoadPeftAdapter(const std::string& folder, Module& root,
                                           Backend& backend, DType compute, uint64_t seed = 0,
                                           FileSystem& files = PosixFiles());

// The key of a factor in adapter_model.safetensors.
std::string PeftKey(const AdaptedModule& module, bool is_a);
// The factor as that file has it (embedding's A transposed), contiguous, in its own type.
Tensor PeftTensor(const AdaptedModule& module, const Tensor& factor, bool is_a);

}  // namespace lorica

#endif  // LORICA_PEFT_PEFT_FILES_H_
