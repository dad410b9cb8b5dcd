#include "lorica/train/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/crc32c.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// The longest magic number (six bytes, of xz) and a little more.
constexpr size_t kBeginning = 16;

bool StartsWith(absl::Span<const char> bytes, absl::Span<const unsigned char> magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// The name of a container that people have data in and this doesn't read; null for anything else.
const char* Foreign(absl::Span<const char> beginning) {
  constexpr unsigned char kParquet[] = {'P', 'A', 'R', '1'};
  constexpr unsigned char kZip[] = {'P', 'K', 3, 4};
  constexpr unsigned char kBzip2[] = {'B', 'Z', 'h'};
  if (StartsWith(beginning, kParquet)) return "a Parquet file";
  if (StartsWith(beginning, kZip)) return "a zip archive";
  if (StartsWith(beginning, kBzip2)) return "a bzip2 file";
  return nullptr;
}

}  // namespace

Compression CompressionOf(absl::Span<const char> beginning) {
  constexpr unsigned char kGzipMagic[] = {0x1F, 0x8B};
  constexpr unsigned char kZstdMagic[] = {0x28, 0xB5, 0x2F, 0xFD};
  constexpr unsigned char kXzMagic[] = {0xFD, '7', 'z', 'X', 'Z', 0};
  if (StartsWith(beginning, kGzipMagic)) return Compression::kGzip;
  if (StartsWith(beginning, kZstdMagic)) return Compression::kZstd;
  if (StartsWith(beginning, kXzMagic)) return Compression::kXz;
  return Compression::kNone;
}

// The bytes as they lie there, counted and summed while they pass.
class DataInput::Raw final : public ByteSource {
 public:
  Raw(std::string name, int file, bool regular, int64_t size)
      : name_(std::move(name)), file_(file), regular_(regular), size_(size) {}
  explicit Raw(const std::string& text)
      : text_(text), regular_(true), size_(static_cast<int64_t>(text.size())) {}
  ~Raw() override {
    if (file_ >= 0) close(file_);
  }

  // The first bytes, which stay to be read.
  absl::StatusOr<absl::Span<const char>> Beginning() {
    char bytes[kBeginning];
    while (ahead_.size() < kBeginning) {
      LORICA_ASSIGN_OR_RETURN(const size_t count, Take({bytes, kBeginning - ahead_.size()}));
      if (count == 0) break;
      ahead_.append(bytes, count);
    }
    return absl::Span<const char>(ahead_);
  }

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    size_t count = std::min(buffer.size(), ahead_.size() - ahead_taken_);
    if (count > 0) {
      std::memcpy(buffer.data(), ahead_.data() + ahead_taken_, count);
      ahead_taken_ += count;
    } else {
      LORICA_ASSIGN_OR_RETURN(count, Take(buffer));
    }
    crc_ = ExtendCrc32c(crc_, {reinterpret_cast<const uint8_t*>(buffer.data()), count});
    bytes_ += static_cast<int64_t>(count);
    return count;
  }

  bool regular() const { return regular_; }
  int64_t size() const { return size_; }
  int64_t bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc_; }

 private:
  absl::StatusOr<size_t> Take(absl::Span<char> buffer) {
    if (file_ < 0) {
      const size_t count = std::min(buffer.size(), text_.size() - text_taken_);
      std::memcpy(buffer.data(), text_.data() + text_taken_, count);
      text_taken_ += count;
      return count;
    }
    while (true) {
      const ssize_t count = read(file_, buffer.data(), buffer.size());
      if (count >= 0) return static_cast<size_t>(count);
      if (errno == EINTR) continue;
      return absl::DataLossError(absl::StrCat(name_, ": reading failed: ", std::strerror(errno)));
    }
  }

  std::string name_;
  int file_ = -1;
  std::string text_;
  size_t text_taken_ = 0;
  std::string ahead_;
  size_t ahead_taken_ = 0;
  bool regular_;
  int64_t size_;
  int64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

DataInput::DataInput(std::unique_ptr<Raw> raw, std::unique_ptr<ByteSource> text)
    : raw_(std::move(raw)), text_(std::move(text)) {}
DataInput::DataInput(DataInput&&) noexcept = default;
DataInput& DataInput::operator=(DataInput&& other) noexcept {
  // What decompresses goes before what it reads from.
  text_ = std::move(other.text_);
  raw_ = std::move(other.raw_);
  return *this;
}
DataInput::~DataInput() = default;

absl::StatusOr<DataInput> DataInput::Over(std::unique_ptr<Raw> raw, const std::string& name) {
  LORICA_ASSIGN_OR_RETURN(const absl::Span<const char> beginning, raw->Beginning());
  if (const char* foreign = Foreign(beginning); foreign != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": expected JSON text, plain or compressed with gzip, zstd or xz, found ", foreign));
  }
  const Compression compression = CompressionOf(beginning);
  std::unique_ptr<ByteSource> text;
  if (compression != Compression::kNone) text = Decompress(compression, *raw, name);
  return DataInput(std::move(raw), std::move(text));
}

absl::StatusOr<DataInput> DataInput::Open(const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(const FileInfo info, PosixFiles().Stat(path));
  if (info.is_directory) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file, found a folder"));
  }
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return absl::NotFoundError(absl::StrCat(path, ": can't be opened: ", std::strerror(errno)));
  }
  const int64_t size = info.is_regular ? static_cast<int64_t>(info.size) : 0;
  return Over(std::make_unique<Raw>(path, file, info.is_regular, size), path);
}

absl::StatusOr<DataInput> DataInput::OverText(const std::string& text, const std::string& name) {
  return Over(std::make_unique<Raw>(text), name);
}

absl::StatusOr<size_t> DataInput::Read(absl::Span<char> buffer) {
  return text_ != nullptr ? text_->Read(buffer) : raw_->Read(buffer);
}

bool DataInput::seekable() const { return text_ == nullptr && raw_->regular(); }
int64_t DataInput::file_bytes() const { return raw_->bytes(); }
uint32_t DataInput::file_crc32c() const { return raw_->crc32c(); }
int64_t DataInput::file_size() const { return raw_->size(); }

}  // namespace lorica
