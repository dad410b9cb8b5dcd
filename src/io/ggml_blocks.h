// Decoders and encoders of the ggml block formats. Internal to src/io: reach them through
// stored_type.h.
//
// A block holds 32 consecutive elements of a row. All arithmetic is float32, one rounding an
// operation, which is what makes the values equal, bit for bit, to those of other readers.
#ifndef LORICA_IO_GGML_BLOCKS_H_
#define LORICA_IO_GGML_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace lorica::internal {

void DecodeQ4_0(const uint8_t* source, size_t blocks, float* out);
void DecodeQ4_1(const uint8_t* source, size_t blocks, float* out);
void DecodeQ8_0(const uint8_t* source, size_t blocks, float* out);

// An error where a value isn't finite.
absl::Status EncodeQ8_0(const float* values, size_t blocks, uint8_t* out);

}  // namespace lorica::internal

#endif  // LORICA_IO_GGML_BLOCKS_H_
