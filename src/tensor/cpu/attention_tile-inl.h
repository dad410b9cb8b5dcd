// Products of small blocks in scratch memory, and what brings tensors into such blocks.
//
// Scratch rows are padded to whole vectors (PaddedCols) and row counts to whole tiles (PaddedRows),
// so the loops below have no tails. Every output element is one chain of fused multiply-adds along
// the depth: how a depth is cut into calls never changes a bit.
#if defined(LORICA_TENSOR_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ATTENTION_TILE_INL_H_
#undef LORICA_TENSOR_CPU_ATTENTION_TILE_INL_H_
#else
#define LORICA_TENSOR_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/cpu/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// A tile's accumulators: 6 rows by 4 vectors where there are 32 vector registers, by 2 where there
// are 16; the rest holds one row of the right operand and a broadcast value.
constexpr int kAttentionTileRows = 6;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kAttentionTileVectors = 4;
#else
constexpr int kAttentionTileVectors = 2;
#endif

// One tile: out[m, :] = scale * sum over k < depth of a(m, k) b[k, :] or, accumulating, out[m, :]
// += that sum with scale 1. a(m, k) is a[m * a_stride + k], or a[k * a_stride + m] when
// kTransposed.
template <int kRows, int kVectors, bool kAccumulate, bool kTransposed, typename A>
HWY_INLINE void MultiplyTile(const A* HWY_RESTRICT a, int64_t a_stride, const A* HWY_RESTRICT b,
                             int64_t b_stride, int64_t depth, A scale, A* HWY_RESTRICT out,
                             int64_t out_stride) {
  const hn::ScalableTag<A> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  V sums[kRows * kVectors];
  Unroll<kRows * kVectors>([&](auto i) LORICA_LAMBDA {
    sums[i] = kAccumulate
                  ? hn::LoadU(d, out + (i / kVectors) * out_stride + (i % kVectors) * kLanes)
                  : hn::Zero(d);
  });
  for (int64_t k = 0; k < depth; ++k) {
    V columns[kVectors];
    Unroll<kVectors>([&](auto c) LORICA_LAMBDA { columns[c] = hn::LoadU(d, b + c * kLanes); });
    Unroll<kRows>([&](auto r) LORICA_LAMBDA {
      // Rows in threes from few base pointers spare general registers.
      const A value = kTransposed ? a[r] : (a + (r / 3) * 3 * a_stride)[(r % 3) * a_stride];
      const V broadcast = hn::Set(d, value);
      Unroll<kVectors>([&](auto c) LORICA_LAMBDA {
        sums[r * kVectors + c] = hn::MulAdd(broadcast, columns[c], sums[r * kVectors + c]);
      });
    });
    a += kTransposed ? a_stride : 1;
    b += b_stride;
  }
  const V factor = hn::Set(d, scale);
  Unroll<kRows * kVectors>([&](auto i) LORICA_LAMBDA {
    const V result = kAccumulate ? sums[i] : hn::Mul(sums[i], factor);
    hn::StoreU(result, d, out + (i / kVectors) * out_stride + (i % kVectors) * kLanes);
  });
}

// kRows rows by `cols` columns, a multiple of the vector length.
template <int kRows, bool kAccumulate, bool kTransposed, typename A>
HWY_NOINLINE void MultiplyRows(const A* a, int64_t a_stride, const A* b, int64_t b_stride,
                               int64_t cols, int64_t depth, A scale, A* out, int64_t out_stride) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  constexpr int64_t kWide = kLanes * kAttentionTileVectors;
  int64_t c = 0;
  for (; c + kWide <= cols; c += kWide) {
    MultiplyTile<kRows, kAttentionTileVectors, kAccumulate, kTransposed>(
        a, a_stride, b + c, b_stride, depth, scale, out + c, out_stride);
  }
  for (; c < cols; c += kLanes) {
    MultiplyTile<kRows, 1, kAccumulate, kTransposed>(a, a_stride, b + c, b_stride, depth, scale,
                                                     out + c, out_stride);
  }
}

template <typename A>
HWY_INLINE int64_t PaddedCols(int64_t cols) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  return (cols + kLanes - 1) / kLanes * kLanes;
}
HWY_INLINE int64_t PaddedRows(int64_t rows) {
  return (rows + kAttentionTileRows - 1) / kAttentionTileRows * kAttentionTileRows;
}

