// What a file or folder is: of every kind that Lorica reads.
#ifndef LORICA_TRAIN_INSPECT_H_
#define LORICA_TRAIN_INSPECT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace lorica {

struct InspectedTensor {
  std::string name;
  std::string type;  // as the format spells it
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

struct InspectedModule {
  std::string path;
  std::string kind;             // "linear", "embedding", "experts"
  std::vector<int64_t> shape;   // [out, in]
  bool default_target = false;  // LoRA adapts it where no pattern is given
};

using InspectedFact = std::pair<std::string, std::variant<int64_t, double, std::string>>;

struct Inspection {
  // "safetensors file", "GGUF file", "model folder", "weights folder", "adapter folder",
  // "checkpoint", "run folder", "tokenizer".
  std::string kind;
  std::vector<InspectedFact> facts;  // metadata and what follows from it, in order
  std::vector<InspectedTensor> tensors;
  int64_t parameters = 0;                // elements of all tensors
  std::vector<InspectedModule> modules;  // of a model: what LoRA can target
};

struct InspectOptions {
  // Read everything: checksums of checkpoints, names, shapes and values (no NaN, no infinity) of
  // weights. What is wrong is an error then; without, a model whose configuration isn't supported
  // is still described.
  bool verify = false;
};

// NotFound where there is nothing; DataLoss and the like (exit_status.h) where it is damaged or of
// no known kind.
absl::StatusOr<Inspection> Inspect(const std::string& path, const InspectOptions& options = {});

}  // namespace lorica

#endif  // LORICA_TRAIN_INSPECT_H_
