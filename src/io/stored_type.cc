#include "lorica/io/stored_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lorica/io/ggml_blocks.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors, GGUF and checkpoints are little-endian, and so must the machine be");

void DecodeF32(const uint8_t* source, size_t elements, float* out) {
  std::memcpy(out, source, elements * sizeof(float));
}

void DecodeF64(const uint8_t* source, size_t elements, float* out) {
  for (size_t i = 0; i < elements; ++i) {
    double value;
    std::memcpy(&value, source + i * sizeof(value), sizeof(value));
    out[i] = static_cast<float>(value);
  }
}

void DecodeF16(const uint8_t* source, size_t elements, float* out) {
  for (size_t i = 0; i < elements; ++i) {
    uint16_t half;
    std::memcpy(&half, source + i * sizeof(half), sizeof(half));
    out[i] = HalfToFloat(half);
  }
}

void DecodeBF16(const uint8_t* source, size_t elements, float* out) {
  for (size_t i = 0; i < elements; ++i) {
    uint16_t bits;
    std::memcpy(&bits, source + i * sizeof(bits), sizeof(bits));
    out[i] = std::bit_cast<float>(uint32_t{bits} << 16);
  }
}

// F8_E5M2 is the upper half of an f16.
void DecodeF8E5M2(const uint8_t* source, size_t elements, float* out) {
  for (size_t i = 0; i < elements; ++i) out[i] = HalfToFloat(static_cast<uint16_t>(source[i] << 8));
}

// One sign bit, four of exponent (bias 7), three of mantissa; no infinity, NaN where all others are
// set. OCP 8-bit floating point specification, 1.0.
constexpr float F8E4M3ToFloat(uint32_t bits) {
  const uint32_t sign = (bits & 0x80u) << 24;
  const uint32_t exponent = bits >> 3 & 0x0Fu;
  const uint32_t mantissa = bits & 0x07u;
  if (exponent == 0x0F && mantissa == 0x07) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) / 512;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);
}

constexpr std::array<float, 256> kF8E4M3 = [] {
  std::array<float, 256> table{};
  for (uint32_t bits = 0; bits < 256; ++bits) table[bits] = F8E4M3ToFloat(bits);
  return table;
}();

void DecodeF8E4M3(const uint8_t* source, size_t elements, float* out) {
  for (size_t i = 0; i < elements; ++i) out[i] = kF8E4M3[source[i]];
}

// A power of two by its biased exponent; 0 lies below the normal numbers, 255 is NaN.
void DecodeF8E8M0(const uint8_t* source, size_t elements, float* out) {
  for (size_t i = 0; i < elements; ++i) {
    const uint32_t exponent = source[i];
    out[i] = std::bit_cast<float>(exponent == 0     ? 0x00400000u
                                  : exponent == 255 ? 0x7FC00000u
                                                    : exponent << 23);
  }
}

