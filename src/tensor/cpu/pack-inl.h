// Packing of right operands into panels.
#if defined(LORICA_TENSOR_CPU_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_PACK_INL_H_
#undef LORICA_TENSOR_CPU_PACK_INL_H_
#else
#define LORICA_TENSOR_CPU_PACK_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/gemm_kernel.h"
#include "lorica/tensor/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// count values, converted.
template <typename T, typename Source>
HWY_INLINE void ConvertRow(const Source* source, int64_t count, T* target) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadLanes(d, source + i), d, target + i);
  for (; i < count; ++i) target[i] = static_cast<T>(source[i]);
}

// Vectors of 128-bit blocks transpose within each block; `kBlock` values make one.
template <typename T>
inline constexpr int64_t kBlock = 16 / sizeof(T);

#if HWY_TARGET != HWY_SCALAR
// Block j of the result is kBlock consecutive values from p + j * step.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* p, int64_t step) {
  if constexpr (hn::MaxLanes(D()) <= static_cast<size_t>(kBlock<T>)) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    const int64_t blocks = static_cast<int64_t>(hn::MaxLanes(half)) / kBlock<T>;
    return hn::Combine(d, LoadBlocks(half, p + blocks * step, step), LoadBlocks(half, p, step));
  }
}

// target[k * width + i] = source[i * stride + k] for Lanes(d) columns i and kBlock values of k.
template <class D>
HWY_INLINE void TransposeStep(D d, const float* source, int64_t stride, float* target,
                              int64_t width) {
  const auto v0 = LoadBlocks(d, source, 4 * stride);
  const auto v1 = LoadBlocks(d, source + stride, 4 * stride);
  const auto v2 = LoadBlocks(d, source + 2 * stride, 4 * stride);
  const auto v3 = LoadBlocks(d, source + 3 * stride, 4 * stride);
  const auto even_low = hn::InterleaveLower(d, v0, v2), odd_low = hn::InterleaveLower(d, v1, v3);
  const auto even_up = hn::InterleaveUpper(d, v0, v2), odd_up = hn::InterleaveUpper(d, v1, v3);
  hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, target);
  hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, target + width);
  hn::StoreU(hn::InterleaveLower(d, even_up, odd_up), d, target + 2 * width);
  hn::StoreU(hn::InterleaveUpper(d, even_up, odd_up), d, target + 3 * width);
}
template <class D>
HWY_INLINE void TransposeStep(D d, const double* source, int64_t stride, double* target,
                              int64_t width) {
  const auto v0 = LoadBlocks(d, source, 2 * stride);
  const auto v1 = LoadBlocks(d, source + stride, 2 * stride);
  hn::StoreU(hn::InterleaveLower(d, v0, v1), d, target);
  hn::StoreU(hn::InterleaveUpper(d, v0, v1), d, target + width);
}
#endif  // HWY_TARGET != HWY_SCALAR

// One vector's worth of columns, `columns` of them valid, k values each: rows of `source` become
// columns of `target`.
template <typename T>
HWY_INLINE void TransposeColumns(const T* source, int64_t stride, int64_t k, int64_t columns,
                                 int64_t lanes, T* target, int64_t width) {
  int64_t kk = 0;
#if HWY_TARGET != HWY_SCALAR
  if (columns == lanes) {
    const hn::ScalableTag<T> d;
    for (; kk + kBlock<T> <= k; kk += kBlock<T>) {
      TransposeStep(d, source + kk, stride, target + kk * width, width);
    }
  }
#endif
  for (; kk < k; ++kk) {
    for (int64_t i = 0; i < lanes; ++i) {
      target[kk * width + i] = i < columns ? source[i * stride + kk] : T{0};
    }
  }
}

template <typename T, typename Source>
HWY_INLINE void PackTransposed(const PackSource& piece, int64_t width, T* panel) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Source* source = static_cast<const Source*>(piece.source);
  for (int64_t n = 0; n < width; n += lanes) {
    const int64_t columns = std::clamp<int64_t>(piece.columns - n, 0, lanes);
    const Source* rows = source + n * piece.stride;
    if constexpr (std::is_same_v<T, Source>) {
      TransposeColumns(rows, piece.stride, piece.k, columns, lanes, panel + n, width);
    } else {
      // Widened first, a stretch of k at a time.
      constexpr int64_t kStretch = 64;
      HWY_ALIGN T wide[HWY_MAX_BYTES / sizeof(T) * kStretch];
      for (int64_t k = 0; k < piece.k; k += kStretch) {
        const int64_t count = std::min(kStretch, piece.k - k);
        for (int64_t i = 0; i < columns; ++i) {
          ConvertRow(rows + i * piece.stride + k, count, wide + i * kStretch);
        }
        TransposeColumns(wide, kStretch, count, columns, lanes, panel + k * width + n, width);
      }
    }
  }
}

template <typename T, typename Source>
HWY_INLINE void PackRows(const PackSource& piece, int64_t width, T* panel) {
  const Source* source = static_cast<const Source*>(piece.source);
  for (int64_t k = 0; k < piece.k; ++k) {
    ConvertRow(source + k * piece.stride, piece.columns, panel + k * width);
    for (int64_t n = piece.columns; n < width; ++n) panel[k * width + n] = T{0};
  }
}

template <typename T, typename Source>
HWY_NOINLINE void PackFrom(const PackSource& piece, int64_t width, T* panel) {
  if (piece.layout == GemmLayout::kNT) {
    PackTransposed<T, Source>(piece, width, panel);
  } else {
    PackRows<T, Source>(piece, width, panel);
  }
}

template <typename T>
void Pack(const PackSource& piece, int64_t width, T* panel) {
  if constexpr (std::is_same_v<T, float>) {
    if (piece.type == DType::kBF16) return PackFrom<T, BF16>(piece, width, panel);
  }
  PackFrom<T, T>(piece, width, panel);
}

template <typename T>
void Convert(const void* source, DType type, int64_t source_stride, int64_t rows, int64_t columns,
             T* target, int64_t target_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    if constexpr (std::is_same_v<T, float>) {
      if (type == DType::kBF16) {
        ConvertRow(static_cast<const BF16*>(source) + r * source_stride, columns,
                   target + r * target_stride);
        continue;
      }
    }
    ConvertRow(static_cast<const T*>(source) + r * source_stride, columns,
               target + r * target_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_PACK_INL_H_
