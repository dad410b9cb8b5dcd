#include "lorica/io/mxfp4.h"

#include <bit>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

constexpr size_t kGroupBytes = 16;

constexpr float kE2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                             -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

float PowerOfTwo(uint8_t biased) {
  if (biased == 0) return std::bit_cast<float>(0x00400000u);  // 2^-127, below the normal numbers
  if (biased == 255) return std::numeric_limits<float>::infinity();
  return std::bit_cast<float>(static_cast<uint32_t>(biased) << 23);
}

template <typename T>
void Dequantise(absl::Span<const uint8_t> blocks, absl::Span<const uint8_t> scales, T* out) {
  const uint8_t* byte = blocks.data();
  for (const uint8_t biased : scales) {
    const float scale = PowerOfTwo(biased);
    for (size_t j = 0; j < kGroupBytes; ++j, ++byte) {
      *out++ = static_cast<T>(kE2m1[*byte & 0x0F] * scale);
      *out++ = static_cast<T>(kE2m1[*byte >> 4] * scale);
    }
  }
}

}  // namespace

absl::Status CheckMxfp4Shapes(absl::Span<const int64_t> blocks, absl::Span<const int64_t> scales,
                              absl::string_view where) {
  if (blocks.size() >= 3 && blocks.back() == static_cast<int64_t>(kGroupBytes) &&
      blocks.first(blocks.size() - 1) == scales) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": expected MXFP4 blocks [..., rows, columns / 32, 16] with scales of the ",
      "same shape without the 16, found ", ShapeText(blocks), " and ", ShapeText(scales)));
}

void DequantiseMxfp4(absl::Span<const uint8_t> blocks, absl::Span<const uint8_t> scales,
                     DType target, void* out) {
  LORICA_CHECK(blocks.size() == scales.size() * kGroupBytes, "[mxfp4] ", blocks.size(),
               " bytes of blocks for ", scales.size(), " scales");
  switch (target) {
    case DType::kF32:
      return Dequantise(blocks, scales, static_cast<float*>(out));
    case DType::kBF16:
      return Dequantise(blocks, scales, static_cast<BF16*>(out));
    case DType::kF64:
      return Dequantise(blocks, scales, static_cast<double*>(out));
    default:
      Fail("[mxfp4] ", target, " is no compute type");
  }
}

}  // namespace lorica
