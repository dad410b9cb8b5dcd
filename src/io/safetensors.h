// The safetensors format: 8 bytes little-endian length n, n bytes of JSON {name: {dtype, shape,
// data_offsets}}, tensor bytes.
//
// The reader takes nothing on trust: length, nesting, duplicate names, sizes against shapes, ranges
// inside the file, no overlap and no gap. The writer streams.
#ifndef LORICA_IO_SAFETENSORS_H_
#define LORICA_IO_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/file_system.h"
#include "lorica/io/mapped_file.h"
#include "lorica/io/stored_type.h"

namespace lorica {

struct SafetensorsEntry {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
  uint64_t begin;  // byte range in the file
  uint64_t end;
};

// A parsed file. Copies share the mapping. Thread-safe once built.
class SafetensorsFile {
 public:
  // Maps the file.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path,
                                              FileSystem& files = PosixFiles());
  // Borrows `bytes`, which must outlive the result; `where` starts error texts.
  static absl::StatusOr<SafetensorsFile> Parse(absl::Span<const uint8_t> bytes,
                                               absl::string_view where);

  // In the order of their bytes.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // Null where there is no such tensor.
  const SafetensorsEntry* Find(absl::string_view name) const;
  // The stored bytes; may be unaligned for the type.
  absl::Span<const uint8_t> Bytes(const SafetensorsEntry& entry) const;
  // The strings under `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& where() const { return where_; }

 private:
  SafetensorsFile() = default;

  std::shared_ptr<const MappedFile> mapping_;  // null after Parse
  absl::Span<const uint8_t> bytes_;
  std::string where_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

struct SafetensorsSpec {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
};

// Writes one file into `sink`: the header at once, then the tensors' bytes in the order of `specs`,
// in pieces of any size. Tensor bytes start at a multiple of 64. Put wide types first, so that
// every tensor stays aligned for its type: the format has no padding between tensors.
class SafetensorsWriter {
 public:
  // Borrows `sink`. Errors: a duplicate or invalid name, a shape that doesn't fit, a failed write.
  static absl::StatusOr<SafetensorsWriter> Begin(
      WritableFile& sink, std::vector<SafetensorsSpec> specs,
      const std::map<std::string, std::string>& metadata);

  // The byte ranges that the tensors have in the file, in the order of the specs.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  // The next bytes. More than was announced throws Error.
  absl::Status Append(absl::Span<const uint8_t> bytes);
  // Checks that every announced byte came (else throws Error). Doesn't sync or close the sink.
  absl::Status Finish();

 private:
  explicit SafetensorsWriter(WritableFile& sink) : sink_(&sink) {}

  WritableFile* sink_;
  std::vector<SafetensorsEntry> entries_;
  uint64_t position_ = 0;
  uint64_t end_ = 0;
};

struct SafetensorsTensor {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> bytes;  // exactly the stored bytes
};

// Writes a whole file atomically (temporary name, fsync, rename, fsync of the folder), widest types
// first and otherwise in the given order. An existing file is replaced.
absl::Status WriteSafetensors(FileSystem& files, const std::string& path,
                              absl::Span<const SafetensorsTensor> tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace lorica

#endif  // LORICA_IO_SAFETENSORS_H_
