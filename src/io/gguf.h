// GGUF version 2 and 3, little-endian: typed metadata and tensors, in one file or split over
// several. The reader checks every count, length and offset against the file; the writer streams.
#ifndef LORICA_IO_GGUF_H_
#define LORICA_IO_GGUF_H_

#include <cstdint>
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

// The numbers are the format's.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
// "u32", "string", ...
absl::string_view Name(GgufType type);
// Bytes of a number or boolean; 0 for strings and arrays.
uint32_t FixedWidth(GgufType type);

struct GgufTensor {
  std::string name;
  StoredType type;
  std::vector<int64_t>
      shape;       // row-major, so the reverse of the file's dimensions: a linear is [out, in]
  uint64_t begin;  // byte range in the file
  uint64_t end;
  size_t part = 0;  // which file of a split one
};

// A parsed file. Copies share the mapping. Thread-safe once built. Metadata stays in the file: a
// getter reads it there, and string arrays come out as views into it.
class GgufFile {
 public:
  // A file whose metadata says that it is the first of several (`split.count`) brings the others
  // along, which lie beside it under `<name>-0000i-of-0000n.gguf`. Errors: another part than the
  // first, a part that is missing or belongs elsewhere, another count of tensors than announced.
  static absl::StatusOr<GgufFile> Open(const std::string& path, FileSystem& files = PosixFiles());
  // One file, be it a part. Borrows `bytes`, which must outlive the result; `where` starts error
  // texts.
  static absl::StatusOr<GgufFile> Parse(absl::Span<const uint8_t> bytes, absl::string_view where);
  // The parts of a split file, in order, as one: metadata of the first, tensors of all.
  static absl::StatusOr<GgufFile> Join(std::vector<GgufFile> parts);

  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }
  const std::string& where() const { return where_; }
  // Files of a split one; 1 for any other.
  size_t parts() const { return 1 + later_parts_.size(); }
  const std::string& where(size_t part) const {
    return part == 0 ? where_ : later_parts_[part - 1].where;
  }

  // Keys in file order.
  const std::vector<std::string>& keys() const { return keys_; }
  bool Has(absl::string_view key) const;

  // Getters: NotFound where the key is absent, InvalidArgument for another type (both named).
  // Integers of every width and sign are taken where the value fits; GetF64 also takes integers.
  absl::StatusOr<std::string> GetString(absl::string_view key) const;
  absl::StatusOr<uint64_t> GetU64(absl::string_view key) const;
  absl::StatusOr<int64_t> GetI64(absl::string_view key) const;
  absl::StatusOr<double> GetF64(absl::string_view key) const;
  absl::StatusOr<bool> GetBool(absl::string_view key) const;
  // Arrays. The views live as long as the mapping.
  absl::StatusOr<std::vector<absl::string_view>> GetStrings(absl::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(absl::string_view key) const;
  absl::StatusOr<std::vector<double>> GetFloats(absl::string_view key) const;
  // Absent key: the fallback.
  absl::StatusOr<std::string> GetStringOr(absl::string_view key, absl::string_view fallback) const;
  absl::StatusOr<uint64_t> GetU64Or(absl::string_view key, uint64_t fallback) const;
  absl::StatusOr<double> GetF64Or(absl::string_view key, double fallback) const;
  absl::StatusOr<bool> GetBoolOr(absl::string_view key, bool fallback) const;

  // One line for people: `u32 2048`, `string "llama"`, `array of 49152 string`. An empty text where
  // the key is absent.
  std::string Describe(absl::string_view key) const;

  // In file order.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* Find(absl::string_view name) const;
  absl::Span<const uint8_t> Bytes(const GgufTensor& tensor) const;

 private:
  friend class GgufParser;
  friend class GgufMetadata;
  // Where a value lies in the file; `type` is the element type of an array.
  struct Value {
    GgufType type;
    bool is_array;
    uint64_t count;  // elements; 1 for a scalar
    uint64_t begin;  // of the first element
    uint64_t end;
  };

  // Tensors of a split file lie in all parts, metadata only in the first.
  struct LaterPart {
    std::shared_ptr<const MappedFile> mapping;  // null after Parse
    absl::Span<const uint8_t> bytes;
    std::string where;
  };

  GgufFile() = default;
  static absl::StatusOr<GgufFile> OpenOne(const std::string& path, FileSystem& files);
  absl::StatusOr<const Value*> Lookup(absl::string_view key, bool is_array,
                                      absl::string_view expected) const;
  absl::Status WrongType(absl::string_view key, const Value& value,
                         absl::string_view expected) const;

  std::shared_ptr<const MappedFile> mapping_;  // null after Parse
  absl::Span<const uint8_t> bytes_;
  std::string where_;
  uint32_t version_ = 0;
  uint32_t alignment_ = 32;
  std::vector<std::string> keys_;
  std::unordered_map<std::string, Value> values_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, size_t> tensor_index_;
  std::vector<LaterPart> later_parts_;
};

// Metadata to be written, in the order of the calls. A key set twice throws Error.
class GgufMetadata {
 public:
  void SetString(absl::string_view key, absl::string_view value);
  void SetU32(absl::string_view key, uint32_t value);
  void SetI32(absl::string_view key, int32_t value);
  void SetU64(absl::string_view key, uint64_t value);
  void SetF32(absl::string_view key, float value);
  void SetF64(absl::string_view key, double value);
  void SetBool(absl::string_view key, bool value);
  void SetStrings(absl::string_view key, absl::Span<const std::string> values);
  void SetI32s(absl::string_view key, absl::Span<const int32_t> values);
  void SetF32s(absl::string_view key, absl::Span<const float> values);
  // The value of `key` in `file`, whatever its type; throws Error where it is absent.
  void Copy(const GgufFile& file, absl::string_view key);
  bool Has(absl::string_view key) const;

 private:
  friend class GgufWriter;
  void Begin(absl::string_view key, GgufType type);
  void BeginArray(absl::string_view key, GgufType type, uint64_t count);

  std::string bytes_;
  std::vector<std::string> keys_;
};

struct GgufTensorSpec {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;  // row-major, at most 4 dimensions
};

// Writes a version 3 file into `sink`: header at once, then the tensors' bytes in the order of
// `specs`.
class GgufWriter {
 public:
  // Borrows `sink`.
  static absl::StatusOr<GgufWriter> Begin(WritableFile& sink, const GgufMetadata& metadata,
                                          absl::Span<const GgufTensorSpec> specs);
  // All stored bytes of the next tensor; another size throws Error.
  absl::Status AppendTensor(absl::Span<const uint8_t> bytes);
  // The next bytes of the next tensor, which isn't empty; more than are left of it throws Error.
  absl::Status AppendPart(absl::Span<const uint8_t> bytes);
  // Checks that every tensor came (else throws Error). Doesn't sync or close the sink.
  absl::Status Finish();

 private:
  explicit GgufWriter(WritableFile& sink) : sink_(&sink) {}
  absl::Status Pad(uint64_t bytes);

  WritableFile* sink_;
  std::vector<uint64_t> sizes_;
  size_t next_ = 0;
  uint64_t written_ = 0;  // of the tensor number next_
};

}  // namespace lorica

#endif  // LORICA_IO_GGUF_H_
