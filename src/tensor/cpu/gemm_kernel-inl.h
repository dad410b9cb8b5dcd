// The inner loops of matrix products for one instruction set.
#if defined(LORICA_TENSOR_CPU_GEMM_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_GEMM_KERNEL_INL_H_
#undef LORICA_TENSOR_CPU_GEMM_KERNEL_INL_H_
#else
#define LORICA_TENSOR_CPU_GEMM_KERNEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/gemm_kernel.h"
#include "lorica/tensor/cpu/lanes-inl.h"
#include "lorica/tensor/cpu/pack-inl.h"
#include "lorica/tensor/cpu/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Accumulators of a tile of kRows x kVectors must cover the latency of two multiply-adds a cycle (8
// to 10 of them) and leave registers for a row of the panel and one broadcast: 24 of 32 registers
// (AVX-512, NEON) or 12 of 16. Tall tiles of few vectors serve narrow right operands (a LoRA rank).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kPanelVectors = 4;
inline constexpr int kTileVectors = 24;
#else
inline constexpr int kPanelVectors = 2;
inline constexpr int kTileVectors = 12;
#endif
template <int kVectors>
inline constexpr int kTileRows = std::min(12, kTileVectors / kVectors / 2 * 2);

static_assert(kGemmRowUnit % kTileRows<1> == 0 && kGemmRowUnit % kTileRows<2> == 0);

// out[r, :] = init[r, :] + sum over the segments; init null: from zero.
template <int kRows, int kVectors, typename T>
HWY_INLINE void Tile(const GemmBlock<T>& block, int64_t row, int64_t panel, const T* init,
                     int64_t init_stride, T* out, int64_t out_stride) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  V sums[kRows * kVectors];
  if (init == nullptr) {
    Unroll<kRows * kVectors>([&](auto i) LORICA_LAMBDA { sums[i] = hn::Zero(d); });
  } else {
    Unroll<kRows * kVectors>([&](auto i) LORICA_LAMBDA {
      sums[i] = hn::LoadU(d, init + (i / kVectors) * init_stride + (i % kVectors) * kLanes);
    });
  }
  for (int s = 0; s < block.num_segments; ++s) {
    const GemmSegment<T>& segment = block.segments[s];
    const int64_t a_stride = segment.a_stride;
    const T* HWY_RESTRICT a = segment.a + row * a_stride;
    const T* HWY_RESTRICT b = segment.panels + panel * segment.panel_stride;
    for (int64_t k = segment.k; k > 0; --k) {
      V columns[kVectors];
      Unroll<kVectors>([&](auto c) LORICA_LAMBDA { columns[c] = hn::Load(d, b + c * kLanes); });
      // Rows are addressed in threes from few base pointers: one pointer a row would not fit the
      // general registers.
      Unroll<kRows>([&](auto r) LORICA_LAMBDA {
        const T* base = a + (r / 3) * 3 * a_stride;
        const V value = hn::Set(d, base[(r % 3) * a_stride]);
        Unroll<kVectors>([&](auto c) LORICA_LAMBDA {
          sums[r * kVectors + c] = hn::MulAdd(value, columns[c], sums[r * kVectors + c]);
        });
      });
      ++a;
      b += kVectors * kLanes;
    }
  }
  Unroll<kRows * kVectors>([&](auto i) LORICA_LAMBDA {
    hn::StoreU(sums[i], d, out + (i / kVectors) * out_stride + (i % kVectors) * kLanes);
  });
}

// sums[i] += source[i]
template <typename T, typename Source>
HWY_INLINE void AddRow(const Source* source, int64_t count, T* sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), LoadLanes(d, source + i)), d, sums + i);
  }
  for (; i < count; ++i) sums[i] += static_cast<T>(source[i]);
}

template <typename T>
HWY_INLINE void AddRow(const void* source, DType type, int64_t offset, int64_t count, T* sums) {
  if constexpr (std::is_same_v<T, float>) {
    if (type == DType::kBF16) {
      return AddRow(static_cast<const BF16*>(source) + offset, count, sums);
    }
  }
  AddRow(static_cast<const T*>(source) + offset, count, sums);
}

template <typename T, typename Target>
HWY_INLINE void StoreRow(const T* sums, int64_t count, Target* target) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) StoreLanes(hn::LoadU(d, sums + i), d, target + i);
  for (; i < count; ++i) target[i] = Target(sums[i]);
}

