// The gated delta rule: loops over the tokens of one sequence and one head.
//
// Letters: T tokens, K key channels, V value channels. State S is [K, V]; all loops run along V,
// which compilers turn into vectors of the target.
#if defined(LORICA_TENSOR_CPU_DELTA_RULE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_DELTA_RULE_INL_H_
#undef LORICA_TENSOR_CPU_DELTA_RULE_INL_H_
#else
#define LORICA_TENSOR_CPU_DELTA_RULE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/delta_rule_heads.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// S *= exp(g); delta = beta (v - Sᵀ k); S += k deltaᵀ. `delta` [V] is scratch, left with the
// token's delta.
template <typename T>
HWY_INLINE void DeltaStep(const DeltaHead<T>& head, int64_t t, T* HWY_RESTRICT state,
                          T* HWY_RESTRICT delta) {
  const int64_t n = head.values;
  const T* k = head.k + t * head.qk_stride;
  const T* v = head.v + t * head.v_stride;
  const T decay = std::exp(head.g[t * head.gate_stride]), beta = head.beta[t * head.gate_stride];
  for (int64_t j = 0; j < n; ++j) delta[j] = 0;
  for (int64_t i = 0; i < head.keys; ++i) {
    T* HWY_RESTRICT row = state + i * n;
    const T ki = k[i];
    for (int64_t j = 0; j < n; ++j) {
      row[j] *= decay;
      delta[j] += row[j] * ki;
    }
  }
  for (int64_t j = 0; j < n; ++j) delta[j] = beta * (v[j] - delta[j]);
  for (int64_t i = 0; i < head.keys; ++i) {
    T* HWY_RESTRICT row = state + i * n;
    const T ki = k[i];
    for (int64_t j = 0; j < n; ++j) row[j] += ki * delta[j];
  }
}

template <typename T>
HWY_INLINE void DeltaForward(const DeltaHead<T>& head, int64_t tokens, T* HWY_RESTRICT state,
                             T* HWY_RESTRICT delta, T* o, int64_t o_stride) {
  const int64_t n = head.values;
  for (int64_t t = 0; t < tokens; ++t) {
    DeltaStep(head, t, state, delta);
    const T* q = head.q + t * head.qk_stride;
    T* HWY_RESTRICT out = o + t * o_stride;
    for (int64_t j = 0; j < n; ++j) out[j] = 0;
    for (int64_t i = 0; i < head.keys; ++i) {
      const T* HWY_RESTRICT row = state + i * n;
      for (int64_t j = 0; j < n; ++j) out[j] += row[j] * q[i];
    }
  }
}

// Backward through token t. `before` [K, V] is S of token t - 1, `after` that of t, `delta` [V] as
// DeltaStep left it; `ds` holds the gradient of `after` on entry, of `before` on return. `scratch`
// [2 V].
template <typename T>
HWY_INLINE void DeltaStepGrad(const DeltaHead<T>& head, const DeltaHeadGrad<T>& grad, int64_t t,
                              const T* HWY_RESTRICT before, const T* HWY_RESTRICT after,
                              const T* HWY_RESTRICT delta, T* HWY_RESTRICT ds,
                              T* HWY_RESTRICT scratch) {
  const int64_t n = head.values;
  const T *q = head.q + t * head.qk_stride, *k = head.k + t * head.qk_stride;
  const T* v = head.v + t * head.v_stride;
  const T* dy = grad.dy + t * head.v_stride;
  T *dq = grad.dq + t * head.qk_stride, *dk = grad.dk + t * head.qk_stride;
  T* dv = grad.dv + t * head.v_stride;
  const T decay = std::exp(head.g[t * head.gate_stride]), beta = head.beta[t * head.gate_stride];
  T *HWY_RESTRICT d_delta = scratch, *HWY_RESTRICT d_memory = scratch + n;
  for (int64_t j = 0; j < n; ++j) d_delta[j] = 0;
  for (int64_t i = 0; i < head.keys; ++i) {
    T* HWY_RESTRICT row = ds + i * n;
    const T* HWY_RESTRICT state = after + i * n;
    T sum_q = 0, sum_k = 0;
    for (int64_t j = 0; j < n; ++j) {
      sum_q += state[j] * dy[j];
      row[j] += q[i] * dy[j];
      d_delta[j] += row[j] * k[i];
      sum_k += row[j] * delta[j];
    }
    dq[i] += sum_q;
    dk[i] += sum_k;
  }
  // delta = beta (v - memory); without dividing by beta, which may be 0, v - memory is made again.
  for (int64_t j = 0; j < n; ++j) {
    dv[j] = d_delta[j] * beta;
    d_memory[j] = -d_delta[j] * beta;
  }
  T sum_beta = 0;
  for (int64_t j = 0; j < n; ++j) sum_beta += d_delta[j] * v[j];
  T sum_decay = 0;
  for (int64_t i = 0; i < head.keys; ++i) {
    T* HWY_RESTRICT row = ds + i * n;
    const T* HWY_RESTRICT old = before + i * n;
    T memory = 0, sum_k = 0, sum_g = 0;
    for (int64_t j = 0; j < n; ++j) {
      const T kept = old[j] * decay;
      row[j] += k[i] * d_memory[j];
      sum_k += kept * d_memory[j];
      memory += kept * d_delta[j];
      sum_g += row[j] * kept;
      row[j] *= decay;
    }
    dk[i] += sum_k;
    sum_beta -= k[i] * memory;
    sum_decay += sum_g;
  }
  grad.dg[t * head.gate_stride] = sum_decay;
  grad.dbeta[t * head.gate_stride] = sum_beta;
}

