// Sums over tokens of one value per column, in the block order of TokenSumDesc.
#if defined(LORICA_TENSOR_CPU_TOKEN_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_TOKEN_COLUMNS_INL_H_
#undef LORICA_TENSOR_CPU_TOKEN_COLUMNS_INL_H_
#else
#define LORICA_TENSOR_CPU_TOKEN_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/sequences.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// For columns c in [begin, end): acc[c] += alpha * (sum over the block's tokens t), block by block.
// term.Add(d, sum, t, c, count) adds the terms of token t in columns c to c + count - 1, where
// count is at least a vector or what is left of the columns. A column's chain is the same wherever
// [begin, end) begins and ends.
template <typename Acc, class Term>
HWY_INLINE void SumTokenColumns(const Term& term, const Sequences& sequences, Acc alpha, Acc* acc,
                                int64_t begin, int64_t end) {
  const hn::ScalableTag<Acc> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, alpha);
  for (int s = 0; s < sequences.groups(); ++s) {
    const int64_t last = sequences.begin(s) + sequences.size(s);
    for (int64_t t0 = sequences.begin(s); t0 < last; t0 += kTokenBlock) {
      const int64_t t1 = std::min(t0 + kTokenBlock, last);
      int64_t c = begin;
      for (; c + 4 * lanes <= end; c += 4 * lanes) {
        const size_t n = static_cast<size_t>(lanes);
        auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
        for (int64_t t = t0; t < t1; ++t) {
          s0 = term.Add(d, s0, t, c, n);
          s1 = term.Add(d, s1, t, c + lanes, n);
          s2 = term.Add(d, s2, t, c + 2 * lanes, n);
          s3 = term.Add(d, s3, t, c + 3 * lanes, n);
        }
        hn::StoreU(hn::MulAdd(s0, factor, hn::LoadU(d, acc + c)), d, acc + c);
        hn::StoreU(hn::MulAdd(s1, factor, hn::LoadU(d, acc + c + lanes)), d, acc + c + lanes);
        hn::StoreU(hn::MulAdd(s2, factor, hn::LoadU(d, acc + c + 2 * lanes)), d,
                   acc + c + 2 * lanes);
        hn::StoreU(hn::MulAdd(s3, factor, hn::LoadU(d, acc + c + 3 * lanes)), d,
                   acc + c + 3 * lanes);
      }
      for (; c < end; c += lanes) {
        const size_t n = static_cast<size_t>(std::min(lanes, end - c));
        auto sum = hn::Zero(d);
        for (int64_t t = t0; t < t1; ++t) sum = term.Add(d, sum, t, c, n);
        StoreUpTo(hn::MulAdd(sum, factor, LoadUpTo(d, acc + c, n)), d, acc + c, n);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_TOKEN_COLUMNS_INL_H_
