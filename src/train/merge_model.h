// Merging an adapter into its model: a complete model folder that other programs load.
#ifndef LORICA_TRAIN_MERGE_MODEL_H_
#define LORICA_TRAIN_MERGE_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/backend.h"
#include "lorica/train/option_list.h"

namespace lorica {

struct MergeOptions {
  std::string model;    // a Hugging Face folder or a .gguf file
  std::string adapter;  // a PEFT folder
  std::string output;   // a folder or, of a GGUF model, a .gguf file that doesn't exist yet
  // Type of the floating-point weights in the output: "f32", "bf16", "f16", in a GGUF file also
  // "q8_0"; or "stored". Stored is in a folder each as it is (8-bit ones become bf16), or of a GGUF
  // model the type of its embedding, f32 where that is quantised; in a GGUF file each as it is, but
  // f32 for what the adapter changes and can't be written in its own type.
  std::string dtype = "stored";
};

void VisitMergeOptions(MergeOptions& options, OptionVisitor& visitor);

struct MergeSummary {
  int64_t merged = 0;                    // tensors that the adapter changed
  int64_t tensors = 0;                   // of the model
  int64_t bytes = 0;                     // of weights
  std::vector<std::string> left_behind;  // weights in other formats, which would be stale
  // max |a - b| / max |b| over logits: of the written model as it loads again against those of
  // model and adapter.
  double difference = 0;
};

// W + scale * B A in f32 (f64 for stored f64), rounded once to the type it is stored in. What the
// adapter doesn't change is copied byte for byte, tokenizer and other files included; of a GGUF
// file that becomes a folder configuration, tokenizer and template are written anew. The output
// appears complete, and only after it was loaded and its logits compared, or not at all. A tied
// head that ends up different from the embedding is written apart. Errors have the codes of
// exit_status.h.
absl::StatusOr<MergeSummary> MergeModel(
    const MergeOptions& options, Backend& backend,
    const std::function<void(const std::string&)>& on_message = {},
    FileSystem& files = PosixFiles());

}  // namespace lorica

#endif  // LORICA_TRAIN_MERGE_MODEL_H_
