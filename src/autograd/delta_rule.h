// The gated delta rule as an op.
#ifndef LORICA_AUTOGRAD_DELTA_RULE_H_
#define LORICA_AUTOGRAD_DELTA_RULE_H_

#include "lorica/tensor/sequences.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

// Backend's DeltaRule for every sequence of the T tokens. q, k [T, G, K], v [T, H, V], g, beta [T,
// H], all f32 or all f64 (a bf16 layer casts); y [T, H, V]. Saves its inputs; the backward pass
// makes the states again, about 2 sqrt(T) of a head at a time.
Tensor GatedDeltaRule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                      const Tensor& beta, const Sequences& sequences);

// For decoding: the same tokens, but going on from `state` [sequences, H, K, V], which stays as it
// is; nothing is recorded. `state` of the result is the one after the last token.
struct DeltaRuleStep {
  Tensor y, state;
};
DeltaRuleStep ContinueDeltaRule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                const Tensor& beta, const Sequences& sequences,
                                const Tensor& state);

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_DELTA_RULE_H_
