#include "lorica/io/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Widths in bytes by type number; 0 for those without a fixed width.
constexpr uint32_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr absl::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
constexpr uint32_t kTypes = 13;

template <typename T>
T LoadAt(absl::Span<const uint8_t> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kU16:
    case GgufType::kI16:
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kU64:
    case GgufType::kI64:
      return true;
    default:
      return false;
  }
}

// An integer value (IsInteger) at a checked offset; false where a u64 exceeds int64.
bool LoadInteger(absl::Span<const uint8_t> bytes, GgufType type, uint64_t offset, int64_t* out) {
  switch (type) {
    case GgufType::kU8:
      *out = LoadAt<uint8_t>(bytes, offset);
      return true;
    case GgufType::kI8:
      *out = LoadAt<int8_t>(bytes, offset);
      return true;
    case GgufType::kU16:
      *out = LoadAt<uint16_t>(bytes, offset);
      return true;
    case GgufType::kI16:
      *out = LoadAt<int16_t>(bytes, offset);
      return true;
    case GgufType::kU32:
      *out = LoadAt<uint32_t>(bytes, offset);
      return true;
    case GgufType::kI32:
      *out = LoadAt<int32_t>(bytes, offset);
      return true;
    default:
      *out = LoadAt<int64_t>(bytes, offset);
      return type == GgufType::kI64 || *out >= 0;
  }
}

double LoadFloat(absl::Span<const uint8_t> bytes, GgufType type, uint64_t offset) {
  return type == GgufType::kF32 ? LoadAt<float>(bytes, offset) : LoadAt<double>(bytes, offset);
}

}  // namespace

uint32_t FixedWidth(GgufType type) {
  const uint32_t id = static_cast<uint32_t>(type);
  return id < kTypes ? kWidths[id] : 0;
}

absl::string_view Name(GgufType type) {
  const uint32_t id = static_cast<uint32_t>(type);
  return id < kTypes ? kNames[id] : "unknown";
}

absl::StatusOr<GgufFile> GgufFile::OpenOne(const std::string& path, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(MappedFile mapped, files.Map(path));
  auto mapping = std::make_shared<const MappedFile>(std::move(mapped));
  LORICA_ASSIGN_OR_RETURN(GgufFile file, Parse(mapping->bytes(), path));
  file.mapping_ = std::move(mapping);
  return file;
}

bool GgufFile::Has(absl::string_view key) const { return values_.count(std::string(key)) > 0; }

absl::Status GgufFile::WrongType(absl::string_view key, const Value& value,
                                 absl::string_view expected) const {
  return absl::InvalidArgumentError(
      absl::StrCat(where_, ": GGUF key ", Quoted(key), ": expected ", expected, ", found ",
                   value.is_array ? "an array of " : "", Name(value.type)));
}

absl::StatusOr<const GgufFile::Value*> GgufFile::Lookup(absl::string_view key, bool is_array,
                                                        absl::string_view expected) const {
  const auto found = values_.find(std::string(key));
  if (found == values_.end()) {
    return absl::NotFoundError(absl::StrCat(where_, ": GGUF key ", Quoted(key), ": expected ",
                                            expected, ", found nothing"));
  }
  if (found->second.is_array != is_array) return WrongType(key, found->second, expected);
  return &found->second;
}

absl::StatusOr<std::string> GgufFile::GetString(absl::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const Value* value, Lookup(key, false, "a string"));
  if (value->type != GgufType::kString) return WrongType(key, *value, "a string");
  const char* text = reinterpret_cast<const char*>(bytes_.data()) + value->begin + sizeof(uint64_t);
  return std::string(text, value->end - value->begin - sizeof(uint64_t));
}

absl::StatusOr<int64_t> GgufFile::GetI64(absl::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const Value* value, Lookup(key, false, "an integer"));
  int64_t number = 0;
  if (!IsInteger(value->type)) return WrongType(key, *value, "an integer");
  if (!LoadInteger(bytes_, value->type, value->begin, &number)) {
    return WrongType(key, *value, "an integer below 2^63");
  }
  return number;
}

absl::StatusOr<uint64_t> GgufFile::GetU64(absl::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const Value* value, Lookup(key, false, "a non-negative integer"));
  if (value->type == GgufType::kU64) return LoadAt<uint64_t>(bytes_, value->begin);
  int64_t number = 0;
  if (!IsInteger(value->type) || !LoadInteger(bytes_, value->type, value->begin, &number) ||
      number < 0) {
    return WrongType(key, *value, "a non-negative integer");
  }
  return static_cast<uint64_t>(number);
}

