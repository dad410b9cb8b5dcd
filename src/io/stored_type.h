// Types of elements, and of blocks of elements, that occur in files, and their conversion to the
// types that Lorica computes with.
//
// A block type stores `block_elements` consecutive elements of the last dimension in `block_bytes`
// bytes; plain types are blocks of one element. One row of the table in stored_type.cc describes a
// type; a decoder in that row makes it readable.
#ifndef LORICA_IO_STORED_TYPE_H_
#define LORICA_IO_STORED_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/tensor/dtype.h"

namespace lorica {

enum class StoredType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kC64,  // recognised, not readable
  // ggml blocks. Readable: Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ8_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ3_XXS,
  kIQ1_S,
  kIQ4_NL,
  kIQ3_S,
  kIQ2_S,
  kIQ4_XS,
  kIQ1_M,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
  kQ1_0,
};

// Decodes `blocks` blocks from `source` (any alignment) into f32. For block types the value is what
// the reference Python package of the format computes in float32, bit for bit.
using BlockDecoder = void (*)(const uint8_t* source, size_t blocks, float* out);

struct StoredTypeTraits {
  StoredType type;
  absl::string_view name;  // as the format spells it: "BF16", "F8_E4M3", "Q4_1"
  uint32_t block_elements;
  uint32_t block_bytes;
  int ggml_id;          // number in GGUF files, -1 where it doesn't occur there
  bool in_safetensors;  // occurs in safetensors files
  BlockDecoder decode;  // null: no conversion to floats
};

const StoredTypeTraits& TraitsOf(StoredType type);
absl::string_view Name(StoredType type);

// Several elements share a scale.
inline bool IsQuantised(StoredType type) { return TraitsOf(type).block_elements > 1; }

// Errors name the unknown type; the caller adds file and tensor.
absl::StatusOr<StoredType> StoredTypeFromSafetensors(absl::string_view name);
absl::StatusOr<StoredType> StoredTypeFromGgml(uint32_t id);

// The file type with the same bits as `dtype`, and the reverse where there is one.
StoredType StoredTypeOf(DType dtype);
std::optional<DType> NativeDType(StoredType type);

// Product of `shape`; an error where a dimension is negative or the product exceeds 2^62.
absl::StatusOr<int64_t> CheckedElementCount(absl::Span<const int64_t> shape);

// Bytes of a dense tensor. An error where the size overflows or the last dimension isn't a multiple
// of the block.
absl::StatusOr<uint64_t> StoredBytes(StoredType type, absl::Span<const int64_t> shape);

// True where ConvertElements(type, ..., target) works: float and block types to f32, bf16 and f64;
// every type to its native DType; i32 to i64.
bool IsConvertible(StoredType type, DType target);

// Converts `elements` elements (whole blocks) from `source`, whose size must fit exactly, into
// `out` (elements of `target`, aligned for it). Values go through f32, rounded to bf16 to nearest
// even, widened exactly to f64; f64 sources reach f64 unchanged. Thread-safe: callers may split a
// tensor over threads at block boundaries. The error (Unimplemented) names the type.
absl::Status ConvertElements(StoredType type, absl::Span<const uint8_t> source, int64_t elements,
                             DType target, void* out);

// The reverse, for writing: f32 values (whole blocks) to F64, F32, F16, BF16 or Q8_0. `out` holds
// exactly the stored bytes. An error for other types, and for values that aren't finite where the
// type is Q8_0.
absl::Status EncodeElements(StoredType type, absl::Span<const float> values,
                            absl::Span<uint8_t> out);

}  // namespace lorica

#endif  // LORICA_IO_STORED_TYPE_H_