// In the order of the enum (checked in TraitsOf's test). Block sizes of ggml types as in the
// format's own table.
constexpr StoredTypeTraits kTraits[] = {
    {StoredType::kF64, "F64", 1, 8, 28, true, DecodeF64},
    {StoredType::kF32, "F32", 1, 4, 0, true, DecodeF32},
    {StoredType::kF16, "F16", 1, 2, 1, true, DecodeF16},
    {StoredType::kBF16, "BF16", 1, 2, 30, true, DecodeBF16},
    {StoredType::kI64, "I64", 1, 8, 27, true, nullptr},
    {StoredType::kI32, "I32", 1, 4, 26, true, nullptr},
    {StoredType::kI16, "I16", 1, 2, 25, true, nullptr},
    {StoredType::kI8, "I8", 1, 1, 24, true, nullptr},
    {StoredType::kU64, "U64", 1, 8, -1, true, nullptr},
    {StoredType::kU32, "U32", 1, 4, -1, true, nullptr},
    {StoredType::kU16, "U16", 1, 2, -1, true, nullptr},
    {StoredType::kU8, "U8", 1, 1, -1, true, nullptr},
    {StoredType::kBool, "BOOL", 1, 1, -1, true, nullptr},
    {StoredType::kF8E4M3, "F8_E4M3", 1, 1, -1, true, DecodeF8E4M3},
    {StoredType::kF8E5M2, "F8_E5M2", 1, 1, -1, true, DecodeF8E5M2},
    {StoredType::kF8E8M0, "F8_E8M0", 1, 1, -1, true, DecodeF8E8M0},
    {StoredType::kC64, "C64", 1, 8, -1, true, nullptr},
    {StoredType::kQ4_0, "Q4_0", 32, 18, 2, false, internal::DecodeQ4_0},
    {StoredType::kQ4_1, "Q4_1", 32, 20, 3, false, internal::DecodeQ4_1},
    {StoredType::kQ5_0, "Q5_0", 32, 22, 6, false, internal::DecodeQ5_0},
    {StoredType::kQ5_1, "Q5_1", 32, 24, 7, false, internal::DecodeQ5_1},
    {StoredType::kQ8_0, "Q8_0", 32, 34, 8, false, internal::DecodeQ8_0},
    {StoredType::kQ8_1, "Q8_1", 32, 40, 9, false, nullptr},
    {StoredType::kQ2_K, "Q2_K", 256, 84, 10, false, internal::DecodeQ2_K},
    {StoredType::kQ3_K, "Q3_K", 256, 110, 11, false, internal::DecodeQ3_K},
    {StoredType::kQ4_K, "Q4_K", 256, 144, 12, false, internal::DecodeQ4_K},
    {StoredType::kQ5_K, "Q5_K", 256, 176, 13, false, internal::DecodeQ5_K},
    {StoredType::kQ6_K, "Q6_K", 256, 210, 14, false, internal::DecodeQ6_K},
    {StoredType::kQ8_K, "Q8_K", 256, 292, 15, false, nullptr},
    {StoredType::kIQ2_XXS, "IQ2_XXS", 256, 66, 16, false, nullptr},
    {StoredType::kIQ2_XS, "IQ2_XS", 256, 74, 17, false, nullptr},
    {StoredType::kIQ3_XXS, "IQ3_XXS", 256, 98, 18, false, nullptr},
    {StoredType::kIQ1_S, "IQ1_S", 256, 50, 19, false, nullptr},
    {StoredType::kIQ4_NL, "IQ4_NL", 32, 18, 20, false, internal::DecodeIQ4_NL},
    {StoredType::kIQ3_S, "IQ3_S", 256, 110, 21, false, nullptr},
    {StoredType::kIQ2_S, "IQ2_S", 256, 82, 22, false, nullptr},
    {StoredType::kIQ4_XS, "IQ4_XS", 256, 136, 23, false, internal::DecodeIQ4_XS},
    {StoredType::kIQ1_M, "IQ1_M", 256, 56, 29, false, nullptr},
    {StoredType::kTQ1_0, "TQ1_0", 256, 54, 34, false, nullptr},
    {StoredType::kTQ2_0, "TQ2_0", 256, 66, 35, false, nullptr},
    {StoredType::kMXFP4, "MXFP4", 32, 17, 39, false, internal::DecodeMXFP4},
    {StoredType::kNVFP4, "NVFP4", 64, 36, 40, false, nullptr},
    {StoredType::kQ1_0, "Q1_0", 128, 18, 41, false, nullptr},
};

constexpr bool TableFollowsEnum() {
  for (size_t i = 0; i < std::size(kTraits); ++i) {
    if (static_cast<size_t>(kTraits[i].type) != i) return false;
  }
  return std::size(kTraits) == static_cast<size_t>(StoredType::kQ1_0) + 1;
}
static_assert(TableFollowsEnum());

// Converts f32 to `target`, piece by piece through a buffer that stays in the first-level cache (4
// KB of 32).
constexpr size_t kPiece = 1024;  // a multiple of every block

template <typename T>
void ConvertThroughF32(const StoredTypeTraits& traits, const uint8_t* source, size_t elements,
                       T* out) {
  float piece[kPiece];
  for (size_t done = 0; done < elements; done += kPiece) {
    const size_t count = std::min(kPiece, elements - done);
    traits.decode(source + done / traits.block_elements * traits.block_bytes,
                  count / traits.block_elements, piece);
    for (size_t i = 0; i < count; ++i) out[done + i] = static_cast<T>(piece[i]);
  }
}

}  // namespace

const StoredTypeTraits& TraitsOf(StoredType type) { return kTraits[static_cast<size_t>(type)]; }

absl::string_view Name(StoredType type) { return TraitsOf(type).name; }

absl::StatusOr<StoredType> StoredTypeFromSafetensors(absl::string_view name) {
  for (const StoredTypeTraits& traits : kTraits) {
    if (traits.in_safetensors && traits.name == name) return traits.type;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown dtype ", Quoted(name)));
}

absl::StatusOr<StoredType> StoredTypeFromGgml(uint32_t id) {
  for (const StoredTypeTraits& traits : kTraits) {
    if (traits.ggml_id >= 0 && static_cast<uint32_t>(traits.ggml_id) == id) return traits.type;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown ggml type ", id));
}

StoredType StoredTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return StoredType::kF32;
    case DType::kBF16:
      return StoredType::kBF16;
    case DType::kF64:
      return StoredType::kF64;
    case DType::kF16:
      return StoredType::kF16;
    case DType::kI32:
      return StoredType::kI32;
    case DType::kI64:
      return StoredType::kI64;
    case DType::kBool:
      return StoredType::kBool;
    case DType::kU8:
      return StoredType::kU8;
  }
  Fail("[io] a DType without a file type");
}

