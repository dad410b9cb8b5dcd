#include "lorica/io/ggml_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lorica::internal {
namespace {

constexpr size_t kBlock = 32;

// The fifth bits of a block's elements, one after the other.
uint32_t LoadHighBits(const uint8_t* at) {
  uint32_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}

}  // namespace

// Q4_0: f16 d, 16 bytes; byte j holds element j in its low and j + 16 in its high half: d * (q -
// 8).
void DecodeQ4_0(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 18, out += kBlock) {
    const float d = LoadHalf(source);
    const uint8_t* q = source + 2;
    for (size_t j = 0; j < kBlock / 2; ++j) {
      out[j] = d * static_cast<float>((q[j] & 0x0F) - 8);
      out[j + kBlock / 2] = d * static_cast<float>((q[j] >> 4) - 8);
    }
  }
}

// Q4_1: f16 d, f16 m, 16 bytes as in Q4_0: d * q + m, the product rounded before the sum.
void DecodeQ4_1(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 20, out += kBlock) {
    const float d = LoadHalf(source);
    const float m = LoadHalf(source + 2);
    const uint8_t* q = source + 4;
    for (size_t j = 0; j < kBlock / 2; ++j) {
      const float low = d * static_cast<float>(q[j] & 0x0F);
      const float high = d * static_cast<float>(q[j] >> 4);
      out[j] = low + m;
      out[j + kBlock / 2] = high + m;
    }
  }
}

// Q5_0: f16 d, u32 of fifth bits, 16 bytes as in Q4_0: d * (q - 16).
void DecodeQ5_0(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 22, out += kBlock) {
    const float d = LoadHalf(source);
    const uint32_t high = LoadHighBits(source + 2);
    const uint8_t* q = source + 6;
    for (size_t j = 0; j < kBlock / 2; ++j) {
      const int first = (q[j] & 0x0F) | static_cast<int>((high >> j & 1) << 4);
      const int second = (q[j] >> 4) | static_cast<int>((high >> (j + kBlock / 2) & 1) << 4);
      out[j] = d * static_cast<float>(first - 16);
      out[j + kBlock / 2] = d * static_cast<float>(second - 16);
    }
  }
}

// Q5_1: f16 d, f16 m, u32 of fifth bits, 16 bytes: d * q + m, the product rounded before the sum.
void DecodeQ5_1(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 24, out += kBlock) {
    const float d = LoadHalf(source);
    const float m = LoadHalf(source + 2);
    const uint32_t high = LoadHighBits(source + 4);
    const uint8_t* q = source + 8;
    for (size_t j = 0; j < kBlock / 2; ++j) {
      const int first = (q[j] & 0x0F) | static_cast<int>((high >> j & 1) << 4);
      const int second = (q[j] >> 4) | static_cast<int>((high >> (j + kBlock / 2) & 1) << 4);
      const float low_product = d * static_cast<float>(first);
      const float high_product = d * static_cast<float>(second);
      out[j] = low_product + m;
      out[j + kBlock / 2] = high_product + m;
    }
  }
}

// Q8_0: f16 d, 32 signed bytes: q * d.
void DecodeQ8_0(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 34, out += kBlock) {
    const float d = LoadHalf(source);
    int8_t q[kBlock];
    std::memcpy(q, source + 2, kBlock);
    for (size_t j = 0; j < kBlock; ++j) out[j] = static_cast<float>(q[j]) * d;
  }
}

absl::Status EncodeQ8_0(const float* values, size_t blocks, uint8_t* out) {
  for (size_t b = 0; b < blocks; ++b, values += kBlock, out += 34) {
    float largest = 0;
    for (size_t j = 0; j < kBlock; ++j) {
      if (!std::isfinite(values[j])) {
        return absl::InvalidArgumentError(absl::StrCat("expected finite values for Q8_0, found ",
                                                       values[j], " at element ", b * kBlock + j));
      }
      largest = std::max(largest, std::abs(values[j]));
    }
    // The quotients use the unrounded scale; only what is stored is rounded to f16.
    const float d = largest / 127.0f;
    const uint16_t stored = FloatToHalf(d);
    if ((stored & 0x7FFFu) == 0x7C00u) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected values of at most 8.3e6 for Q8_0, found ", largest, " in block ", b));
    }
    // Below 2^-126 the reciprocal overflows; the stored scale is 0 there whatever the quotients
    // are.
    const float reciprocal = 1.0f / d;
    const bool zero = d == 0 || !std::isfinite(reciprocal);
    std::memcpy(out, &stored, sizeof(stored));
    for (size_t j = 0; j < kBlock; ++j) {
      const float q = zero ? 0.0f : std::round(values[j] * reciprocal);  // halves away from zero
      out[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(q));
    }
  }
  return absl::OkStatus();
}

}  // namespace lorica::internal
