// MXFP4 weights as gpt-oss publishes them in safetensors: groups of 32 consecutive elements of the
// input dimension share a power of two. (In GGUF files the same numbers come in blocks of another
// layout: StoredType::kMXFP4.)
//
// OCP Microscaling formats specification, 1.0.
#ifndef LORICA_IO_MXFP4_H_
#define LORICA_IO_MXFP4_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lorica/tensor/dtype.h"

namespace lorica {

inline constexpr int64_t kMxfp4Group = 32;

// Whether `blocks`, [..., rows, columns / 32, 16] bytes, and `scales`, [..., rows, columns / 32]
// bytes, belong together; `where` starts the error text.
absl::Status CheckMxfp4Shapes(absl::Span<const int64_t> blocks, absl::Span<const int64_t> scales,
                              absl::string_view where);

// Writes [..., rows, columns] elements of `target` (a compute type). Byte j of a group holds
// elements 2 j (low half) and 2 j + 1, each a sign bit, two bits of exponent and one of mantissa;
// the value is multiplied by 2^(scale - 127), which is exact in every compute type unless it
// overflows. A scale of 255, NaN in the specification, gives infinity and NaN. The sizes must fit
// (else throws Error): 16 bytes of `blocks` and 32 elements of `out` for each scale. Any run of
// whole groups will do, so that callers can go expert by expert. Thread-safe.
void DequantiseMxfp4(absl::Span<const uint8_t> blocks, absl::Span<const uint8_t> scales,
                     DType target, void* out);

}  // namespace lorica

#endif  // LORICA_IO_MXFP4_H_
