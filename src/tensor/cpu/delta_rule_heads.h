// What the loops of delta_rule-inl.h work on.
#ifndef LORICA_TENSOR_CPU_DELTA_RULE_HEADS_H_
#define LORICA_TENSOR_CPU_DELTA_RULE_HEADS_H_

#include <cstdint>

namespace lorica::cpu {

// One head of one sequence: pointers at its first token, strides in elements between tokens.
template <typename T>
struct DeltaHead {
  const T *q, *k, *v, *g, *beta;
  int64_t qk_stride, v_stride, gate_stride;
  int64_t keys, values;
};

// Gradients of that head; dq and dk are added to, because heads share them, the others written.
template <typename T>
struct DeltaHeadGrad {
  const T *dy;
  T *dq, *dk, *dv, *dg, *dbeta;
};

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_DELTA_RULE_HEADS_H_