// Backward through a whole sequence. Every `stride`-th state is kept in `marks` [ceil(T / stride),
// K, V]; the states between are made again in `states` [stride + 1, K, V]. `ds` [K, V], `deltas`
// [stride + 2, V]: the last two rows are scratch.
template <typename T>
HWY_INLINE void DeltaBackward(const DeltaHead<T>& head, const DeltaHeadGrad<T>& grad,
                              int64_t tokens, int64_t stride, T* marks, T* states, T* ds,
                              T* deltas) {
  const int64_t size = head.keys * head.values;
  const size_t bytes = static_cast<size_t>(size) * sizeof(T);
  std::memset(states, 0, bytes);
  for (int64_t t = 0; t < tokens; ++t) {
    if (t % stride == 0) std::memcpy(marks + t / stride * size, states, bytes);
    DeltaStep(head, t, states, deltas);
  }
  std::memset(ds, 0, bytes);
  T* scratch = deltas + stride * head.values;
  for (int64_t block = (tokens - 1) / stride; block >= 0; --block) {
    const int64_t first = block * stride, count = std::min(stride, tokens - first);
    std::memcpy(states, marks + block * size, bytes);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(states + (i + 1) * size, states + i * size, bytes);
      DeltaStep(head, first + i, states + (i + 1) * size, deltas + i * head.values);
    }
    for (int64_t i = count - 1; i >= 0; --i) {
      DeltaStepGrad(head, grad, first + i, states + i * size, states + (i + 1) * size,
                    deltas + i * head.values, ds, scratch);
    }
  }
}

void DeltaForwardF32(const DeltaHead<float>& head, int64_t tokens, float* state, float* delta,
                     float* o, int64_t o_stride) {
  DeltaForward(head, tokens, state, delta, o, o_stride);
}
void DeltaForwardF64(const DeltaHead<double>& head, int64_t tokens, double* state, double* delta,
                     double* o, int64_t o_stride) {
  DeltaForward(head, tokens, state, delta, o, o_stride);
}
void DeltaBackwardF32(const DeltaHead<float>& head, const DeltaHeadGrad<float>& grad,
                      int64_t tokens, int64_t stride, float* marks, float* states, float* ds,
                      float* deltas) {
  DeltaBackward(head, grad, tokens, stride, marks, states, ds, deltas);
}
void DeltaBackwardF64(const DeltaHead<double>& head, const DeltaHeadGrad<double>& grad,
                      int64_t tokens, int64_t stride, double* marks, double* states, double* ds,
                      double* deltas) {
  DeltaBackward(head, grad, tokens, stride, marks, states, ds, deltas);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_DELTA_RULE_INL_H_
