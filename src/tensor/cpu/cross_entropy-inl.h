// Cross entropy of rows of logits against one target each.
#if defined(LORICA_TENSOR_CPU_CROSS_ENTROPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_CROSS_ENTROPY_INL_H_
#undef LORICA_TENSOR_CPU_CROSS_ENTROPY_INL_H_
#else
#define LORICA_TENSOR_CPU_CROSS_ENTROPY_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/cpu/rows_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void CrossEntropyRowsOf(const CrossEntropyArgs& args, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const auto logits = MatrixOf<T>(args.logits);
  Acc* loss = args.loss.as<Acc>();
  Acc* lse = args.lse.as<Acc>();
  const size_t n = static_cast<size_t>(logits.cols);
  for (int64_t t = begin; t < end; ++t) {
    const int32_t target = args.targets[static_cast<size_t>(t)];
    if (target < 0) {
      loss[t] = lse[t] = 0;
      continue;
    }
    const T* row = logits[t];
    const Acc max = RowMax(row, n);
    const Acc log_sum = std::log(SumTerms(d, n, ExpTerm<T>{row, max}));
    lse[t] = max + log_sum;
    // lse - logit without the rounding of lse.
    loss[t] = (max - static_cast<Acc>(row[target])) + log_sum;
  }
}

// dlogits = (exp(logits - lse) - onehot) dloss.
template <typename T>
HWY_INLINE void CrossEntropyGradRowsOf(const CrossEntropyGradArgs& args, int64_t begin,
                                       int64_t end) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const auto logits = MatrixOf<T>(args.logits);
  const auto dlogits = MutableMatrixOf<T>(args.dlogits);
  const Acc* lse = args.lse.as<Acc>();
  const Acc* dloss = args.dloss.as<Acc>();
  const size_t n = static_cast<size_t>(logits.cols), lanes = hn::Lanes(d);
  for (int64_t t = begin; t < end; ++t) {
    const int32_t target = args.targets[static_cast<size_t>(t)];
    const T* row = logits[t];
    T* out = dlogits[t];
    if (target < 0) {
      std::fill(out, out + n, T{});
      continue;
    }
    const auto shift = hn::Set(d, lse[t]), factor = hn::Set(d, dloss[t]);
    const auto target_logit = hn::Set(d, static_cast<Acc>(row[target]));
    for (size_t i = 0; i < n; i += lanes) {
      const auto p = ExpLanes(d, hn::Sub(LoadUpTo(d, row + i, n - i), shift));
      StoreUpTo(hn::Mul(p, factor), d, out + i, n - i);
    }
    const auto p = ExpLanes(d, hn::Sub(target_logit, shift));
    const auto at_target = hn::Mul(hn::Sub(p, hn::Set(d, Acc{1})), factor);
    out[target] = static_cast<T>(hn::GetLane(at_target));
  }
}

void CrossEntropyRows(const CrossEntropyArgs& args, int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(args.logits.dtype, CrossEntropyRowsOf, args, begin, end);
}
void CrossEntropyGradRows(const CrossEntropyGradArgs& args, int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(args.logits.dtype, CrossEntropyGradRowsOf, args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_CROSS_ENTROPY_INL_H_
