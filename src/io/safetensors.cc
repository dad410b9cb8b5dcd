#include "lorica/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// The limit of the format's own implementation.
constexpr uint64_t kLongestHeader = 100'000'000;
// Ten values a tensor: 400,000 tensors, and at most about 400 MB for the parsed header.
constexpr size_t kMostHeaderValues = size_t{1} << 22;
// Far above any tensor; keeps one hostile entry from costing much.
constexpr size_t kMostDimensions = 64;

absl::Status Bad(absl::string_view where, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": safetensors: ", message));
}

absl::Status BadTensor(absl::string_view where, absl::string_view name, absl::string_view message) {
  return Bad(where, absl::StrCat("tensor ", Quoted(name), ": ", message));
}

absl::StatusOr<std::vector<int64_t>> UnsignedNumbers(const Json& json, absl::string_view where,
                                                     absl::string_view name,
                                                     absl::string_view key) {
  std::vector<int64_t> numbers;
  const auto found = json.find(std::string(key));
  if (found == json.end() || !found->is_array()) {
    return BadTensor(where, name, absl::StrCat("expected an array under \"", key, "\""));
  }
  if (found->size() > kMostDimensions) {
    return BadTensor(where, name,
                     absl::StrCat("expected at most ", kMostDimensions, " numbers under \"", key,
                                  "\", found ", found->size()));
  }
  for (const Json& number : *found) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX) {
      return BadTensor(where, name,
                       absl::StrCat("expected integers from 0 to 2^63 - 1 under \"", key, "\""));
    }
    numbers.push_back(static_cast<int64_t>(number.get<uint64_t>()));
  }
  return numbers;
}

