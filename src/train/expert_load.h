// ExpertLoads: where the tokens of a stretch of training went.
#ifndef LORICA_TRAIN_EXPERT_LOAD_H_
#define LORICA_TRAIN_EXPERT_LOAD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/nn/moe.h"

namespace lorica {

struct LayerLoad {
  std::string path;  // of the mixture: "model.layers.1.mlp"
  // [E] tokens that chose each expert. Their sum is tokens * experts a token.
  std::vector<int64_t> load;

  bool operator==(const LayerLoad&) const = default;
};
// One a mixture of experts, in the order of the tree; empty for a dense model.
using ExpertLoads = std::vector<LayerLoad>;

// Adds `more`, of the same model, to `sum`, which may be empty.
void AddLoads(const ExpertLoads& more, ExpertLoads& sum);

// The load of a layer's busiest expert over the mean of the layer, in the layer where that is the
// greatest: 1 is even, E means that one expert has all. 0 where nothing was routed.
double WorstImbalance(const ExpertLoads& loads);

// "12 0 7", and back; DataLoss naming `where` for anything else.
std::string LoadText(const std::vector<int64_t>& load);
absl::StatusOr<std::vector<int64_t>> ParseLoad(absl::string_view text, absl::string_view where);

// All mixtures of experts below `root`, with their paths.
std::vector<std::pair<std::string, nn::Moe*>> ListMixtures(Module& root);

}  // namespace lorica

#endif  // LORICA_TRAIN_EXPERT_LOAD_H_