absl::StatusOr<double> GgufFile::GetF64(absl::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const Value* value, Lookup(key, false, "a number"));
  if (value->type == GgufType::kF32 || value->type == GgufType::kF64) {
    return LoadFloat(bytes_, value->type, value->begin);
  }
  int64_t number = 0;
  if (!IsInteger(value->type) || !LoadInteger(bytes_, value->type, value->begin, &number)) {
    return WrongType(key, *value, "a number");
  }
  return static_cast<double>(number);
}

absl::StatusOr<bool> GgufFile::GetBool(absl::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const Value* value, Lookup(key, false, "a boolean"));
  if (value->type != GgufType::kBool) return WrongType(key, *value, "a boolean");
  return bytes_[value->begin] != 0;
}

absl::StatusOr<std::vector<absl::string_view>> GgufFile::GetStrings(absl::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const Value* value, Lookup(key, true, "an array of strings"));
  if (value->type != GgufType::kString) return WrongType(key, *value, "an array of strings");
  std::vector<absl::string_view> strings;
  strings.reserve(value->count);  // bounded: each string took 8 bytes of the file
  uint64_t at = value->begin;
  for (uint64_t i = 0; i < value->count; ++i) {
    const uint64_t length = LoadAt<uint64_t>(bytes_, at);
    at += sizeof(length);
    strings.emplace_back(reinterpret_cast<const char*>(bytes_.data()) + at, length);
    at += length;
  }
  return strings;
}

absl::StatusOr<std::vector<int64_t>> GgufFile::GetInts(absl::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const Value* value, Lookup(key, true, "an array of integers"));
  if (!IsInteger(value->type) && value->type != GgufType::kBool) {
    return WrongType(key, *value, "an array of integers");
  }
  const GgufType type = value->type == GgufType::kBool ? GgufType::kU8 : value->type;
  const uint32_t width = FixedWidth(type);
  std::vector<int64_t> numbers(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    if (!LoadInteger(bytes_, type, value->begin + i * width, &numbers[i])) {
      return WrongType(key, *value, "integers below 2^63");
    }
  }
  return numbers;
}

absl::StatusOr<std::vector<double>> GgufFile::GetFloats(absl::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const Value* value, Lookup(key, true, "an array of floats"));
  if (value->type != GgufType::kF32 && value->type != GgufType::kF64) {
    return WrongType(key, *value, "an array of floats");
  }
  const uint32_t width = FixedWidth(value->type);
  std::vector<double> numbers(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    numbers[i] = LoadFloat(bytes_, value->type, value->begin + i * width);
  }
  return numbers;
}

absl::StatusOr<std::string> GgufFile::GetStringOr(absl::string_view key,
                                                  absl::string_view fallback) const {
  return Has(key) ? GetString(key) : std::string(fallback);
}

absl::StatusOr<uint64_t> GgufFile::GetU64Or(absl::string_view key, uint64_t fallback) const {
  return Has(key) ? GetU64(key) : fallback;
}

absl::StatusOr<double> GgufFile::GetF64Or(absl::string_view key, double fallback) const {
  return Has(key) ? GetF64(key) : fallback;
}

absl::StatusOr<bool> GgufFile::GetBoolOr(absl::string_view key, bool fallback) const {
  return Has(key) ? GetBool(key) : fallback;
}

std::string GgufFile::Describe(absl::string_view key) const {
  const auto found = values_.find(std::string(key));
  if (found == values_.end()) return "";
  const Value& value = found->second;
  if (value.is_array) return absl::StrCat("array of ", value.count, " ", Name(value.type));
  std::string text;
  if (value.type == GgufType::kString) {
    text = Quoted(*GetString(key));
  } else if (value.type == GgufType::kBool) {
    text = *GetBool(key) ? "true" : "false";
  } else if (value.type == GgufType::kU64) {
    text = absl::StrCat(*GetU64(key));
  } else if (IsInteger(value.type)) {
    text = absl::StrCat(*GetI64(key));
  } else {
    text = absl::StrCat(*GetF64(key));
  }
  return absl::StrCat(Name(value.type), " ", text);
}

const GgufTensor* GgufFile::Find(absl::string_view name) const {
  const auto found = tensor_index_.find(std::string(name));
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

absl::Span<const uint8_t> GgufFile::Bytes(const GgufTensor& tensor) const {
  const absl::Span<const uint8_t> bytes =
      tensor.part == 0 ? bytes_ : later_parts_[tensor.part - 1].bytes;
  return bytes.subspan(tensor.begin, tensor.end - tensor.begin);
}

}  // namespace lorica