// Bias, addend and the one rounding for `count` columns of a row.
template <typename T>
HWY_NOINLINE void FinishRow(const GemmBlock<T>& block, int64_t row, int64_t column, int64_t count,
                            T* sums) {
  if (block.bias != nullptr) AddRow(block.bias, block.bias_type, column, count, sums);
  if (block.addend != nullptr) {
    AddRow(block.addend, block.addend_type, row * block.addend_stride + column, count, sums);
  }
  const int64_t offset = row * block.y_stride + column;
  if constexpr (std::is_same_v<T, float>) {
    if (block.y_type == DType::kBF16) {
      return StoreRow(sums, count, static_cast<BF16*>(block.y) + offset);
    }
  }
  StoreRow(sums, count, static_cast<T*>(block.y) + offset);
}

// One tile: straight to where its sums belong, or by way of a buffer when columns are missing or
// something is left to do to them.
template <int kRows, int kVectors, typename T>
HWY_INLINE void Strip(const GemmBlock<T>& block, int64_t row, int64_t panel, int64_t column,
                      int64_t count) {
  constexpr int64_t kWidth = kVectors * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  HWY_ALIGN T tile[kRows * kWidth];
  const T* init = block.first ? nullptr : block.sums + row * block.sums_stride + column;
  int64_t init_stride = block.sums_stride;
  T* out = tile;
  int64_t out_stride = kWidth;
  const bool to_sums = !block.last;
  if (count == kWidth) {
    if (to_sums) {
      out = block.sums + row * block.sums_stride + column;
      out_stride = block.sums_stride;
    } else if (block.y_type == DTypeOf<T>::value && block.bias == nullptr &&
               block.addend == nullptr) {
      out = static_cast<T*>(block.y) + row * block.y_stride + column;
      out_stride = block.y_stride;
    }
  } else if (init != nullptr) {
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kWidth; ++c) {
        tile[r * kWidth + c] = c < count ? init[r * init_stride + c] : T{0};
      }
    }
    init = tile;
    init_stride = kWidth;
  }
  Tile<kRows, kVectors>(block, row, panel, init, init_stride, out, out_stride);
  if (out != tile) return;
  for (int64_t r = 0; r < kRows; ++r) {
    if (to_sums) {
      std::copy_n(tile + r * kWidth, count, block.sums + (row + r) * block.sums_stride + column);
    } else {
      FinishRow(block, row + r, column, count, tile + r * kWidth);
    }
  }
}

template <int kVectors, typename T>
HWY_NOINLINE void MultiplyPanel(const GemmBlock<T>& block, int64_t panel, int64_t column,
                                int64_t count) {
  constexpr int kRows = kTileRows<kVectors>;
  int64_t row = 0;
  for (; row + kRows <= block.rows; row += kRows) {
    Strip<kRows, kVectors>(block, row, panel, column, count);
  }
  // Row by row: as fast as a partly filled tile, and a single row (decoding) streams its panel.
  for (; row < block.rows; ++row) Strip<1, kVectors>(block, row, panel, column, count);
}

template <typename T>
void Multiply(const GemmBlock<T>& block) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  constexpr int64_t kWidth = kPanelVectors * kLanes;
  int64_t panel = 0;
  for (int64_t column = 0; column < block.columns; column += kWidth, ++panel) {
    const int64_t count = std::min(kWidth, block.columns - column);
    const int64_t vectors = (count + kLanes - 1) / kLanes;
    if (vectors == kPanelVectors) {
      MultiplyPanel<kPanelVectors>(block, panel, column, count);
    } else if (vectors == 1) {
      MultiplyPanel<1>(block, panel, column, count);
    } else if constexpr (kPanelVectors > 2) {
      if (vectors == 2) {
        MultiplyPanel<2>(block, panel, column, count);
      } else {
        MultiplyPanel<3>(block, panel, column, count);
      }
    }
  }
}

template <typename T>
const GemmKernels<T>* Kernels() {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  static constexpr GemmKernels<T> kKernels = {kLanes, kPanelVectors * kLanes, &Multiply<T>,
                                              &Pack<T>, &Convert<T>};
  return &kKernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_GEMM_KERNEL_INL_H_
