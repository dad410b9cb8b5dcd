// Adapters with experts between files and a model: what peft_files.h leaves to the layouts.
#ifndef LORICA_PEFT_EXPERT_FILES_H_
#define LORICA_PEFT_EXPERT_FILES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"
#include "lorica/io/safetensors.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/peft/layouts/adapter_layout.h"
#include "lorica/peft/stored_adapter.h"

namespace lorica {

// Whether only the layouts read `folder` (or a GGUF file): factors of experts, modules that are
// named as parameters, or a file that isn't PEFT's. `opened` is its adapter_model.safetensors, null
// where there is none.
bool NeedsLayouts(const std::string& folder, const SafetensorsFile* opened, FileSystem& files);

// LoadPeftAdapter of such a folder or GGUF file. `opened`: the folder's adapter_model.safetensors,
// where it has one.
absl::StatusOr<AdapterSet> LoadByLayout(const std::string& folder, Module& root, Backend& backend,
                                        DType compute, uint64_t seed, FileSystem& files,
                                        std::shared_ptr<const SafetensorsFile> opened);

// What a slot of `set` is as a file; its tensors share the set's memory where they can.
StoredAdapter StoredAdapterOf(const AdapterSet& set, int slot, const ExpertForm& form,
                              const std::string& base_model);

// Gradients of the factors of one stack of experts, a [E, R, in] and b [E, out, R] (or a leading
// 1), under the keys and in the shapes that `layout` has for the factors: one pair of tensors an
// expert (kPeft2d) or the folded pair (any other). Where gate and up share an A, both keys of
// kPeft2d get its gradient. `layer_parts`: how many stacks of the layer have adapters.
std::vector<std::pair<std::string, Tensor>> ExpertTensors(const AdaptedModule& module,
                                                          const Tensor& a, const Tensor& b,
                                                          AdapterLayout layout,
                                                          const ExpertForm& form, int layer_parts);

}  // namespace lorica

#endif  // LORICA_PEFT_EXPERT_FILES_H_
