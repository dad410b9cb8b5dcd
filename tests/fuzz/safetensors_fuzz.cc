// Bytes as a safetensors file: parse, read what the header promises, convert it, scale 8-bit
// weights.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lorica/io/safetensors.h"
#include "lorica/io/stored_type.h"
#include "lorica/io/tensor_source.h"

namespace {

// The parsed file as a source, without a file.
class ParsedSource final : public lorica::TensorSource {
 public:
  explicit ParsedSource(const lorica::SafetensorsFile& file) : file_(file) {
    for (const lorica::SafetensorsEntry& entry : file.entries()) {
      names_.push_back(entry.name);
      infos_[entry.name] = {entry.type, entry.shape};
    }
  }
  const std::vector<std::string>& names() const override { return names_; }
  const lorica::StoredTensorInfo* Find(absl::string_view name) const override {
    const auto found = infos_.find(std::string(name));
    return found == infos_.end() ? nullptr : &found->second;
  }
  absl::StatusOr<absl::Span<const uint8_t>> Bytes(absl::string_view name) const override {
    const lorica::SafetensorsEntry* entry = file_.Find(name);
    if (entry == nullptr) return absl::NotFoundError("none");
    return file_.Bytes(*entry);
  }
  std::string Where(absl::string_view name) const override { return std::string(name); }

 private:
  const lorica::SafetensorsFile& file_;
  std::vector<std::string> names_;
  std::map<std::string, lorica::StoredTensorInfo> infos_;
};

// 8-bit weights with the scales that lie beside them.
void ReadScaled(const lorica::SafetensorsFile& file) {
  const auto scaled =
      lorica::MakeBlockScaledSource(std::make_unique<ParsedSource>(file), /*block_rows=*/2,
                                    /*block_columns=*/3);
  if (!scaled.ok()) return;
  for (const std::string& name : (*scaled)->names()) {
    const lorica::StoredTensorInfo& info = *(*scaled)->Find(name);
    if (!lorica::IsConvertible(info.type, lorica::DType::kF32)) continue;
    std::vector<float> values(static_cast<size_t>(*lorica::CheckedElementCount(info.shape)));
    if (!(*scaled)->ReadAll(name, lorica::DType::kF32, values.data()).ok()) __builtin_trap();
  }
}

}  // namespace

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
  ReadScaled(*file);
  return 0;
}
