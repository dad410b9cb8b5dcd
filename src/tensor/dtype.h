// Element types.
//
// f32, bf16 and (on CPU) f64 are compute types. i32, i64, bool and u8 carry indices, masks and
// bytes. f16 exists in files and in frozen storage only.
#ifndef LORICA_TENSOR_DTYPE_H_
#define LORICA_TENSOR_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <ostream>

#include "absl/strings/string_view.h"

namespace lorica {

enum class DType : uint8_t { kF32, kBF16, kF64, kF16, kI32, kI64, kBool, kU8 };

// Bytes of one element.
size_t SizeOf(DType dtype);

// "f32", "bf16", ...
absl::string_view Name(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

// f32, bf16 or f64.
bool IsCompute(DType dtype);

// The type that sums of `compute` values are kept in: f64 for f64, else f32. Also the type of
// adapter masters, gradients of parameters and optimizer moments.
DType AccumulatorOf(DType compute);

// A bfloat16 value: the upper half of an f32. Conversion from f32 rounds to nearest, ties to even;
// NaN stays NaN.
struct BF16 {
  uint16_t bits = 0;

  BF16() = default;
  explicit BF16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);  // quiet NaN
    } else {
      bits = static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// IEEE half precision, storage only.
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);  // to nearest, ties to even; overflow gives infinity

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

}  // namespace lorica

#endif  // LORICA_TENSOR_DTYPE_H_
