// Decoders and encoders of the ggml block formats. Internal to src/io: reach them through
// stored_type.h.
//
// A block holds 32 consecutive elements of a row, a super-block of the K types 256. Every value is
// a product of float32 numbers made of integers and f16 scales, one rounding an operation in the
// order that the comments give, which is what makes it equal, bit for bit, to that of other
// readers. An infinite or NaN scale gives infinite or NaN values.
#ifndef LORICA_IO_GGML_BLOCKS_H_
#define LORICA_IO_GGML_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "lorica/tensor/dtype.h"

namespace lorica::internal {

// An f16 at any address.
inline float LoadHalf(const uint8_t* at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof(half));
  return HalfToFloat(half);
}

// A scale for 32 elements (ggml_blocks.cc).
void DecodeQ4_0(const uint8_t* source, size_t blocks, float* out);
void DecodeQ4_1(const uint8_t* source, size_t blocks, float* out);
void DecodeQ5_0(const uint8_t* source, size_t blocks, float* out);
void DecodeQ5_1(const uint8_t* source, size_t blocks, float* out);
void DecodeQ8_0(const uint8_t* source, size_t blocks, float* out);

// Super-blocks with quantised scales (ggml_k_blocks.cc).
void DecodeQ2_K(const uint8_t* source, size_t blocks, float* out);
void DecodeQ3_K(const uint8_t* source, size_t blocks, float* out);
void DecodeQ4_K(const uint8_t* source, size_t blocks, float* out);
void DecodeQ5_K(const uint8_t* source, size_t blocks, float* out);
void DecodeQ6_K(const uint8_t* source, size_t blocks, float* out);

// Four bits that number the entries of a table (ggml_table_blocks.cc).
void DecodeIQ4_NL(const uint8_t* source, size_t blocks, float* out);
void DecodeIQ4_XS(const uint8_t* source, size_t blocks, float* out);
void DecodeMXFP4(const uint8_t* source, size_t blocks, float* out);

// An error where a value isn't finite.
absl::Status EncodeQ8_0(const float* values, size_t blocks, uint8_t* out);

}  // namespace lorica::internal

#endif  // LORICA_IO_GGML_BLOCKS_H_