// One entry with offsets relative to the data, checked by itself against the size of the data.
absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& name, const Json& json,
                                            absl::string_view where, uint64_t data_size) {
  if (!json.is_object()) return BadTensor(where, name, "expected an object");
  for (const auto& member : json.items()) {
    if (member.key() != "dtype" && member.key() != "shape" && member.key() != "data_offsets") {
      return BadTensor(where, name, absl::StrCat("unknown key ", Quoted(member.key())));
    }
  }
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) {
    return BadTensor(where, name, "expected a string under \"dtype\"");
  }
  const absl::StatusOr<StoredType> type = StoredTypeFromSafetensors(dtype->get<std::string>());
  if (!type.ok()) return BadTensor(where, name, type.status().message());
  LORICA_ASSIGN_OR_RETURN(std::vector<int64_t> shape, UnsignedNumbers(json, where, name, "shape"));
  LORICA_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                          UnsignedNumbers(json, where, name, "data_offsets"));
  if (offsets.size() != 2) {
    return BadTensor(where, name, absl::StrCat("expected 2 data_offsets, found ", offsets.size()));
  }
  const uint64_t begin = static_cast<uint64_t>(offsets[0]);
  const uint64_t end = static_cast<uint64_t>(offsets[1]);
  if (begin > end || end > data_size) {
    return BadTensor(where, name,
                     absl::StrCat("data_offsets [", begin, ", ", end, "] lie outside of the ",
                                  data_size, " data bytes that the file has"));
  }
  const absl::StatusOr<uint64_t> size = StoredBytes(*type, shape);
  if (!size.ok()) return BadTensor(where, name, size.status().message());
  if (*size != end - begin) {
    return BadTensor(where, name,
                     absl::StrCat("expected ", *size, " bytes for ", Name(*type), " ",
                                  ShapeText(shape), ", data_offsets span ", end - begin));
  }
  return SafetensorsEntry{name, *type, std::move(shape), begin, end};
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(MappedFile mapped, files.Map(path));
  auto mapping = std::make_shared<const MappedFile>(std::move(mapped));
  LORICA_ASSIGN_OR_RETURN(SafetensorsFile file, Parse(mapping->bytes(), path));
  file.mapping_ = std::move(mapping);
  return file;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Parse(absl::Span<const uint8_t> bytes,
                                                       absl::string_view where) {
  uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) {
    return Bad(where, absl::StrCat("expected at least 8 bytes, found ", bytes.size()));
  }
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  if (header_size > kLongestHeader) {
    return Bad(where, absl::StrCat("the first 8 bytes announce a header of ", header_size,
                                   " bytes, at most ", kLongestHeader, " are allowed"));
  }
  if (header_size > bytes.size() - sizeof(header_size)) {
    return Bad(where, absl::StrCat("the header of ", header_size,
                                   " bytes goes past the end of the file, which has ", bytes.size(),
                                   " bytes"));
  }
  const uint64_t data_begin = sizeof(header_size) + header_size;
  const uint64_t data_size = bytes.size() - data_begin;
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(header_size),
                               header_size);
  if (text.empty() || text[0] != '{') return Bad(where, "expected '{' at byte 8");
  // Object, tensor, array: three levels.
  LORICA_ASSIGN_OR_RETURN(
      const Json header,
      ParseJson(text, absl::StrCat(where, ": safetensors header"),
                {.max_bytes = kLongestHeader, .max_depth = 3, .max_values = kMostHeaderValues}));

  SafetensorsFile file;
  file.bytes_ = bytes;
  file.where_ = std::string(where);
  for (const auto& member : header.items()) {
    if (member.key() == "__metadata__") {
      if (!member.value().is_object()) return Bad(where, "expected an object as __metadata__");
      for (const auto& pair : member.value().items()) {
        if (!pair.value().is_string()) {
          return Bad(where, absl::StrCat("expected a string under key ", Quoted(pair.key()),
                                         " of __metadata__"));
        }
        file.metadata_.emplace(pair.key(), pair.value().get<std::string>());
      }
      continue;
    }
    LORICA_ASSIGN_OR_RETURN(SafetensorsEntry entry,
                            ParseEntry(member.key(), member.value(), where, data_size));
    file.entries_.push_back(std::move(entry));
  }

  // Tensors follow one another without gap or overlap. Empty ones sort before what starts at the
  // same byte.
  std::sort(file.entries_.begin(), file.entries_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t expected = 0;
  for (size_t i = 0; i < file.entries_.size(); ++i) {
    SafetensorsEntry& entry = file.entries_[i];
    if (entry.begin != expected) {
      return BadTensor(
          where, entry.name,
          absl::StrCat("starts at data byte ", entry.begin, ", but the tensor before it ",
                       entry.begin < expected ? "overlaps it, ending at " : "ends at ", expected));
    }
    expected = entry.end;
    entry.begin += data_begin;
    entry.end += data_begin;
    file.index_.emplace(entry.name, i);
  }
  if (expected != data_size) {
    return Bad(where, absl::StrCat("the tensors end at data byte ", expected, ", but ", data_size,
                                   " bytes of data follow the header"));
  }
  return file;
}

const SafetensorsEntry* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &entries_[found->second];
}

