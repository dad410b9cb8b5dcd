#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/gguf.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr uint64_t kAlignment = 32;  // the format's default, so no general.alignment is needed
constexpr absl::string_view kAlignmentKey = "general.alignment";

template <typename T>
void Put(std::string* out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

void PutString(std::string* out, absl::string_view text) {
  Put<uint64_t>(out, text.size());
  out->append(text.data(), text.size());
}

uint64_t Padding(uint64_t size) { return (kAlignment - size % kAlignment) % kAlignment; }

}  // namespace

bool GgufMetadata::Has(absl::string_view key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

void GgufMetadata::Begin(absl::string_view key, GgufType type) {
  LORICA_CHECK(!key.empty() && !Has(key), "[gguf] key ", Quoted(key), " is empty or set twice");
  LORICA_CHECK(key != kAlignmentKey, "[gguf] the alignment is the writer's business");
  keys_.emplace_back(key);
  PutString(&bytes_, key);
  Put(&bytes_, static_cast<uint32_t>(type));
}

void GgufMetadata::BeginArray(absl::string_view key, GgufType type, uint64_t count) {
  Begin(key, GgufType::kArray);
  Put(&bytes_, static_cast<uint32_t>(type));
  Put(&bytes_, count);
}

void GgufMetadata::SetString(absl::string_view key, absl::string_view value) {
  Begin(key, GgufType::kString);
  PutString(&bytes_, value);
}

void GgufMetadata::SetU32(absl::string_view key, uint32_t value) {
  Begin(key, GgufType::kU32);
  Put(&bytes_, value);
}

void GgufMetadata::SetI32(absl::string_view key, int32_t value) {
  Begin(key, GgufType::kI32);
  Put(&bytes_, value);
}

void GgufMetadata::SetU64(absl::string_view key, uint64_t value) {
  Begin(key, GgufType::kU64);
  Put(&bytes_, value);
}

void GgufMetadata::SetF32(absl::string_view key, float value) {
  Begin(key, GgufType::kF32);
  Put(&bytes_, value);
}

void GgufMetadata::SetF64(absl::string_view key, double value) {
  Begin(key, GgufType::kF64);
  Put(&bytes_, value);
}

void GgufMetadata::SetBool(absl::string_view key, bool value) {
  Begin(key, GgufType::kBool);
  Put<uint8_t>(&bytes_, value ? 1 : 0);
}

void GgufMetadata::SetStrings(absl::string_view key, absl::Span<const std::string> values) {
  BeginArray(key, GgufType::kString, values.size());
  for (const std::string& value : values) PutString(&bytes_, value);
}

void GgufMetadata::SetI32s(absl::string_view key, absl::Span<const int32_t> values) {
  BeginArray(key, GgufType::kI32, values.size());
  for (int32_t value : values) Put(&bytes_, value);
}

void GgufMetadata::SetF32s(absl::string_view key, absl::Span<const float> values) {
  BeginArray(key, GgufType::kF32, values.size());
  for (float value : values) Put(&bytes_, value);
}

void GgufMetadata::Copy(const GgufFile& file, absl::string_view key) {
  const auto found = file.values_.find(std::string(key));
  LORICA_CHECK(found != file.values_.end(), "[gguf] ", file.where(), " has no key ", Quoted(key));
  const GgufFile::Value& value = found->second;
  if (value.is_array) {
    BeginArray(key, value.type, value.count);
  } else {
    Begin(key, value.type);
  }
  bytes_.append(reinterpret_cast<const char*>(file.bytes_.data()) + value.begin,
                value.end - value.begin);
}

absl::StatusOr<GgufWriter> GgufWriter::Begin(WritableFile& sink, const GgufMetadata& metadata,
                                             absl::Span<const GgufTensorSpec> specs) {
  GgufWriter writer(sink);
  std::string header = "GGUF";
  Put<uint32_t>(&header, 3);
  Put<uint64_t>(&header, specs.size());
  Put<uint64_t>(&header, metadata.keys_.size());
  header += metadata.bytes_;
  std::set<absl::string_view> names;
  uint64_t offset = 0;
  for (const GgufTensorSpec& spec : specs) {
    const StoredTypeTraits& traits = TraitsOf(spec.type);
    LORICA_CHECK(traits.ggml_id >= 0, "[gguf] tensor ", spec.name, " has type ", traits.name,
                 ", which the format doesn't know");
    LORICA_CHECK(spec.shape.size() <= 4, "[gguf] tensor ", spec.name,
                 " has more than 4 dimensions");
    LORICA_CHECK(names.insert(spec.name).second, "[gguf] tensor ", spec.name, " occurs twice");
    LORICA_ASSIGN_OR_RETURN(const uint64_t size, StoredBytes(spec.type, spec.shape));
    PutString(&header, spec.name);
    Put(&header, static_cast<uint32_t>(spec.shape.size()));
    for (auto size_at = spec.shape.rbegin(); size_at != spec.shape.rend(); ++size_at) {
      Put(&header, static_cast<uint64_t>(*size_at));
    }
    Put(&header, static_cast<uint32_t>(traits.ggml_id));
    Put(&header, offset);
    writer.sizes_.push_back(size);
    offset += size + Padding(size);
  }
  header.append(Padding(header.size()), '\0');
  LORICA_RETURN_IF_ERROR(sink.Append(header));
  return writer;
}

absl::Status GgufWriter::Pad(uint64_t bytes) { return sink_->Append(std::string(bytes, '\0')); }

absl::Status GgufWriter::AppendTensor(absl::Span<const uint8_t> bytes) {
  LORICA_CHECK(next_ < sizes_.size(), "[gguf] more tensors than announced");
  LORICA_CHECK(written_ == 0 && bytes.size() == sizes_[next_], "[gguf] tensor number ", next_,
               " has ", bytes.size(), " bytes instead of ", sizes_[next_] - written_);
  if (!bytes.empty()) return AppendPart(bytes);
  ++next_;
  return absl::OkStatus();
}

absl::Status GgufWriter::AppendPart(absl::Span<const uint8_t> bytes) {
  LORICA_CHECK(next_ < sizes_.size(), "[gguf] more tensors than announced");
  LORICA_CHECK(bytes.size() <= sizes_[next_] - written_, "[gguf] tensor number ", next_, " has ",
               written_ + bytes.size(), " bytes or more instead of ", sizes_[next_]);
  LORICA_RETURN_IF_ERROR(sink_->Append(bytes));
  written_ += bytes.size();
  if (written_ < sizes_[next_]) return absl::OkStatus();
  written_ = 0;
  return Pad(Padding(sizes_[next_++]));
}

absl::Status GgufWriter::Finish() {
  LORICA_CHECK(next_ == sizes_.size(), "[gguf] ", sizes_.size() - next_,
               " announced tensors weren't written");
  return absl::OkStatus();
}

}  // namespace lorica
