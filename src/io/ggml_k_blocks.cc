// The K types: super-blocks of 256 elements whose sub-blocks of 16 or 32 have quantised scales.
#include "lorica/io/ggml_blocks.h"

namespace lorica::internal {
namespace {

constexpr size_t kSuper = 256;

// Eight 6-bit scales and eight 6-bit minimums in 12 bytes (Q4_K, Q5_K): the first four of each
// lie in the low bits of bytes 0-3 and 4-7; of the last four, the low nibbles share bytes 8-11 and
// the two high bits fill up bytes 0-7.
struct ScalesAndMinimums {
  float scale[8];
  float minimum[8];
};

ScalesAndMinimums UnpackScales(const uint8_t* packed) {
  ScalesAndMinimums out;
  for (size_t j = 0; j < 4; ++j) {
    const int shared = packed[8 + j];
    out.scale[j] = static_cast<float>(packed[j] & 0x3F);
    out.minimum[j] = static_cast<float>(packed[4 + j] & 0x3F);
    out.scale[4 + j] = static_cast<float>((shared & 0x0F) | (packed[j] >> 6 << 4));
    out.minimum[4 + j] = static_cast<float>((shared >> 4) | (packed[4 + j] >> 6 << 4));
  }
  return out;
}

}  // namespace

// Q2_K: 16 bytes of scale (low nibble) and minimum (high nibble) for 16 elements each, 64 bytes,
// f16 d, f16 dmin; byte l of 32 holds elements l, l + 32, l + 64, l + 96 of a half, two bits each:
// (d * scale) * q - (dmin * minimum).
void DecodeQ2_K(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 84, out += kSuper) {
    const float d = LoadHalf(source + 80);
    const float dmin = LoadHalf(source + 82);
    for (size_t j = 0; j < kSuper / 16; ++j) {
      const float scale = d * static_cast<float>(source[j] & 0x0F);
      const float minimum = dmin * static_cast<float>(source[j] >> 4);
      const uint8_t* q = source + 16 + j / 8 * 32 + j % 2 * 16;
      const size_t shift = j % 8 / 2 * 2;
      for (size_t l = 0; l < 16; ++l) {
        const float product = scale * static_cast<float>(q[l] >> shift & 3);
        out[j * 16 + l] = product - minimum;
      }
    }
  }
}

// Q3_K: 32 bytes of third bits (bit e / 32 of byte e % 32; 0 means less 4), 64 bytes as in Q2_K, 16
// scales of 6 bits in 12 bytes, f16 d: (d * (scale - 32)) * (q - 4 where the third bit is 0).
void DecodeQ3_K(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 110, out += kSuper) {
    const uint8_t* packed = source + 96;
    const float d = LoadHalf(source + 108);
    for (size_t j = 0; j < kSuper / 16; ++j) {
      // Low nibbles in bytes 0-7, two high bits in bytes 8-11.
      const int low = j < 8 ? packed[j] & 0x0F : packed[j - 8] >> 4;
      const int high = packed[8 + j % 4] >> (j / 4 * 2) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const uint8_t* q = source + 32 + j / 8 * 32 + j % 2 * 16;
      const uint8_t* third = source + j % 2 * 16;
      const size_t shift = j % 8 / 2 * 2;
      for (size_t l = 0; l < 16; ++l) {
        const int value = (q[l] >> shift & 3) - ((third[l] >> (j / 2) & 1) != 0 ? 0 : 4);
        out[j * 16 + l] = scale * static_cast<float>(value);
      }
    }
  }
}

// Q4_K: f16 d, f16 dmin, 12 bytes of scales and minimums for 32 elements each, 128 bytes; byte l of
// 32 holds element l of one sub-block (low half) and of the next: (d * scale) * q - (dmin *
// minimum).
void DecodeQ4_K(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 144, out += kSuper) {
    const float d = LoadHalf(source);
    const float dmin = LoadHalf(source + 2);
    const ScalesAndMinimums packed = UnpackScales(source + 4);
    for (size_t j = 0; j < 8; ++j) {
      const float scale = d * packed.scale[j];
      const float minimum = dmin * packed.minimum[j];
      const uint8_t* q = source + 16 + j / 2 * 32;
      const size_t shift = j % 2 * 4;
      for (size_t l = 0; l < 32; ++l) {
        const float product = scale * static_cast<float>(q[l] >> shift & 0x0F);
        out[j * 32 + l] = product - minimum;
      }
    }
  }
}

// Q5_K: as Q4_K, with 32 bytes of fifth bits (bit j of byte l for element l of sub-block j) before
// the 128.
void DecodeQ5_K(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 176, out += kSuper) {
    const float d = LoadHalf(source);
    const float dmin = LoadHalf(source + 2);
    const ScalesAndMinimums packed = UnpackScales(source + 4);
    const uint8_t* fifth = source + 16;
    for (size_t j = 0; j < 8; ++j) {
      const float scale = d * packed.scale[j];
      const float minimum = dmin * packed.minimum[j];
      const uint8_t* q = source + 48 + j / 2 * 32;
      const size_t shift = j % 2 * 4;
      for (size_t l = 0; l < 32; ++l) {
        const int value = (q[l] >> shift & 0x0F) | (fifth[l] >> j & 1) << 4;
        const float product = scale * static_cast<float>(value);
        out[j * 32 + l] = product - minimum;
      }
    }
  }
}

// Q6_K: 128 bytes of low halves (byte l of 64: elements l and l + 64 of a half), 64 bytes of fifth
// and sixth bits (byte l of 32: elements l, l + 32, l + 64, l + 96), 16 signed bytes of scale, f16
// d: (d * scale) * (q - 32).
void DecodeQ6_K(const uint8_t* source, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, source += 210, out += kSuper) {
    const float d = LoadHalf(source + 208);
    for (size_t j = 0; j < kSuper / 16; ++j) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(source[192 + j]));
      const size_t half = j / 8;
      const size_t in_half = j % 8 * 16;  // the sub-block's first element
      const uint8_t* low = source + half * 64 + in_half % 64;
      const uint8_t* high = source + 128 + half * 32 + in_half % 32;
      const size_t low_shift = in_half / 64 * 4;
      const size_t high_shift = in_half / 32 * 2;
      for (size_t l = 0; l < 16; ++l) {
        const int value = (low[l] >> low_shift & 0x0F) | (high[l] >> high_shift & 3) << 4;
        out[j * 16 + l] = scale * static_cast<float>(value - 32);
      }
    }
  }
}

}  // namespace lorica::internal
