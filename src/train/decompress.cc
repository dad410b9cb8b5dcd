// gzip (zlib), zstd and xz (liblzma) as streams: each turns a buffer of input at a time into
// whatever output is asked for.
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"
#include "lorica/train/byte_source.h"

namespace lorica {
namespace {

constexpr size_t kInputBytes = size_t{1} << 16;
// Windows of xz -9 (65 MB) and of zstd without --ultra --long=28 and more (128 MB) fit.
constexpr uint64_t kMostMemory = uint64_t{128} << 20;
constexpr int kZstdWindowLog = 27;

// What the three share: input in pieces, and the sentences about it.
class Decompressor : public ByteSource {
 protected:
  Decompressor(ByteSource& compressed, std::string name, const char* format)
      : compressed_(compressed), name_(std::move(name)), format_(format), input_(kInputBytes) {}

  // The next piece of input; empty at its end.
  absl::StatusOr<absl::Span<const char>> NextInput() {
    LORICA_ASSIGN_OR_RETURN(const size_t count, compressed_.Read(absl::MakeSpan(input_)));
    taken_ += count;
    at_end_ = count == 0;
    return absl::Span<const char>(input_.data(), count);
  }
  bool at_end() const { return at_end_; }

  absl::Status Truncated() const {
    return absl::DataLossError(absl::StrCat(name_, ": expected a complete ", format_,
                                            " stream, found its end missing behind byte ", taken_));
  }
  absl::Status Damaged(const char* reason) const {
    return absl::DataLossError(absl::StrCat(
        name_, ": the ", format_, " stream is damaged before byte ", taken_, ": ", reason));
  }

 private:
  ByteSource& compressed_;
  const std::string name_;
  const char* const format_;
  std::vector<char> input_;
  uint64_t taken_ = 0;
  bool at_end_ = false;
};

class GzipSource final : public Decompressor {
 public:
  GzipSource(ByteSource& compressed, std::string name)
      : Decompressor(compressed, std::move(name), "gzip") {
    // 16: a gzip header, not zlib's own; 15: the largest window there is.
    LORICA_CHECK(inflateInit2(&stream_, 16 + 15) == Z_OK, "[gzip] zlib can't start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = static_cast<uInt>(buffer.size());
    while (stream_.avail_out == buffer.size()) {
      if (stream_.avail_in == 0 && !at_end()) {
        LORICA_ASSIGN_OR_RETURN(const absl::Span<const char> input, NextInput());
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
        stream_.avail_in = static_cast<uInt>(input.size());
      }
      if (between_members_) {
        if (stream_.avail_in == 0) break;
        inflateReset(&stream_);
        between_members_ = false;
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        between_members_ = true;
      } else if (code == Z_BUF_ERROR) {
        if (at_end()) return Truncated();
      } else if (code != Z_OK) {
        return Damaged(stream_.msg != nullptr ? stream_.msg : "not gzip");
      }
    }
    return buffer.size() - stream_.avail_out;
  }

 private:
  z_stream stream_ = {};
  bool between_members_ = false;
};

class ZstdSource final : public Decompressor {
 public:
  ZstdSource(ByteSource& compressed, std::string name)
      : Decompressor(compressed, std::move(name), "zstd"), stream_(ZSTD_createDStream()) {
    LORICA_CHECK(stream_ != nullptr, "[zstd] no memory");
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kZstdWindowLog);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size && !at_end()) {
        LORICA_ASSIGN_OR_RETURN(const absl::Span<const char> input, NextInput());
        in_ = {input.data(), input.size(), 0};
      }
      const bool exhausted = in_.pos == in_.size;
      if (exhausted && wanted_ == 0) break;  // behind a whole frame
      wanted_ = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(wanted_)) return Damaged(ZSTD_getErrorName(wanted_));
      if (exhausted && out.pos == 0 && wanted_ != 0) return Truncated();
    }
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  size_t wanted_ = 0;  // 0: the frame is complete and given out
};

class XzSource final : public Decompressor {
 public:
  XzSource(ByteSource& compressed, std::string name)
      : Decompressor(compressed, std::move(name), "xz") {
    LORICA_CHECK(lzma_stream_decoder(&stream_, kMostMemory, LZMA_CONCATENATED) == LZMA_OK,
                 "[xz] liblzma can't start");
  }
  ~XzSource() override { lzma_end(&stream_); }

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(buffer.data());
    stream_.avail_out = buffer.size();
    while (!complete_ && stream_.avail_out == buffer.size()) {
      if (stream_.avail_in == 0 && !at_end()) {
        LORICA_ASSIGN_OR_RETURN(const absl::Span<const char> input, NextInput());
        stream_.next_in = reinterpret_cast<const uint8_t*>(input.data());
        stream_.avail_in = input.size();
      }
      switch (lzma_code(&stream_, at_end() ? LZMA_FINISH : LZMA_RUN)) {
        case LZMA_OK:
          break;
        case LZMA_STREAM_END:
          complete_ = true;
          break;
        case LZMA_BUF_ERROR:
          return Truncated();
        case LZMA_MEMLIMIT_ERROR:
          return Damaged("it needs more than 128 MB to be decompressed");
        case LZMA_MEM_ERROR:
          return absl::ResourceExhaustedError("out of memory");
        case LZMA_FORMAT_ERROR:
          return Damaged("not xz");
        case LZMA_OPTIONS_ERROR:
          return Damaged("its options aren't supported");
        default:
          return Damaged("its data is corrupt");
      }
    }
    return buffer.size() - stream_.avail_out;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool complete_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> Decompress(Compression compression, ByteSource& compressed,
                                       std::string name) {
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipSource>(compressed, std::move(name));
    case Compression::kZstd:
      return std::make_unique<ZstdSource>(compressed, std::move(name));
    case Compression::kXz:
      return std::make_unique<XzSource>(compressed, std::move(name));
    case Compression::kNone:
      break;
  }
  Fail("[decompress] nothing to decompress");
}

}  // namespace lorica
