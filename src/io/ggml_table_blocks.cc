// Types whose four bits number the entries of a table.
#include <bit>

#include "lorica/io/ggml_blocks.h"

namespace lorica::internal {
namespace {

constexpr size_t kBlock = 32;

// Of the IQ4 types: denser around zero, where weights are. Numbers of the format.
constexpr float kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

// Twice the values of E2M1 (one sign bit, two of exponent, one of mantissa); the scale is halved.
// Zero has no sign here, as the format's reference has it.
constexpr float kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Byte j holds the numbers of elements j and j + 16.
void LookUp(const float table[16], float scale, const uint8_t* q, float* out) {
  for (size_t j = 0; j < kBlock / 2; ++j) {
    out[j] = scale * table[q[j] & 0x0F];
    out[j + kBlock / 2] = scale * table[q[j] >> 4];
  }
}

// Half of 2^(exponent - 127); 0 and 1 fall below the normal numbers.
float HalvedPowerOfTwo(uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent
                                           : static_cast<uint32_t>(exponent - 1) << 23);
}

}  // namespace

// IQ4_NL: f16 d, 16 bytes: d * table[q].
void DecodeIQ4_NL(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 18, out += kBlock) {
    LookUp(kIq4Values, LoadHalf(source), source + 2, out);
  }
}

// IQ4_XS: 256 elements: f16 d, u16 with the two high bits of eight scales, 4 bytes with their low
// nibbles, 128 bytes: (d * (scale - 32)) * table[q].
void DecodeIQ4_XS(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 136, out += 256) {
    const float d = LoadHalf(source);
    const int high = source[2] | source[3] << 8;
    for (size_t j = 0; j < 8; ++j) {
      const int low = source[4 + j / 2] >> (j % 2 * 4) & 0x0F;
      const float scale = d * static_cast<float>((low | (high >> (2 * j) & 3) << 4) - 32);
      LookUp(kIq4Values, scale, source + 8 + j * 16, out + j * kBlock);
    }
  }
}

// MXFP4: a power of two, 16 bytes: 2^(e - 128) * twice the E2M1 value.
void DecodeMXFP4(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 17, out += kBlock) {
    LookUp(kE2m1Doubled, HalvedPowerOfTwo(source[0]), source + 1, out);
  }
}

}  // namespace lorica::internal
