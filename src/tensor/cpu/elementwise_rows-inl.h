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

// Counters whose Philox words are made at once: plain loops over this many counters, which the
// compiler turns into SIMD code.
constexpr size_t kPhiloxBatch = 16;

// words[4 * i + w] = Philox(key, first + i, 0)[w] for i < kPhiloxBatch; the rounds of random.cc.
HWY_INLINE void PhiloxBatch(uint64_t key, uint64_t first, uint32_t* HWY_RESTRICT words) {
  uint32_t c0[kPhiloxBatch], c1[kPhiloxBatch], c2[kPhiloxBatch], c3[kPhiloxBatch];
  for (size_t i = 0; i < kPhiloxBatch; ++i) {
    c0[i] = static_cast<uint32_t>(first + i);
    c1[i] = static_cast<uint32_t>((first + i) >> 32);
    c2[i] = c3[i] = 0;
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kPhiloxBatch; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i], p1 = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (size_t i = 0; i < kPhiloxBatch; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

template <typename T>
HWY_INLINE void DropoutRowsOf(const TensorView& x_view, const DropoutMask& mask,
                              const MutableTensorView& y_view, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  const auto x = MatrixOf<T>(x_view);
  const auto y = MutableMatrixOf<T>(y_view);
  // word / 2^32 < rate exactly when word < ceil(rate * 2^32), a number of up to 33 bits.
  const uint64_t threshold = static_cast<uint64_t>(std::ceil(mask.rate * 0x1.0p32));
  const Acc factor = static_cast<Acc>(1.0 / (1.0 - mask.rate));
  constexpr int64_t kBatch = 4 * kPhiloxBatch;
  for (int64_t t = begin; t < end; ++t) {
    const uint64_t key = CombineKeys(mask.key, mask.row_keys[t]);
    const T* xt = x[t];
    T* yt = y[t];
    for (int64_t c = 0; c < x.cols; c += kBatch) {
      uint32_t words[kBatch];
      PhiloxBatch(key, static_cast<uint64_t>(c) / 4, words);
      const int64_t count = std::min(kBatch, x.cols - c);
      for (int64_t i = 0; i < count; ++i) {
        const Acc kept = static_cast<Acc>(xt[c + i]) * factor;
        yt[c + i] = static_cast<T>(words[i] < threshold ? Acc{0} : kept);
      }
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
