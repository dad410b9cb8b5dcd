// The activation between an expert's two products, step by step.
#ifndef LORICA_AUTOGRAD_OPS_GATED_ACTIVATION_H_
#define LORICA_AUTOGRAD_OPS_GATED_ACTIVATION_H_

#include "lorica/tensor/backend.h"
#include "lorica/tensor/tensor.h"

namespace lorica::ops {

// f(h) * factor by ops that each round to h's type, [M, I] of that type; factor [M, 1] of the
// accumulator type or undefined. Clamped and shifted gates run in the accumulator type, as NeMo
// AutoModel has them, except for interleaved ones.
Tensor StepwiseActivation(const Tensor& h, const Tensor& factor, const GatedActivation& function);

// [M, 2 I] in two halves, or every other column each.
struct GateAndUp {
  Tensor gate, up;  // [M, I]
};
GateAndUp SplitGate(const Tensor& h, bool interleaved);

}  // namespace lorica::ops

#endif  // LORICA_AUTOGRAD_OPS_GATED_ACTIVATION_H_
