#include "lorica/io/tensor_source.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr absl::string_view kExtension = ".safetensors";

// Tensors of parsed files, which keep their mappings.
class ParsedSource final : public TensorSource {
 public:
  explicit ParsedSource(std::string where) : where_(std::move(where)) {}

  const std::vector<std::string>& names() const override { return names_; }

  const StoredTensorInfo* Find(absl::string_view name) const override {
    const auto found = tensors_.find(std::string(name));
    return found == tensors_.end() ? nullptr : &found->second.info;
  }

  absl::StatusOr<absl::Span<const uint8_t>> Bytes(absl::string_view name) const override {
    const auto found = tensors_.find(std::string(name));
    if (found != tensors_.end()) return found->second.bytes;
    const std::string near = NearestName(name, names_);
    return absl::NotFoundError(
        absl::StrCat(where_, ": expected a tensor ", Quoted(name), ", found none",
                     near.empty() ? "" : absl::StrCat("; the nearest name is ", Quoted(near))));
  }

  std::string Where(absl::string_view name) const override {
    const auto found = tensors_.find(std::string(name));
    const std::string& file = found == tensors_.end() ? where_ : files_[found->second.file];
    return absl::StrCat(file, ": tensor ", Quoted(name));
  }

  absl::Status Add(const SafetensorsFile& file) {
    files_.push_back(file.where());
    safetensors_.push_back(file);
    for (const SafetensorsEntry& entry : file.entries()) {
      const auto [at, added] = tensors_.emplace(
          entry.name, Tensor{{entry.type, entry.shape}, file.Bytes(entry), files_.size() - 1});
      if (!added) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(entry.name),
                                                       " occurs in both ", files_[at->second.file],
                                                       " and ", file.where()));
      }
      names_.push_back(entry.name);
    }
    return absl::OkStatus();
  }

  void Add(GgufFile file) {
    for (size_t part = 0; part < file.parts(); ++part) files_.push_back(file.where(part));
    for (const GgufTensor& tensor : file.tensors()) {
      tensors_.emplace(tensor.name,
                       Tensor{{tensor.type, tensor.shape}, file.Bytes(tensor), tensor.part});
      names_.push_back(tensor.name);
    }
    gguf_.emplace(std::move(file));
  }

 private:
  struct Tensor {
    StoredTensorInfo info;
    absl::Span<const uint8_t> bytes;
    size_t file;  // index into files_
  };

  std::string where_;
  std::vector<std::string> files_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Tensor> tensors_;
  std::vector<SafetensorsFile> safetensors_;
  std::optional<GgufFile> gguf_;
};

// The `weight_map` of an index: tensor name -> file name.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path,
                                                             FileSystem& files) {
  constexpr size_t kLongest = size_t{64} << 20;
  LORICA_ASSIGN_OR_RETURN(const std::string text, files.Read(path, kLongest));
  LORICA_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  LORICA_ASSIGN_OR_RETURN(const JsonObject root, JsonObject::Of(json, path));
  LORICA_ASSIGN_OR_RETURN(const JsonObject weight_map, root.Object("weight_map"));
  std::map<std::string, std::string> index;
  for (const std::string& name : weight_map.Keys()) {
    LORICA_ASSIGN_OR_RETURN(std::string file, weight_map.String(name));
    if (!IsPlainName(file)) {
      return weight_map.Wrong(name, absl::StrCat("expected a file name, found ", Quoted(file)));
    }
    index.emplace(name, std::move(file));
  }
  if (index.empty()) return root.Wrong("weight_map", "expected at least one tensor, found none");
  return index;
}

// Every tensor of the index lies in its shard, and the shards hold nothing else.
absl::Status CheckIndex(const std::string& path, const std::map<std::string, std::string>& index,
                        const std::map<std::string, SafetensorsFile>& shards) {
  for (const auto& [name, file] : index) {
    if (shards.at(file).Find(name) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", Quoted(name),
                                                     " should be in ", Quoted(file),
                                                     ", which doesn't hold it"));
    }
  }
  for (const auto& [file, shard] : shards) {
    for (const SafetensorsEntry& entry : shard.entries()) {
      const auto listed = index.find(entry.name);
      if (listed == index.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            shard.where(), ": tensor ", Quoted(entry.name), " isn't named in ", kIndexFile));
      }
      if (listed->second != file) {
        return absl::InvalidArgumentError(absl::StrCat(shard.where(), ": tensor ",
                                                       Quoted(entry.name), " belongs into ",
                                                       Quoted(listed->second), " by ", kIndexFile));
      }
    }
  }
  return absl::OkStatus();
}

// "model-00002-of-00003.safetensors" -> {2, 3}.
struct ShardNumber {
  int64_t index;
  int64_t count;
};
std::optional<ShardNumber> ParseShardName(absl::string_view name) {
  constexpr absl::string_view kPrefix = "model-";
  constexpr size_t kDigits = 5;
  if (name.size() != kPrefix.size() + kDigits + 4 + kDigits + kExtension.size() ||
      !absl::StartsWith(name, kPrefix) || !absl::EndsWith(name, kExtension) ||
      name.substr(kPrefix.size() + kDigits, 4) != "-of-") {
    return std::nullopt;
  }
  const auto number = [&](size_t at) {
    int64_t value = 0;
    for (char digit : name.substr(at, kDigits)) {
      if (digit < '0' || digit > '9') return int64_t{-1};
      value = value * 10 + (digit - '0');
    }
    return value;
  };
  const ShardNumber shard{number(kPrefix.size()), number(kPrefix.size() + kDigits + 4)};
  if (shard.index < 1 || shard.count < 1 || shard.index > shard.count) return std::nullopt;
  return shard;
}

