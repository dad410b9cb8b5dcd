// The bytes of a data file from front to end, whatever it is compressed with.
#ifndef LORICA_TRAIN_BYTE_SOURCE_H_
#define LORICA_TRAIN_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace lorica {

// One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the front of `buffer` (not empty) with at least one byte; 0 at the end. Errors name the
  // file.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> buffer) = 0;
};

enum class Compression : uint8_t { kNone, kGzip, kZstd, kXz };

// What the first bytes of a file say; its name counts for nothing.
Compression CompressionOf(absl::Span<const char> beginning);

// Decompresses while it is read, so memory doesn't grow with the text, however far it expands; a
// stream that needs a window of more than 128 MB is refused. Streams one behind the other are one
// text. `compressed` must outlive the result, `name` starts messages. DataLoss for damage and for a
// stream that ends early.
std::unique_ptr<ByteSource> Decompress(Compression compression, ByteSource& compressed,
                                       std::string name);

// A file, or a text that stands for one, as it is read once from front to end.
class DataInput {
 public:
  // NotFound, or InvalidArgument for a folder and for a container that holds no text (Parquet, zip,
  // bzip2).
  static absl::StatusOr<DataInput> Open(const std::string& path);
  static absl::StatusOr<DataInput> OverText(const std::string& text, const std::string& name);
  DataInput(DataInput&&) noexcept;
  DataInput& operator=(DataInput&&) noexcept;
  ~DataInput();

  // The text: decompressed.
  absl::StatusOr<size_t> Read(absl::Span<char> buffer);

  // A place in the text is the same place in the file: it can be read again from there.
  bool seekable() const;
  // Of the file itself: bytes taken so far and their CRC-32C, and its size (0 where it is none that
  // has one, such as a pipe).
  int64_t file_bytes() const;
  uint32_t file_crc32c() const;
  int64_t file_size() const;

 private:
  class Raw;
  DataInput(std::unique_ptr<Raw> raw, std::unique_ptr<ByteSource> text);
  static absl::StatusOr<DataInput> Over(std::unique_ptr<Raw> raw, const std::string& name);

  std::unique_ptr<Raw> raw_;
  std::unique_ptr<ByteSource> text_;  // null: the raw bytes are the text
};

}  // namespace lorica

#endif  // LORICA_TRAIN_BYTE_SOURCE_H_