absl::Span<const uint8_t> SafetensorsFile::Bytes(const SafetensorsEntry& entry) const {
  return bytes_.subspan(entry.begin, entry.end - entry.begin);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Begin(
    WritableFile& sink, std::vector<SafetensorsSpec> specs,
    const std::map<std::string, std::string>& metadata) {
  constexpr size_t kAlignment = 64;  // a cache line, so that a mapping can be used as it is
  SafetensorsWriter writer(sink);
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      LORICA_ASSIGN_OR_RETURN(const std::string quoted_key, JsonQuoted(key, "metadata key"));
      LORICA_ASSIGN_OR_RETURN(const std::string quoted_value, JsonQuoted(value, "metadata"));
      absl::StrAppend(&header, quoted_key, ":", quoted_value, ",");
    }
    header.back() = '}';
    header += ',';
  }
  uint64_t offset = 0;
  std::set<std::string> names;
  for (SafetensorsSpec& spec : specs) {
    LORICA_ASSIGN_OR_RETURN(const std::string quoted, JsonQuoted(spec.name, "tensor name"));
    LORICA_CHECK(TraitsOf(spec.type).in_safetensors, "[safetensors] tensor ", quoted, " has type ",
                 Name(spec.type), ", which the format doesn't know");
    if (spec.name == "__metadata__" || !names.insert(spec.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor name ", quoted, " is taken or reserved"));
    }
    LORICA_ASSIGN_OR_RETURN(const uint64_t size, StoredBytes(spec.type, spec.shape));
    // No spaces inside: some readers compare headers as text.
    absl::StrAppend(&header, quoted, ":{\"dtype\":\"", Name(spec.type), "\",\"shape\":[");
    for (size_t i = 0; i < spec.shape.size(); ++i) {
      absl::StrAppend(&header, i == 0 ? "" : ",", spec.shape[i]);
    }
    absl::StrAppend(&header, "],\"data_offsets\":[", offset, ",", offset + size, "]},");
    writer.entries_.push_back(
        {std::move(spec.name), spec.type, std::move(spec.shape), offset, offset + size});
    offset += size;
  }
  if (header.back() == ',') header.pop_back();
  header += '}';
  const size_t unpadded = sizeof(uint64_t) + header.size();
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  const uint64_t header_size = header.size();
  if (header_size > kLongestHeader) {
    return absl::InvalidArgumentError(
        absl::StrCat("a safetensors header of ", header_size, " bytes is too long"));
  }
  writer.position_ = sizeof(header_size) + header_size;
  for (SafetensorsEntry& entry : writer.entries_) {
    entry.begin += writer.position_;
    entry.end += writer.position_;
  }
  writer.end_ = writer.position_ + offset;
  std::string length(sizeof(header_size), '\0');
  std::memcpy(length.data(), &header_size, sizeof(header_size));
  LORICA_RETURN_IF_ERROR(sink.Append(length + header));
  return writer;
}

absl::Status SafetensorsWriter::Append(absl::Span<const uint8_t> bytes) {
  LORICA_CHECK(bytes.size() <= end_ - position_, "[safetensors] ", bytes.size(),
               " bytes appended where ", end_ - position_, " are left");
  position_ += bytes.size();
  return sink_->Append(bytes);
}

absl::Status SafetensorsWriter::Finish() {
  LORICA_CHECK(position_ == end_, "[safetensors] ", end_ - position_,
               " announced bytes weren't written");
  return absl::OkStatus();
}

absl::Status WriteSafetensors(FileSystem& files, const std::string& path,
                              absl::Span<const SafetensorsTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<const SafetensorsTensor*> order;
  for (const SafetensorsTensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return TraitsOf(a->type).block_bytes > TraitsOf(b->type).block_bytes;
  });
  std::vector<SafetensorsSpec> specs;
  for (const SafetensorsTensor* tensor : order) {
    LORICA_ASSIGN_OR_RETURN(const uint64_t size, StoredBytes(tensor->type, tensor->shape));
    LORICA_CHECK(size == tensor->bytes.size(), "[safetensors] tensor ", tensor->name, " of shape ",
                 ShapeText(tensor->shape), " has ", tensor->bytes.size(), " bytes instead of ",
                 size);
    specs.push_back({tensor->name, tensor->type, tensor->shape});
  }
  LORICA_ASSIGN_OR_RETURN(FileCommit commit, FileCommit::Begin(files, path));
  LORICA_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::Begin(commit.file(), std::move(specs), metadata));
  for (const SafetensorsTensor* tensor : order) {
    LORICA_RETURN_IF_ERROR(writer.Append(tensor->bytes));
  }
  LORICA_RETURN_IF_ERROR(writer.Finish());
  return commit.Commit();
}

}  // namespace lorica