// Where the rows of an attention operand lie: row r is head `first_head` + r % heads of token
// `first_token` + r / heads.
template <typename T>
struct HeadRows {
  T* data;  // of head 0 of token 0
  int64_t token_stride, head_stride, size;
  int64_t first_token, first_head, heads;

  T* operator[](int64_t r) const {
    return data + (first_token + r / heads) * token_stride + (first_head + r % heads) * head_stride;
  }

  // Calls visit(row r's offset among `count` rows, its data) for rows [begin, begin + count); a
  // division per row would take as long as copying it.
  template <typename Visit>
  HWY_INLINE void ForEach(int64_t begin, int64_t count, const Visit& visit) const {
    int64_t head = begin % heads;
    T* token = data + (first_token + begin / heads) * token_stride + first_head * head_stride;
    for (int64_t r = 0; r < count; ++r) {
      visit(r, token + head * head_stride);
      if (++head == heads) {
        head = 0;
        token += token_stride;
      }
    }
  }
};

// out[r, :] = row `begin` + r for r < count, zero to the padded width and for the rows up to
// padded_count.
template <typename T, typename A>
HWY_INLINE void PackRows(const HeadRows<const T>& rows, int64_t begin, int64_t count,
                         int64_t padded_count, A* HWY_RESTRICT out) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), width = PaddedCols<A>(rows.size);
  rows.ForEach(begin, count, [&](int64_t r, const T* HWY_RESTRICT row) LORICA_LAMBDA {
    for (int64_t c = 0; c < rows.size; c += lanes) {
      const auto v = LoadUpTo(d, row + c, static_cast<size_t>(rows.size - c));
      hn::StoreU(v, d, out + r * width + c);
    }
  });
  std::fill(out + count * width, out + std::max(padded_count, count) * width, A{0});
}

// Row `begin` + r = factors[r] * values[r, :] for r < count, rounded; factors null: 1.
template <typename T, typename A>
HWY_INLINE void UnpackRows(const A* HWY_RESTRICT values, const A* HWY_RESTRICT factors,
                           int64_t count, int64_t begin, const HeadRows<T>& rows) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), width = PaddedCols<A>(rows.size);
  rows.ForEach(begin, count, [&](int64_t r, T* HWY_RESTRICT row) LORICA_LAMBDA {
    const auto factor = hn::Set(d, factors == nullptr ? A{1} : factors[r]);
    for (int64_t c = 0; c < rows.size; c += lanes) {
      const auto v = hn::Mul(hn::LoadU(d, values + r * width + c), factor);
      StoreUpTo(v, d, row + c, static_cast<size_t>(rows.size - c));
    }
  });
}

// out[c, r] = in[r, c] for kKeys rows, a multiple of 4 (strides: in_stride, kKeys).
template <int64_t kKeys, typename A>
HWY_INLINE void TransposeKeys(const A* HWY_RESTRICT in, int64_t in_stride, int64_t cols,
                              A* HWY_RESTRICT out) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<A, float>) {
    const hn::FixedTag<float, 4> d;
    for (; c + 4 <= cols; c += 4) {
      for (int64_t r = 0; r < kKeys; r += 4) {
        const float* HWY_RESTRICT from = in + r * in_stride + c;
        const auto a0 = hn::LoadU(d, from), a1 = hn::LoadU(d, from + in_stride);
        const auto a2 = hn::LoadU(d, from + 2 * in_stride);
        const auto a3 = hn::LoadU(d, from + 3 * in_stride);
        const auto low01 = hn::InterleaveLower(d, a0, a1), low23 = hn::InterleaveLower(d, a2, a3);
        const auto up01 = hn::InterleaveUpper(d, a0, a1), up23 = hn::InterleaveUpper(d, a2, a3);
        float* HWY_RESTRICT to = out + c * kKeys + r;
        hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, to);
        hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, to + kKeys);
        hn::StoreU(hn::ConcatLowerLower(d, up23, up01), d, to + 2 * kKeys);
        hn::StoreU(hn::ConcatUpperUpper(d, up23, up01), d, to + 3 * kKeys);
      }
    }
  }
#endif
  for (; c < cols; ++c) {
    for (int64_t r = 0; r < kKeys; ++r) out[c * kKeys + r] = in[r * in_stride + c];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ATTENTION_TILE_INL_H_
