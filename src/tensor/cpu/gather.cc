// Embedding tables: rows out, gradients in.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/gather.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/gather-inl.h"

#if HWY_ONCE
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(ConvertF32ToBF16);
HWY_EXPORT(ConvertBF16ToF32);
HWY_EXPORT(AddScaledRow);

namespace {

// The f32 next to `value` with an odd last bit unless it is exact: rounding that to bf16 equals
// rounding `value` itself, where going through the nearest f32 would round twice.
float ToOddFloat(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (back == value || std::isnan(value) || (bits & 1u) != 0) return nearest;
  // Away from the even neighbour towards the value; magnitudes order as their bits do.
  bits = std::abs(back) < std::abs(value) ? bits + 1 : bits - 1;
  return std::bit_cast<float>(bits);
}

void ConvertRow(const void* from, DType from_type, void* to, DType to_type, size_t n) {
  if (n == 0) return;
  if (from_type == to_type) {
    std::memcpy(to, from, n * SizeOf(to_type));
  } else if (from_type == DType::kF32 && to_type == DType::kBF16) {
    HWY_DYNAMIC_DISPATCH(ConvertF32ToBF16)(from, to, n);
  } else if (from_type == DType::kBF16 && to_type == DType::kF32) {
    HWY_DYNAMIC_DISPATCH(ConvertBF16ToF32)(from, to, n);
  } else {
    // One side is f64: reference runs only.
    for (size_t i = 0; i < n; ++i) {
      const double value = from_type == DType::kF64 ? static_cast<const double*>(from)[i]
                           : from_type == DType::kBF16
                               ? static_cast<float>(static_cast<const BF16*>(from)[i])
                               : static_cast<const float*>(from)[i];
      if (to_type == DType::kF64) {
        static_cast<double*>(to)[i] = value;
      } else if (to_type == DType::kBF16) {
        static_cast<BF16*>(to)[i] = BF16(ToOddFloat(value));
      } else {
        static_cast<float*>(to)[i] = static_cast<float>(value);
      }
    }
  }
}

}  // namespace

void CpuBackend::Gather(TensorView table, absl::Span<const int32_t> ids, MutableTensorView y) {
  const int64_t cols = y.shape[-1];
  const int64_t from_stride = RowStride(table), to_stride = RowStride(y);
  const char* from = static_cast<const char*>(table.data);
  char* to = static_cast<char*>(y.data);
  const auto from_size = static_cast<int64_t>(SizeOf(table.dtype));
  const auto to_size = static_cast<int64_t>(SizeOf(y.dtype));
  ParallelRanges(static_cast<int64_t>(ids.size()), RowGrain(cols), y.dtype == DType::kF64,
                 [&](int64_t begin, int64_t end, int) {
                   for (int64_t t = begin; t < end; ++t) {
                     ConvertRow(from + ids[static_cast<size_t>(t)] * from_stride * from_size,
                                table.dtype, to + t * to_stride * to_size, y.dtype,
                                static_cast<size_t>(cols));
                   }
                 });
}

void CpuBackend::ScatterAdd(absl::Span<const int32_t> ids, TensorView dy, double alpha,
                            MutableTensorView acc) {
  // Threads split columns, so that every element's addends come in token order.
  constexpr int64_t kColumnGrain = 128;
  const int64_t dy_stride = RowStride(dy), acc_stride = RowStride(acc);
  const char* from = static_cast<const char*>(dy.data);
  char* to = static_cast<char*>(acc.data);
  const auto from_size = static_cast<int64_t>(SizeOf(dy.dtype));
  const auto to_size = static_cast<int64_t>(SizeOf(acc.dtype));
  ParallelRanges(
      dy.shape[-1], kColumnGrain, dy.dtype == DType::kF64, [&](int64_t begin, int64_t end, int) {
        for (size_t t = 0; t < ids.size(); ++t) {
          const int64_t row = static_cast<int64_t>(t);
          HWY_DYNAMIC_DISPATCH(AddScaledRow)
          (dy.dtype, from + (row * dy_stride + begin) * from_size, alpha,
           to + (ids[t] * acc_stride + begin) * to_size, static_cast<size_t>(end - begin));
        }
      });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