// The weight files of a folder that has neither an index nor model.safetensors.
absl::StatusOr<std::vector<std::string>> FindShards(const std::string& folder, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  std::vector<std::string> numbered;
  std::vector<std::string> others;
  std::set<int64_t> counts;
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, kExtension) || absl::StartsWith(name, ".")) continue;
    if (const std::optional<ShardNumber> shard = ParseShardName(name)) {
      counts.insert(shard->count);
      numbered.push_back(name);
    } else if (name != "adapter_model.safetensors") {
      others.push_back(name);
    }
  }
  if (numbered.empty()) {
    if (others.empty()) {
      return absl::NotFoundError(absl::StrCat(folder, ": expected ", kSingleFile, ", ", kIndexFile,
                                              " or other *.safetensors files, found none"));
    }
    return others;
  }
  if (counts.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": expected the shards of one model, found some of ", *counts.begin(),
                     " and some of ", *counts.rbegin()));
  }
  const int64_t count = *counts.begin();
  for (int64_t i = 1; i <= count; ++i) {
    const size_t at = static_cast<size_t>(i - 1);
    if (at >= numbered.size() || ParseShardName(numbered[at])->index != i) {
      return absl::NotFoundError(
          absl::StrCat(folder, ": expected ", count, " shards, number ", i, " is missing"));
    }
  }
  return numbered;
}

absl::StatusOr<bool> IsFile(const std::string& path, FileSystem& files) {
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (absl::IsNotFound(info.status())) return false;
  LORICA_RETURN_IF_ERROR(info.status());
  return true;
}

}  // namespace

absl::Status TensorSource::Read(absl::string_view name, int64_t first_row, int64_t rows,
                                DType target, void* out) const {
  LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, Bytes(name));
  const StoredTensorInfo& info = *Find(name);
  const StoredTypeTraits& traits = TraitsOf(info.type);
  int64_t row_elements = 1;
  for (size_t i = 1; i < info.shape.size(); ++i) row_elements *= info.shape[i];
  const int64_t all_rows = info.shape.empty() ? 1 : info.shape[0];
  LORICA_CHECK(first_row >= 0 && rows >= 0 && first_row <= all_rows && rows <= all_rows - first_row,
               "[read] rows ", first_row, " to ", first_row + rows, " of ", Where(name),
               " of shape ", ShapeText(info.shape));
  const int64_t begin = first_row * row_elements;
  const int64_t count = rows * row_elements;
  LORICA_CHECK(begin % traits.block_elements == 0 && count % traits.block_elements == 0, "[read] ",
               Where(name), ": rows ", first_row, " to ", first_row + rows, " split blocks of ",
               traits.name);
  const absl::Span<const uint8_t> part =
      bytes.subspan(static_cast<size_t>(begin) / traits.block_elements * traits.block_bytes,
                    static_cast<size_t>(count) / traits.block_elements * traits.block_bytes);
  const absl::Status converted = ConvertElements(info.type, part, count, target, out);
  if (converted.ok()) return converted;
  return absl::Status(converted.code(), absl::StrCat(Where(name), ": ", converted.message()));
}

absl::Status TensorSource::ReadAll(absl::string_view name, DType target, void* out) const {
  const StoredTensorInfo* info = Find(name);
  if (info == nullptr) return Bytes(name).status();
  return Read(name, 0, info->shape.empty() ? 1 : info->shape[0], target, out);
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenSafetensorsSource(const std::string& path,
                                                                    FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path, files));
  auto source = std::make_unique<ParsedSource>(path);
  LORICA_RETURN_IF_ERROR(source->Add(file));
  return source;
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenFolderSource(const std::string& folder,
                                                               FileSystem& files) {
  const std::string index_path = JoinPath(folder, kIndexFile);
  LORICA_ASSIGN_OR_RETURN(const bool has_single, IsFile(JoinPath(folder, kSingleFile), files));
  LORICA_ASSIGN_OR_RETURN(const bool has_index, IsFile(index_path, files));
  std::map<std::string, std::string> index;
  std::vector<std::string> names;
  if (has_index) {
    LORICA_ASSIGN_OR_RETURN(index, ReadIndex(index_path, files));
    std::set<std::string> shards;
    for (const auto& [tensor, file] : index) shards.insert(file);
    if (has_single && shards.count(kSingleFile) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(folder, ": found both ", kSingleFile, " and ",
                                                     kIndexFile,
                                                     ", which names other files; remove one"));
    }
    names.assign(shards.begin(), shards.end());
  } else if (has_single) {
    names = {kSingleFile};
  } else {
    LORICA_ASSIGN_OR_RETURN(names, FindShards(folder, files));
  }

  auto source = std::make_unique<ParsedSource>(folder);
  std::map<std::string, SafetensorsFile> shards;
  for (const std::string& name : names) {
    absl::StatusOr<SafetensorsFile> shard = SafetensorsFile::Open(JoinPath(folder, name), files);
    if (has_index && absl::IsNotFound(shard.status())) {
      return absl::NotFoundError(
          absl::StrCat(index_path, ": shard ", Quoted(name), " is missing in ", folder));
    }
    LORICA_RETURN_IF_ERROR(shard.status());
    LORICA_RETURN_IF_ERROR(source->Add(*shard));
    if (has_index) shards.emplace(name, *std::move(shard));
  }
  if (has_index) LORICA_RETURN_IF_ERROR(CheckIndex(index_path, index, shards));
  return source;
}

std::unique_ptr<TensorSource> MakeGgufSource(GgufFile file) {
  auto source = std::make_unique<ParsedSource>(file.where());
  source->Add(std::move(file));
  return source;
}

}  // namespace lorica
