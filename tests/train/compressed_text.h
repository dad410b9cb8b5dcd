// Texts as gzip, zstd and xz streams.
#ifndef LORICA_TESTS_TRAIN_COMPRESSED_TEXT_H_
#define LORICA_TESTS_TRAIN_COMPRESSED_TEXT_H_

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <string>

namespace lorica {

inline std::string Gzip(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(size)) std::abort();
  out.resize(size);
  return out;
}

inline std::string Xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  if (lzma_easy_buffer_encode(
          6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()), text.size(),
          reinterpret_cast<uint8_t*>(out.data()), &size, out.size()) != LZMA_OK) {
    std::abort();
  }
  out.resize(size);
  return out;
}

}  // namespace lorica

#endif  // LORICA_TESTS_TRAIN_COMPRESSED_TEXT_H_
