#include "lorica/io/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/crc32c.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr char kShardName[] = "shard-00000-of-00001.safetensors";
constexpr size_t kLongestManifest = size_t{64} << 20;

// Keeps size and checksum of what passes through.
class ChecksummedFile final : public WritableFile {
 public:
  explicit ChecksummedFile(WritableFile& file) : file_(file) {}

  using WritableFile::Append;
  absl::Status Append(absl::Span<const uint8_t> bytes) override {
    crc_ = ExtendCrc32c(crc_, bytes);
    size_ += bytes.size();
    return file_.Append(bytes);
  }
  absl::Status Sync() override { return file_.Sync(); }
  absl::Status Close() override { return file_.Close(); }

  uint32_t crc() const { return crc_; }
  uint64_t size() const { return size_; }

 private:
  WritableFile& file_;
  uint32_t crc_ = 0;
  uint64_t size_ = 0;
};

// Writes the one shard and lists it, and its tensors, in the manifest.
absl::Status WriteShard(FileSystem& files, DirectoryCommit& commit,
                        const std::vector<CheckpointTensor>& tensors, Manifest* manifest) {
  // Widest elements first, so that each tensor is aligned for its type.
  std::vector<const CheckpointTensor*> order;
  for (const CheckpointTensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return TraitsOf(a->type).block_bytes > TraitsOf(b->type).block_bytes;
  });
  std::vector<SafetensorsSpec> specs;
  for (const CheckpointTensor* tensor : order) {
    LORICA_ASSIGN_OR_RETURN(const uint64_t size, StoredBytes(tensor->type, tensor->shape));
    LORICA_CHECK(size == tensor->bytes.size(), "[checkpoint] tensor ", tensor->name, " of shape ",
                 ShapeText(tensor->shape), " has ", tensor->bytes.size(), " bytes instead of ",
                 size);
    specs.push_back({ChunkName(tensor->name, 0), tensor->type, tensor->shape});
  }
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, commit.Create(kShardName));
  ChecksummedFile sink(*file);
  LORICA_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::Begin(sink, std::move(specs), {{"format", "lorica"}}));
  for (size_t i = 0; i < order.size(); ++i) {
    const CheckpointTensor& tensor = *order[i];
    const SafetensorsEntry& entry = writer.entries()[i];
    manifest->tensors.push_back({.name = tensor.name,
                                 .type = tensor.type,
                                 .shape = tensor.shape,
                                 .role = tensor.role,
                                 .axes = tensor.axes,
                                 .chunks = {{.file = kShardName,
                                             .offset = std::vector<int64_t>(tensor.shape.size(), 0),
                                             .shape = tensor.shape,
                                             .begin = entry.begin,
                                             .end = entry.end,
                                             .crc32c = Crc32c(tensor.bytes)}}});
    LORICA_RETURN_IF_ERROR(writer.Append(tensor.bytes));
  }
  LORICA_RETURN_IF_ERROR(writer.Finish());
  LORICA_RETURN_IF_ERROR(sink.Close());
  manifest->files.push_back({.name = kShardName, .size = sink.size(), .crc32c = sink.crc()});
  const std::string path = JoinPath(commit.temporary_path(), kShardName);
  LORICA_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
  if (info.size != sink.size()) {
    return absl::DataLossError(
        absl::StrCat(path, ": expected ", sink.size(), " bytes after writing, found ", info.size));
  }
  return absl::OkStatus();
}

// Copies the part of the box at `source_offset` of shape `source_shape` that lies in the box at
// `offset` of shape `shape`, dimension by dimension; both dense, elements of `width` bytes.
// Positions are in elements.
struct BoxCopy {
  absl::Span<const int64_t> source_offset;
  absl::Span<const int64_t> source_shape;
  const uint8_t* source;
  absl::Span<const int64_t> offset;
  absl::Span<const int64_t> shape;
  uint8_t* out;
  size_t width;

