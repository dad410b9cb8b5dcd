// The gated delta rule: heads, threads and scratch memory.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/delta_rule.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/delta_rule-inl.h"

#if HWY_ONCE
#include <type_traits>

#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(DeltaForwardF32);
HWY_EXPORT(DeltaForwardF64);
HWY_EXPORT(DeltaBackwardF32);
HWY_EXPORT(DeltaBackwardF64);

namespace {

// Head `h` of the values; `args` is a DeltaRuleArgs or a DeltaRuleGradArgs.
template <typename T, typename Args>
DeltaHead<T> HeadOf(const Args& args, int64_t token, int64_t h) {
  const int64_t groups = args.q.shape[1], keys = args.q.shape[2];
  const int64_t heads = args.v.shape[1], values = args.v.shape[2];
  const int64_t group = h / (heads / groups);
  const int64_t qk = (token * groups + group) * keys, gate = token * heads + h;
  return {args.q.template as<T>() + qk,
          args.k.template as<T>() + qk,
          args.v.template as<T>() + gate * values,
          args.g.template as<T>() + gate,
          args.beta.template as<T>() + gate,
          groups * keys,
          heads * values,
          heads,
          keys,
          values};
}

template <typename T>
void Forward(const DeltaRuleArgs& args, int64_t sequence, int64_t h, T* scratch) {
  const int64_t begin = args.sequences->begin(static_cast<int>(sequence));
  const int64_t tokens = args.sequences->size(static_cast<int>(sequence));
  const DeltaHead<T> head = HeadOf<T>(args, begin, h);
  const int64_t heads = args.v.shape[1], size = head.keys * head.values;
  T* state = scratch + head.values;
  if (args.state.defined()) {
    state = args.state.template as<T>() + (sequence * heads + h) * size;
  } else {
    std::memset(state, 0, static_cast<size_t>(size) * sizeof(T));
  }
  T* y = args.y.template as<T>() + (begin * heads + h) * head.values;
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(DeltaForwardF32)(head, tokens, state, scratch, y, head.v_stride);
  } else {
    HWY_DYNAMIC_DISPATCH(DeltaForwardF64)(head, tokens, state, scratch, y, head.v_stride);
  }
}

// Tokens between two kept states: about the root of the length, which balances both buffers.
int64_t MarkStride(int64_t tokens) {
  int64_t stride = 1;
  while (stride * stride < tokens) ++stride;
  return stride;
}

// Values that a sequence of `tokens` needs.
int64_t BackwardScratch(int64_t tokens, int64_t keys, int64_t values) {
  const int64_t stride = MarkStride(tokens);
  return ((tokens + stride - 1) / stride + stride + 2) * keys * values + (stride + 2) * values;
}

template <typename T>
void Backward(const DeltaRuleGradArgs& args, int64_t sequence, int64_t h, T* scratch) {
  const int64_t begin = args.sequences->begin(static_cast<int>(sequence));
  const int64_t tokens = args.sequences->size(static_cast<int>(sequence));
  const DeltaHead<T> head = HeadOf<T>(args, begin, h);
  const int64_t heads = args.v.shape[1], groups = args.q.shape[1];
  const int64_t qk = (begin * groups + h / (heads / groups)) * head.keys, gate = begin * heads + h;
  const DeltaHeadGrad<T> grad = {args.dy.template as<T>() + gate * head.values,
                                 args.dq.template as<T>() + qk,
                                 args.dk.template as<T>() + qk,
                                 args.dv.template as<T>() + gate * head.values,
                                 args.dg.template as<T>() + gate,
                                 args.dbeta.template as<T>() + gate};
  const int64_t stride = MarkStride(tokens), size = head.keys * head.values;
  T* marks = scratch;
  T* states = marks + (tokens + stride - 1) / stride * size;
  T* ds = states + (stride + 1) * size;
  T* deltas = ds + size;
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(DeltaBackwardF32)
    (head, grad, tokens, stride, marks, states, ds, deltas);
  } else {
    HWY_DYNAMIC_DISPATCH(DeltaBackwardF64)
    (head, grad, tokens, stride, marks, states, ds, deltas);
  }
}

}  // namespace

void CpuBackend::DeltaRule(const DeltaRuleArgs& args) {
  const int64_t heads = args.v.shape[1], values = args.v.shape[2];
  const int64_t scratch = values + args.q.shape[2] * values;
  const bool exact = args.q.dtype == DType::kF64;
  pool_.Run(
      args.sequences->groups() * heads,
      [&](int64_t task, int thread) {
        void* memory =
            thread_scratch_[thread]->Reserve(static_cast<size_t>(scratch) * SizeOf(args.q.dtype));
        if (exact) {
          Forward<double>(args, task / heads, task % heads, static_cast<double*>(memory));
        } else {
          Forward<float>(args, task / heads, task % heads, static_cast<float*>(memory));
        }
      },
      !exact);
}

void CpuBackend::DeltaRuleGrad(const DeltaRuleGradArgs& args) {
  Fill(args.dq, 0);
  Fill(args.dk, 0);
  const int64_t groups = args.q.shape[1], share = args.v.shape[1] / groups;
  const bool exact = args.q.dtype == DType::kF64;
  // The heads of values that share a head of keys run one after the other: their sums have an
  // order.
  pool_.Run(
      args.sequences->groups() * groups,
      [&](int64_t task, int thread) {
        const int64_t sequence = task / groups, group = task % groups;
        const int64_t tokens = args.sequences->size(static_cast<int>(sequence));
        if (tokens == 0) return;
        const int64_t scratch = BackwardScratch(tokens, args.q.shape[2], args.v.shape[2]);
        void* memory =
            thread_scratch_[thread]->Reserve(static_cast<size_t>(scratch) * SizeOf(args.q.dtype));
        for (int64_t h = group * share; h < (group + 1) * share; ++h) {
          if (exact) {
            Backward<double>(args, sequence, h, static_cast<double*>(memory));
          } else {
            Backward<float>(args, sequence, h, static_cast<float*>(memory));
          }
        }
      },
      !exact);
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
