// Bytes as a safetensors file: parse, read what the header promises, convert it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lorica/io/safetensors.h"
#include "lorica/io/stored_type.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = lorica::SafetensorsFile::Parse({data, size}, "fuzz");
  if (!file.ok()) return 0;
  for (const lorica::SafetensorsEntry& entry : file->entries()) {
    if (file->Find(entry.name) != &entry) __builtin_trap();
    const absl::Span<const uint8_t> bytes = file->Bytes(entry);
    const std::vector<uint8_t> copy(bytes.begin(), bytes.end());  // touches every byte
    if (copy.size() != entry.end - entry.begin) __builtin_trap();
    if (!lorica::IsConvertible(entry.type, lorica::DType::kF32)) continue;
    const int64_t elements = *lorica::CheckedElementCount(entry.shape);
    std::vector<float> values(static_cast<size_t>(elements));
    if (!lorica::ConvertElements(entry.type, bytes, elements, lorica::DType::kF32, values.data())
             .ok()) {
      __builtin_trap();
    }
  }
  return 0;
}