  void Run(size_t dimension = 0, int64_t source_at = 0, int64_t out_at = 0) const {
    if (dimension == shape.size()) {
      std::memcpy(out + static_cast<size_t>(out_at) * width,
                  source + static_cast<size_t>(source_at) * width, width);
      return;
    }
    const int64_t begin = std::max(source_offset[dimension], offset[dimension]);
    const int64_t end = std::min(source_offset[dimension] + source_shape[dimension],
                                 offset[dimension] + shape[dimension]);
    if (begin >= end) return;
    const int64_t source_row =
        source_at * source_shape[dimension] + begin - source_offset[dimension];
    const int64_t out_row = out_at * shape[dimension] + begin - offset[dimension];
    if (dimension + 1 == shape.size()) {
      std::memcpy(out + static_cast<size_t>(out_row) * width,
                  source + static_cast<size_t>(source_row) * width,
                  static_cast<size_t>(end - begin) * width);
      return;
    }
    for (int64_t i = 0; i < end - begin; ++i) Run(dimension + 1, source_row + i, out_row + i);
  }
};

}  // namespace

std::string CheckpointName(int64_t step) { return absl::StrFormat("step-%08d", step); }

absl::StatusOr<std::string> WriteCheckpoint(FileSystem& files, const std::string& folder,
                                            const CheckpointContents& contents) {
  LORICA_CHECK(contents.step >= 0, "[checkpoint] step ", contents.step, " is negative");
  LORICA_RETURN_IF_ERROR(MakeDirectories(files, folder));
  const std::string name = CheckpointName(contents.step);
  const std::string path = JoinPath(folder, name);
  LORICA_ASSIGN_OR_RETURN(DirectoryCommit commit, DirectoryCommit::Begin(files, path));
  Manifest manifest;
  manifest.step = contents.step;
  manifest.run_id = contents.run_id;
  manifest.nonce = commit.nonce();
  manifest.layout = contents.layout;
  manifest.base_fingerprint = contents.base_fingerprint;
  manifest.scalars = contents.scalars;
  LORICA_RETURN_IF_ERROR(WriteShard(files, commit, contents.tensors, &manifest));
  LORICA_ASSIGN_OR_RETURN(const std::string text, FormatManifest(manifest));
  LORICA_RETURN_IF_ERROR(commit.WriteFile(kManifestName, text));
  LORICA_RETURN_IF_ERROR(commit.Commit());
  LORICA_RETURN_IF_ERROR(WriteFileAtomically(files, JoinPath(folder, "LATEST"), name + "\n"));
  return path;
}

absl::Status CheckpointReader::Bad(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", message));
}

absl::StatusOr<CheckpointReader> CheckpointReader::Open(const std::string& path,
                                                        FileSystem& files) {
  CheckpointReader reader;
  reader.path_ = path;
  const std::string manifest_path = JoinPath(path, kManifestName);
  LORICA_ASSIGN_OR_RETURN(const std::string text, files.Read(manifest_path, kLongestManifest));
  LORICA_ASSIGN_OR_RETURN(reader.manifest_, ParseManifest(text, manifest_path));
  for (size_t i = 0; i < reader.manifest_.tensors.size(); ++i) {
    reader.index_.emplace(reader.manifest_.tensors[i].name, i);
  }
  LORICA_RETURN_IF_ERROR(reader.CheckFolder(files));
  LORICA_RETURN_IF_ERROR(reader.CheckShards());
  return reader;
}

