// The text model inside one that also takes pictures (Gemma3ForConditionalGeneration): its tensors
// and modules by the names that the text model has alone.
#ifndef LORICA_NN_TEXT_PART_H_
#define LORICA_NN_TEXT_PART_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/io/tensor_source.h"

namespace lorica {

// "model.norm.weight" for "language_model.model.norm.weight" (as files have it) and for
// "model.language_model.norm.weight" (as transformers names the modules); "" for what belongs to
// another part.
std::string NameInTextPart(absl::string_view name);

// What transformers calls the module `path` of the text model inside the whole one:
// "model.language_model.layers.0.mlp.up_proj" for "model.layers.0.mlp.up_proj".
std::string PathOfTextPart(absl::string_view path);

// The text model's tensors of `source`, under its own names; the others are left out. An error
// where two tensors have one name.
absl::StatusOr<std::unique_ptr<TensorSource>> MakeTextPartSource(
    std::unique_ptr<TensorSource> source);

}  // namespace lorica

#endif  // LORICA_NN_TEXT_PART_H_