std::optional<DType> NativeDType(StoredType type) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kF16, DType::kI32, DType::kI64,
                      DType::kBool, DType::kU8}) {
    if (StoredTypeOf(dtype) == type) return dtype;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> CheckedElementCount(absl::Span<const int64_t> shape) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t count = 1;
  bool empty = false;  // a zero anywhere hides no overflow elsewhere
  for (int64_t dimension : shape) {
    if (dimension < 0 || (dimension > 0 && count > kMost / dimension)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ShapeText(shape), " is negative or too large"));
    }
    if (dimension == 0) {
      empty = true;
    } else {
      count *= dimension;
    }
  }
  return empty ? 0 : count;
}

absl::StatusOr<uint64_t> StoredBytes(StoredType type, absl::Span<const int64_t> shape) {
  LORICA_ASSIGN_OR_RETURN(const int64_t elements, CheckedElementCount(shape));
  const StoredTypeTraits& traits = TraitsOf(type);
  const int64_t last = shape.empty() ? 1 : shape.back();
  if (last % traits.block_elements != 0) {
    return absl::InvalidArgumentError(absl::StrCat("expected a multiple of ", traits.block_elements,
                                                   " in the last dimension of a ", traits.name,
                                                   " tensor, found shape ", ShapeText(shape)));
  }
  const uint64_t blocks = static_cast<uint64_t>(elements) / traits.block_elements;
  if (blocks > (uint64_t{1} << 62) / traits.block_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(shape), " is too large"));
  }
  return blocks * traits.block_bytes;
}

bool IsConvertible(StoredType type, DType target) {
  if (StoredTypeOf(target) == type) return true;
  if (type == StoredType::kI32 && target == DType::kI64) return true;
  return TraitsOf(type).decode != nullptr && IsCompute(target);
}

absl::Status ConvertElements(StoredType type, absl::Span<const uint8_t> source, int64_t elements,
                             DType target, void* out) {
  const StoredTypeTraits& traits = TraitsOf(type);
  if (!IsConvertible(type, target)) {
    return absl::UnimplementedError(
        absl::StrCat("type ", traits.name, " is not supported as ", Name(target)));
  }
  LORICA_CHECK(elements >= 0 && elements % traits.block_elements == 0, "[io] ", elements,
               " elements aren't whole blocks of ", traits.name);
  const size_t count = static_cast<size_t>(elements);
  LORICA_CHECK(source.size() == count / traits.block_elements * traits.block_bytes, "[io] ",
               elements, " elements of ", traits.name, " don't have ", source.size(), " bytes");
  if (count == 0) return absl::OkStatus();
  if (type == StoredType::kBool) {
    // A byte other than 0 and 1 in a C++ bool is undefined behaviour.
    for (size_t i = 0; i < count; ++i) static_cast<uint8_t*>(out)[i] = source[i] != 0;
  } else if (StoredTypeOf(target) == type) {
    std::memcpy(out, source.data(), source.size());
  } else if (type == StoredType::kI32) {
    for (size_t i = 0; i < count; ++i) {
      int32_t value;
      std::memcpy(&value, source.data() + i * sizeof(value), sizeof(value));
      static_cast<int64_t*>(out)[i] = value;
    }
  } else if (target == DType::kF32) {
    traits.decode(source.data(), count / traits.block_elements, static_cast<float*>(out));
  } else if (target == DType::kBF16) {
    ConvertThroughF32(traits, source.data(), count, static_cast<BF16*>(out));
  } else {
    ConvertThroughF32(traits, source.data(), count, static_cast<double*>(out));
  }
  return absl::OkStatus();
}

absl::Status EncodeElements(StoredType type, absl::Span<const float> values,
                            absl::Span<uint8_t> out) {
  const StoredTypeTraits& traits = TraitsOf(type);
  LORICA_CHECK(values.size() % traits.block_elements == 0 &&
                   out.size() == values.size() / traits.block_elements * traits.block_bytes,
               "[io] ", values.size(), " elements of ", traits.name, " don't have ", out.size(),
               " bytes");
  if (values.empty()) return absl::OkStatus();
  switch (type) {
    case StoredType::kF32:
      std::memcpy(out.data(), values.data(), out.size());
      return absl::OkStatus();
    case StoredType::kF64:
      for (size_t i = 0; i < values.size(); ++i) {
        const double value = values[i];
        std::memcpy(out.data() + i * sizeof(value), &value, sizeof(value));
      }
      return absl::OkStatus();
    case StoredType::kF16:
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t half = FloatToHalf(values[i]);
        std::memcpy(out.data() + i * sizeof(half), &half, sizeof(half));
      }
      return absl::OkStatus();
    case StoredType::kBF16:
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t bits = BF16(values[i]).bits;
        std::memcpy(out.data() + i * sizeof(bits), &bits, sizeof(bits));
      }
      return absl::OkStatus();
    case StoredType::kQ8_0:
      return internal::EncodeQ8_0(values.data(), values.size() / traits.block_elements, out.data());
    default:
      return absl::UnimplementedError(
          absl::StrCat("writing type ", traits.name, " is not supported"));
  }
}

}  // namespace lorica