absl::Status CheckpointReader::CheckFolder(FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(path_));
  for (const std::string& name : names) {
    const bool listed = name == kManifestName ||
                        std::any_of(manifest_.files.begin(), manifest_.files.end(),
                                    [&](const ManifestFile& file) { return file.name == name; });
    if (!listed) return Bad(absl::StrCat("file ", Quoted(name), " isn't listed in the manifest"));
  }
  for (const ManifestFile& file : manifest_.files) {
    const std::string path = JoinPath(path_, file.name);
    LORICA_ASSIGN_OR_RETURN(MappedFile mapped, files.Map(path));
    auto mapping = std::make_shared<const MappedFile>(std::move(mapped));
    if (mapping->bytes().size() != file.size) {
      return absl::DataLossError(
          absl::StrCat(path, ": expected ", file.size, " bytes, found ", mapping->bytes().size()));
    }
    LORICA_ASSIGN_OR_RETURN(SafetensorsFile shard, SafetensorsFile::Parse(mapping->bytes(), path));
    shards_.emplace(file.name, std::move(shard));
    mappings_.emplace(file.name, std::move(mapping));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::CheckShards() const {
  size_t chunks = 0;
  for (const ManifestTensor& tensor : manifest_.tensors) {
    chunks += tensor.chunks.size();
    for (size_t i = 0; i < tensor.chunks.size(); ++i) {
      const ManifestChunk& chunk = tensor.chunks[i];
      const std::string name = ChunkName(tensor.name, i);
      const SafetensorsEntry* entry = shards_.at(chunk.file).Find(name);
      if (entry == nullptr || entry->type != tensor.type || entry->shape != chunk.shape ||
          entry->begin != chunk.begin || entry->end != chunk.end) {
        return Bad(
            absl::StrCat("the manifest and ", chunk.file, " differ on tensor ", Quoted(name)));
      }
    }
  }
  size_t entries = 0;
  for (const auto& [name, shard] : shards_) entries += shard.entries().size();
  if (entries != chunks) {
    return Bad(absl::StrCat("the manifest lists ", chunks, " chunks, the files hold ", entries));
  }
  return absl::OkStatus();
}

const ManifestTensor* CheckpointReader::Find(absl::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &manifest_.tensors[found->second];
}

absl::Status CheckpointReader::ExpectTensors(absl::Span<const std::string> names) const {
  std::vector<std::string> wanted(names.begin(), names.end());
  std::sort(wanted.begin(), wanted.end());
  for (const std::string& name : wanted) {
    if (Find(name) == nullptr) {
      return absl::NotFoundError(
          absl::StrCat(path_, ": expected a tensor ", Quoted(name), ", found none"));
    }
  }
  for (const auto& [name, at] : index_) {
    if (!std::binary_search(wanted.begin(), wanted.end(), name)) {
      return Bad(absl::StrCat("tensor ", Quoted(name), " isn't expected"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const uint8_t>> CheckpointReader::ChunkBytes(const ManifestTensor& tensor,
                                                                       size_t index) const {
  const ManifestChunk& chunk = tensor.chunks[index];
  const absl::Span<const uint8_t> bytes =
      mappings_.at(chunk.file)->bytes().subspan(chunk.begin, chunk.end - chunk.begin);
  const uint32_t crc = Crc32c(bytes);
  if (crc != chunk.crc32c) {
    return absl::DataLossError(absl::StrCat(
        JoinPath(path_, chunk.file), ": tensor ", Quoted(tensor.name), " at bytes ", chunk.begin,
        " to ", chunk.end, ": expected crc32c ", absl::Hex(chunk.crc32c, absl::kZeroPad8),
        ", found ", absl::Hex(crc, absl::kZeroPad8)));
  }
  return bytes;
}

absl::Status CheckpointReader::Load(absl::string_view name, StoredType type,
                                    absl::Span<const int64_t> shape,
                                    absl::Span<uint8_t> out) const {
  const ManifestTensor* tensor = Find(name);
  if (tensor != nullptr && (tensor->type != type || absl::MakeConstSpan(tensor->shape) != shape)) {
    return Bad(absl::StrCat("tensor ", Quoted(name), ": expected ", Name(type), " ",
                            ShapeText(shape), ", found ", Name(tensor->type), " ",
                            ShapeText(tensor->shape)));
  }
  return LoadBox(name, std::vector<int64_t>(shape.size(), 0), shape, out);
}

absl::Status CheckpointReader::LoadBox(absl::string_view name, absl::Span<const int64_t> offset,
                                       absl::Span<const int64_t> shape,
                                       absl::Span<uint8_t> out) const {
  const ManifestTensor* tensor = Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path_, ": expected a tensor ", Quoted(name), ", found none"));
  }
  const size_t rank = tensor->shape.size();
  bool inside = offset.size() == rank && shape.size() == rank;
  for (size_t i = 0; inside && i < rank; ++i) {
    inside = offset[i] >= 0 && shape[i] >= 0 && offset[i] <= tensor->shape[i] &&
             shape[i] <= tensor->shape[i] - offset[i];
  }
  LORICA_CHECK(inside, "[checkpoint] box at ", ShapeText(offset), " of shape ", ShapeText(shape),
               " in tensor ", tensor->name, " of shape ", ShapeText(tensor->shape));
  LORICA_ASSIGN_OR_RETURN(const uint64_t size, StoredBytes(tensor->type, shape));
  LORICA_CHECK(out.size() == size, "[checkpoint] ", out.size(), " bytes for ", size, " of tensor ",
               tensor->name);
  if (size == 0) return absl::OkStatus();
  for (size_t i = 0; i < tensor->chunks.size(); ++i) {
    const ManifestChunk& chunk = tensor->chunks[i];
    bool meets = chunk.begin != chunk.end;
    for (size_t d = 0; d < rank; ++d) {
      meets = meets && chunk.offset[d] < offset[d] + shape[d] &&
              offset[d] < chunk.offset[d] + chunk.shape[d];
    }
    if (!meets) continue;
    LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, ChunkBytes(*tensor, i));
    BoxCopy{chunk.offset,
            chunk.shape,
            bytes.data(),
            offset,
            shape,
            out.data(),
            TraitsOf(tensor->type).block_bytes}
        .Run();
  }
  return absl::OkStatus();
}

namespace {

template <typename T>
absl::StatusOr<T> GetScalar(const CheckpointReader& reader, const std::string& key,
                            absl::string_view expected) {
  const auto& scalars = reader.manifest().scalars;
  const auto found = scalars.find(key);
  if (found == scalars.end()) {
    return absl::NotFoundError(absl::StrCat(reader.path(), ": expected ", expected, " as scalar ",
                                            Quoted(key), ", found nothing"));
  }
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  constexpr absl::string_view kKinds[] = {"an integer", "a float", "a string"};
  return absl::InvalidArgumentError(absl::StrCat(reader.path(), ": expected ", expected,
                                                 " as scalar ", Quoted(key), ", found ",
                                                 kKinds[found->second.index()]));
}

}  // namespace

absl::StatusOr<int64_t> CheckpointReader::GetInt(const std::string& key) const {
  return GetScalar<int64_t>(*this, key, "an integer");
}

absl::StatusOr<double> CheckpointReader::GetDouble(const std::string& key) const {
  return GetScalar<double>(*this, key, "a float");
}

absl::StatusOr<std::string> CheckpointReader::GetString(const std::string& key) const {
  return GetScalar<std::string>(*this, key, "a string");
}

absl::Status CheckpointReader::VerifyAll() const {
  for (const ManifestFile& file : manifest_.files) {
    const uint32_t crc = Crc32c(mappings_.at(file.name)->bytes());
    if (crc != file.crc32c) {
      return absl::DataLossError(absl::StrCat(JoinPath(path_, file.name), ": expected crc32c ",
                                              absl::Hex(file.crc32c, absl::kZeroPad8), ", found ",
                                              absl::Hex(crc, absl::kZeroPad8)));
    }
  }
  for (const ManifestTensor& tensor : manifest_.tensors) {
    for (size_t i = 0; i < tensor.chunks.size(); ++i) {
      LORICA_RETURN_IF_ERROR(ChunkBytes(tensor, i).status());
    }
  }
  return absl::OkStatus();
}

}  // namespace lorica
