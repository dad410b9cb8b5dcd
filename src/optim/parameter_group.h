// What optimizers work on: named masters, in groups that share a clock.
#ifndef LORICA_OPTIM_PARAMETER_GROUP_H_
#define LORICA_OPTIM_PARAMETER_GROUP_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

// What a parameter is to its model: optimizers route by it, checkpoints carry it.
enum class ParameterRole {
  kLoraA,
  kLoraB,
  kMatrix,     // of a linear
  kVector,     // biases, norms: one axis or none
  kEmbedding,  // token tables
  kHead,       // the output layer
};

// "lora_a", "lora_b", "matrix", "vector", "embedding", "head".
absl::string_view Name(ParameterRole role);

// A leaf in its accumulator type (f32, f64 in f64 mode) whose gradient is the leaf's accumulator
// (Grad). The handle shares its bytes with the module or adapter that it came from; it is written
// in place, never replaced.
struct NamedParameter {
  std::string path;  // distinct within a run: "model.layers.0.self_attn.q_proj.lora_A"
  Tensor master;
  ParameterRole role = ParameterRole::kMatrix;
};

// Parameters that step together, in a fixed order: norms are summed and updates made in it. One
// optimizer and one clock belong to a group (optimizer.h), so adapters that joined at different
// times are groups of their own.
using ParameterGroup = std::vector<NamedParameter>;

// Forgets the gradients of all.
void ZeroGrad(const ParameterGroup& group);

}  // namespace lorica

#endif  // LORICA_OPTIM_PARAMETER_GROUP_H_
