// The inner loops of sums over tokens for one instruction set.
#if defined(LORICA_TENSOR_CPU_TOKEN_SUM_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_TOKEN_SUM_KERNEL_INL_H_
#undef LORICA_TENSOR_CPU_TOKEN_SUM_KERNEL_INL_H_
#else
#define LORICA_TENSOR_CPU_TOKEN_SUM_KERNEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/cpu/pack-inl.h"
#include "lorica/tensor/cpu/token_sum_kernel.h"
#include "lorica/tensor/cpu/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Three vectors by as many broadcasts as registers hold accumulators for; 8 divides the usual
// ranks.
inline constexpr int kWideVectors = 3;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kNarrow = 8;
#else
inline constexpr int kNarrow = 4;
#endif

// Strips of narrow packed at a time.
inline constexpr int64_t kPackStrips = 8;

template <typename T>
inline constexpr int64_t kWideUnit =
    kWideVectors* static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));

// From this many strips of narrow on, panels of wide are packed: they are read once per strip, and
// rows far apart in memory share few sets of the first-level cache.
inline constexpr int64_t kPackFromStrips = 6;

template <typename Source>
HWY_INLINE const Source* RowOf(const TokenOperand& operand, int64_t row) {
  return static_cast<const Source*>(operand.data) + row * operand.stride;
}

// Columns [begin, begin + count) of rows [row, row + rows), as T and zero-padded to
// [rows][kWideUnit].
template <typename T>
HWY_INLINE void PackWide(const TokenOperand& operand, int64_t row, int64_t rows, int64_t begin,
                         int64_t count, T* target) {
  const int64_t offset = row * operand.stride + begin;
  const char* data =
      static_cast<const char*>(operand.data) + offset * static_cast<int64_t>(SizeOf(operand.type));
  const PackSource source = {.source = data,
                             .type = operand.type,
                             .layout = GemmLayout::kNN,
                             .stride = operand.stride,
                             .k = rows,
                             .columns = count};
  Pack(source, kWideUnit<T>, target);
}

// All columns of rows [row, row + rows) as strips of [kTokenBlock][kNarrow], zero-padded. Row by
// row: the columns of one strip alone would be a few bytes from each of many lines.
template <typename T, typename Source>
HWY_INLINE void PackNarrowFrom(const TokenOperand& operand, int64_t row, int64_t rows,
                               T* HWY_RESTRICT target) {
  const hn::CappedTag<T, kNarrow> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t t = 0; t < rows; ++t) {
    const Source* source = RowOf<Source>(operand, row + t);
    T* to = target + t * kNarrow;
    int64_t i = 0;
    for (; i + kNarrow <= operand.columns; i += kNarrow, to += kTokenBlock * kNarrow) {
      for (int64_t c = 0; c < kNarrow; c += lanes) {
        hn::StoreU(LoadLanes(d, source + i + c), d, to + c);
      }
    }
    for (int64_t c = 0; i < operand.columns && c < kNarrow; ++c) {
      to[c] = i + c < operand.columns ? static_cast<T>(source[i + c]) : T{0};
    }
  }
}

template <typename T>
HWY_INLINE void PackNarrow(const TokenOperand& operand, int64_t row, int64_t rows, T* target) {
  if constexpr (std::is_same_v<T, float>) {
    if (operand.type == DType::kBF16) {
      return PackNarrowFrom<T, BF16>(operand, row, rows, target);
    }
  }
  PackNarrowFrom<T, T>(operand, row, rows, target);
}

