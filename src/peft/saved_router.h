// SavedRouter: a router that an adapter brings in full (PEFT's modules_to_save), because it was
// trained beside the factors or because its correction bias was moved.
#ifndef LORICA_PEFT_SAVED_ROUTER_H_
#define LORICA_PEFT_SAVED_ROUTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/nn/router.h"
#include "lorica/peft/stored_adapter.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

struct PeftConfig;

// What a router consists of: "weight", then "bias" and "e_score_correction_bias" where it has them.
struct RouterPart {
  absl::string_view name;
  Parameter* parameter = nullptr;
  // The master of a trainable part, else its values; without autograd slot.
  Tensor Values() const;
};
std::vector<RouterPart> PartsOf(nn::Router& router);
// Those of them that a gradient can reach.
std::vector<RouterPart> TrainablePartsOf(nn::Router& router);

struct SavedRouter {
  std::string path;  // "model.layers.1.mlp.gate"
  nn::Router* router = nullptr;
  // In the order of PartsOf: what the adapter brings, and the model's own. Both empty for a router
  // that is trained in place.
  std::vector<Tensor> values, originals;
};

// The routers below `root`, in the order of the tree.
std::vector<SavedRouter> ListRouters(Module& root);

// Fits the tensors of a file to the routers below `root`; nothing is changed. InvalidArgument
// naming `where` for a tensor that belongs to no router or has another shape, and for one that a
// router lacks of which there are others.
absl::StatusOr<std::vector<SavedRouter>> FitRouters(const std::vector<SavedTensor>& tensors,
                                                    Module& root, absl::string_view where);

// InvalidArgument naming `where` for a router below `root` that `config` saves and `routers` lacks.
absl::Status CheckSavedRouters(const PeftConfig& config, Module& root,
                               const std::vector<SavedRouter>& routers, absl::string_view where);

}  // namespace lorica

#endif  // LORICA_PEFT_SAVED_ROUTER_H_
