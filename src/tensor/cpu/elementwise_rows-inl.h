// Pointwise ops whose second operand is a function of the row: dropout and a factor per row.
#if defined(LORICA_TENSOR_CPU_ELEMENTWISE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ELEMENTWISE_ROWS_INL_H_
#undef LORICA_TENSOR_CPU_ELEMENTWISE_ROWS_INL_H_
#else
#define LORICA_TENSOR_CPU_ELEMENTWISE_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/random.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// Words that one call of PhiloxWords makes: four of each of 16 counters.
constexpr int64_t kPhiloxWords = 64;

// words[4 * i + w] = Philox(key, first + i, 0)[w], i < 16.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void PhiloxWords(uint64_t key, uint64_t first, uint32_t* HWY_RESTRICT words) {
  for (uint64_t i = 0; i < kPhiloxWords / 4; ++i) {
    const auto four = Philox(key, first + i, 0);
    std::copy(four.begin(), four.end(), words + 4 * i);
  }
}
#else
// The rounds of random.cc with a counter in each 64-bit lane: its 32-bit words stand in the lower
// halves, where the widening product looks for them; what gathers in the upper halves is dropped at
// the end.
HWY_INLINE void PhiloxWords(uint64_t key, uint64_t first, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  constexpr uint64_t kLanes = hn::MaxLanes(hn::ScalableTag<uint64_t>());
  static_assert(kPhiloxWords / 4 % kLanes == 0);
  const auto m0 = hn::BitCast(d32, hn::Set(d, uint64_t{0xD2511F53u}));
  const auto m1 = hn::BitCast(d32, hn::Set(d, uint64_t{0xCD9E8D57u}));
  // Lanes 2 b and 2 b + 1 hold counters b and kLanes / 2 + b: so the four words of the even lanes
  // come out in a row, and those of the odd ones behind them.
  HWY_ALIGN uint64_t order[kLanes];
  for (uint64_t i = 0; i < kLanes; ++i) order[i] = i / 2 + i % 2 * (kLanes / 2);
  for (uint64_t i = 0; i < kPhiloxWords / 4; i += kLanes) {
    auto c0 = hn::Add(hn::Load(d, order), hn::Set(d, first + i));
    auto c1 = hn::ShiftRight<32>(c0);
    auto c2 = hn::Zero(d), c3 = hn::Zero(d);
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto p0 = hn::MulEven(hn::BitCast(d32, c0), m0);
      const auto p1 = hn::MulEven(hn::BitCast(d32, c2), m1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, uint64_t{k0}));
      c1 = p1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, uint64_t{k1}));
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const auto lower = hn::Set(d, uint64_t{0xFFFFFFFFu});
    const auto c01 = hn::Or(hn::And(c0, lower), hn::ShiftLeft<32>(c1));
    const auto c23 = hn::Or(hn::And(c2, lower), hn::ShiftLeft<32>(c3));
    const auto even = hn::BitCast(d32, hn::InterleaveLower(d, c01, c23));
    const auto odd = hn::BitCast(d32, hn::InterleaveUpper(d, c01, c23));
    hn::StoreU(even, d32, words + 4 * i);
    hn::StoreU(odd, d32, words + 4 * i + 2 * kLanes);
  }
}
#endif

// out[i] = words[i] < threshold ? 0 : x[i] * factor for i < count.
HWY_INLINE void DropWords(const double* x, const uint32_t* words, uint32_t threshold, double factor,
                          int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = words[i] < threshold ? 0 : x[i] * factor;
}
template <typename T>
HWY_INLINE void DropWords(const T* x, const uint32_t* words, uint32_t threshold, float factor,
                          int64_t count, T* out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint32_t, decltype(d)> d32;
  const auto limit = hn::Set(d32, threshold);
  const auto scale = hn::Set(d, factor);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const size_t n = static_cast<size_t>(count - i);
    const auto dropped = hn::RebindMask(d, hn::Lt(hn::LoadU(d32, words + i), limit));
    const auto kept = hn::Mul(LoadUpTo(d, x + i, n), scale);
    StoreUpTo(hn::IfThenZeroElse(dropped, kept), d, out + i, n);
  }
}

template <typename T>
HWY_INLINE void DropoutRowsOf(const TensorView& x_view, const DropoutMask& mask,
                              const MutableTensorView& y_view, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const auto x = MatrixOf<T>(x_view);
  const auto y = MutableMatrixOf<T>(y_view);
  // word / 2^32 < rate exactly when word < ceil(rate * 2^32); a rate that close to 1 that this is
  // 2^32 drops all.
  const double limit = std::ceil(mask.rate * 0x1.0p32);
  const bool all = limit >= 0x1.0p32;
  const uint32_t threshold = all ? 0 : static_cast<uint32_t>(limit);
  const Acc factor = all ? Acc{0} : static_cast<Acc>(1.0 / (1.0 - mask.rate));
  for (int64_t t = begin; t < end; ++t) {
    if (all) {
      std::fill(y[t], y[t] + y.cols, T{});
      continue;
    }
    const uint64_t key = CombineKeys(mask.key, mask.row_keys[static_cast<size_t>(t)]);
    for (int64_t c = 0; c < x.cols; c += kPhiloxWords) {
      uint32_t words[kPhiloxWords];
      PhiloxWords(key, static_cast<uint64_t>(c) / 4, words);
      DropWords(x[t] + c, words, threshold, factor, std::min(kPhiloxWords, x.cols - c), y[t] + c);
    }
  }
}

template <typename T>
HWY_INLINE void ScaleRowsOf(const TensorView& x_view, const TensorView& factor,
                            const MutableTensorView& y_view, int64_t begin, int64_t end) {
  const LanesOf<T> d;
  const auto x = MatrixOf<T>(x_view);
  const auto y = MutableMatrixOf<T>(y_view);
  const auto* factors = factor.as<AccumulatorType<T>>();
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t t = begin; t < end; ++t) {
    const auto f = hn::Set(d, factors[t]);
    for (int64_t c = 0; c < x.cols; c += lanes) {
      StoreUpTo(hn::Mul(LoadUpTo(d, x[t] + c, x.cols - c), f), d, y[t] + c, x.cols - c);
    }
  }
}

void DropoutRows(const TensorView& x, const DropoutMask& mask, const MutableTensorView& y,
                 int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(x.dtype, DropoutRowsOf, x, mask, y, begin, end);
}
void ScaleRowRange(const TensorView& x, const TensorView& factor, const MutableTensorView& y,
                   int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(x.dtype, ScaleRowsOf, x, factor, y, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ELEMENTWISE_ROWS_INL_H_