// acc[i, j] += alpha * sum over tokens of narrow[t, i] * wide[t, j] for `rows` x `columns` of a
// tile; acc[j, i] when transposed.
template <typename T>
HWY_INLINE void TokenTile(const T* HWY_RESTRICT narrow, const T* HWY_RESTRICT wide,
                          int64_t wide_stride, int64_t tokens, T alpha, bool transposed,
                          int64_t rows, int64_t columns, T* acc, int64_t acc_stride) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  // The accumulator comes from afar; the loop hides that.
  const int64_t acc_rows = transposed ? columns : rows;
  const int64_t acc_columns = transposed ? rows : columns;
  for (int64_t i = 0; i < acc_rows; ++i) {
    for (int64_t j = 0; j < acc_columns; j += 64 / static_cast<int64_t>(sizeof(T))) {
      hwy::Prefetch(acc + i * acc_stride + j);
    }
  }
  V sums[kNarrow * kWideVectors];
  Unroll<kNarrow * kWideVectors>([&](auto i) LORICA_LAMBDA { sums[i] = hn::Zero(d); });
  // Rows read in place lie far apart, where the hardware doesn't see them coming: worth 5 to 20 %
  // of a sum for rank 16.
  const int64_t ahead = 16 * wide_stride;
  for (int64_t t = 0; t < tokens; ++t) {
    V columns_of_wide[kWideVectors];
    Unroll<kWideVectors>([&](auto c) LORICA_LAMBDA { hwy::Prefetch(wide + ahead + c * kLanes); });
    Unroll<kWideVectors>(
        [&](auto c) LORICA_LAMBDA { columns_of_wide[c] = hn::LoadU(d, wide + c * kLanes); });
    Unroll<kNarrow>([&](auto r) LORICA_LAMBDA {
      const V value = hn::Set(d, narrow[r]);
      Unroll<kWideVectors>([&](auto c) LORICA_LAMBDA {
        sums[r * kWideVectors + c] =
            hn::MulAdd(value, columns_of_wide[c], sums[r * kWideVectors + c]);
      });
    });
    narrow += kNarrow;
    wide += wide_stride;
  }
  const V factor = hn::Set(d, alpha);
  if (!transposed && columns == kWideUnit<T>) {
    Unroll<kNarrow>([&](auto r) LORICA_LAMBDA {
      if (r < rows) {
        Unroll<kWideVectors>([&](auto c) LORICA_LAMBDA {
          T* target = acc + r * acc_stride + c * kLanes;
          hn::StoreU(hn::MulAdd(factor, sums[r * kWideVectors + c], hn::LoadU(d, target)), d,
                     target);
        });
      }
    });
    return;
  }
  HWY_ALIGN T tile[kNarrow * kWideUnit<T>];
  Unroll<kNarrow * kWideVectors>([&](auto i)
                                     LORICA_LAMBDA { hn::Store(sums[i], d, tile + i * kLanes); });
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  if (transposed && rows == kNarrow) {
    // Blocks of a 128-bit vector by as many rows, turned round in registers.
    const hn::FixedTag<T, kBlock<T>> small;
    HWY_ALIGN T turned[kBlock<T> * kBlock<T>];
    const auto small_factor = hn::Set(small, alpha);
    for (; j + kBlock<T> <= columns; j += kBlock<T>) {
      for (int64_t i = 0; i < kNarrow; i += kBlock<T>) {
        TransposeStep(small, tile + i * kWideUnit<T> + j, kWideUnit<T>, turned, kBlock<T>);
        for (int64_t c = 0; c < kBlock<T>; ++c) {
          T* target = acc + (j + c) * acc_stride + i;
          const auto sum = hn::Load(small, turned + c * kBlock<T>);
          hn::StoreU(hn::MulAdd(small_factor, sum, hn::LoadU(small, target)), small, target);
        }
      }
    }
  }
#endif
  // One lane at a time, by the same instruction as the vectors.
  const hn::CappedTag<T, 1> one;
  const auto one_factor = hn::Set(one, alpha);
  for (; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      T* target = transposed ? acc + j * acc_stride + i : acc + i * acc_stride + j;
      const auto sum = hn::Set(one, tile[i * kWideUnit<T> + j]);
      *target = hn::GetLane(hn::MulAdd(one_factor, sum, hn::Set(one, *target)));
    }
  }
}

// All of narrow by all of wide for one block of tokens.
template <typename T>
HWY_NOINLINE void AccumulateTokens(const TokenSumBlock<T>& block, int64_t row, int64_t tokens) {
  constexpr int64_t kWidth = kWideUnit<T>;
  const TokenOperand& wide = block.wide;
  const int64_t strips = (block.narrow.columns + kNarrow - 1) / kNarrow;
  T* panels = block.scratch;
  T* packed_strips = panels + kTokenBlock * ((wide.columns + kWidth - 1) / kWidth * kWidth);
  const bool in_place = wide.type == DTypeOf<T>::value && strips < kPackFromStrips;
  for (int64_t begin = 0; begin < wide.columns; begin += kWidth) {
    const int64_t count = std::min(kWidth, wide.columns - begin);
    if (in_place && count == kWidth) continue;
    PackWide(wide, row, tokens, begin, count, panels + begin * kTokenBlock);
  }
  for (int64_t i = 0; i < block.narrow.columns; i += kNarrow) {
    if (i % (kPackStrips * kNarrow) == 0) {
      TokenOperand some = block.narrow;
      some.data = RowOf<char>(some, 0) + i * static_cast<int64_t>(SizeOf(some.type));
      some.columns = std::min(some.columns - i, kPackStrips * kNarrow);
      PackNarrow(some, row, tokens, packed_strips);
    }
    const T* strip = packed_strips + i % (kPackStrips * kNarrow) * kTokenBlock;
    const int64_t rows = std::min<int64_t>(kNarrow, block.narrow.columns - i);
    for (int64_t begin = 0; begin < wide.columns; begin += kWidth) {
      const int64_t count = std::min(kWidth, wide.columns - begin);
      const T* panel = panels + begin * kTokenBlock;
      int64_t stride = kWidth;
      if (in_place && count == kWidth) {
        panel = RowOf<T>(wide, row) + begin;
        stride = wide.stride;
      }
      T* acc = block.transposed ? block.acc + begin * block.acc_stride + i
                                : block.acc + i * block.acc_stride + begin;
      TokenTile(strip, panel, stride, tokens, block.alpha, block.transposed, rows, count, acc,
                block.acc_stride);
    }
  }
}

template <typename T>
void AccumulateSequences(const TokenSumBlock<T>& block) {
  const Sequences& sequences = *block.sequences;
  for (int s = 0; s < sequences.groups(); ++s) {
    const int64_t end = sequences.begin(s) + sequences.size(s);
    for (int64_t row = sequences.begin(s); row < end; row += kTokenBlock) {
      AccumulateTokens(block, row, std::min(kTokenBlock, end - row));
    }
  }
}

template <typename T>
const TokenSumKernels<T>* TokenKernels() {
  static constexpr TokenSumKernels<T> kKernels = {kNarrow, kWideUnit<T>, kPackStrips,
                                                  &AccumulateSequences<T>};
  return &kKernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_TOKEN_SUM_KERNEL_INL_H_
