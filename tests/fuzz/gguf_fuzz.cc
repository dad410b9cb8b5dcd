// Bytes as a GGUF file, or as the parts of a split one, each of which begins with the magic: parse,
// join, ask for every key as every type, convert every tensor.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lorica/io/gguf.h"
#include "lorica/io/stored_type.h"

namespace {

absl::StatusOr<lorica::GgufFile> ParseParts(absl::string_view bytes) {
  const absl::string_view magic("GGUF\3\0\0\0", 8);
  std::vector<lorica::GgufFile> parts;
  while (true) {
    const size_t end = bytes.find(magic, 1);
    const absl::string_view part = bytes.substr(0, end);
    auto file = lorica::GgufFile::Parse(
        {reinterpret_cast<const uint8_t*>(part.data()), part.size()}, "fuzz");
    if (!file.ok()) return file.status();
    parts.push_back(*std::move(file));
    if (end == absl::string_view::npos) break;
    bytes.remove_prefix(end);
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return lorica::GgufFile::Join(std::move(parts));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = ParseParts({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  for (const std::string& key : file->keys()) {
    if (!file->Has(key) || file->Describe(key).empty()) __builtin_trap();
    file->GetString(key).status().IgnoreError();
    file->GetU64(key).status().IgnoreError();
    file->GetI64(key).status().IgnoreError();
    file->GetF64(key).status().IgnoreError();
    file->GetBool(key).status().IgnoreError();
    file->GetInts(key).status().IgnoreError();
    file->GetFloats(key).status().IgnoreError();
    if (const auto strings = file->GetStrings(key); strings.ok()) {
      size_t total = 0;
      for (absl::string_view text : *strings) total += text.size();
      if (total > size) __builtin_trap();
    }
  }
  for (const lorica::GgufTensor& tensor : file->tensors()) {
    if (file->Find(tensor.name) != &tensor) __builtin_trap();
    if (!lorica::IsConvertible(tensor.type, lorica::DType::kF64)) continue;
    const int64_t elements = *lorica::CheckedElementCount(tensor.shape);
    std::vector<double> values(static_cast<size_t>(elements));
    if (!lorica::ConvertElements(tensor.type, file->Bytes(tensor), elements, lorica::DType::kF64,
                                 values.data())
             .ok()) {
      __builtin_trap();
    }
  }
  return 0;
}
