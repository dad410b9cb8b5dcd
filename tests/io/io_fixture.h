// What the tests of src/io share: a folder of their own, status checks, byte building.
#ifndef LORICA_TESTS_IO_IO_FIXTURE_H_
#define LORICA_TESTS_IO_IO_FIXTURE_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/file_system.h"

#define ASSERT_OK(expression)                           \
  do {                                                  \
    const auto& asserted = (expression);                \
    ASSERT_TRUE(asserted.ok()) << StatusText(asserted); \
  } while (false)
#define EXPECT_OK(expression)                                 \
  do {                                                        \
    const auto& expected_ok = (expression);                   \
    EXPECT_TRUE(expected_ok.ok()) << StatusText(expected_ok); \
  } while (false)

namespace lorica {

inline std::string StatusText(const absl::Status& status) { return status.ToString(); }
template <typename T>
std::string StatusText(const absl::StatusOr<T>& result) {
  return result.status().ToString();
}

// A new folder, removed with everything in it.
class TempFolder {
 public:
  explicit TempFolder(const std::string& inside = testing::TempDir())
      : path_(JoinPath(inside, "lorica_io_" + MakeNonce())) {
    if (!PosixFiles().MakeDirectory(path_).ok()) std::abort();
  }
  ~TempFolder() { RemoveTree(PosixFiles(), path_).IgnoreError(); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(absl::string_view name) const { return JoinPath(path_, name); }
  std::vector<std::string> List() const { return *PosixFiles().List(path_); }

 private:
  std::string path_;
};

inline absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

template <typename T>
absl::Span<const uint8_t> AsBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

// The bytes of `value` in memory.
template <typename T>
std::string Raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// A safetensors file with this header text.
inline std::string SafetensorsBytes(absl::string_view header, absl::string_view data) {
  return absl::StrCat(Raw<uint64_t>(header.size()), header, data);
}

inline void WriteOrDie(const std::string& path, absl::string_view bytes) {
  const absl::Status written = WriteFileAtomically(PosixFiles(), path, bytes);
  if (!written.ok()) std::abort();
}

inline std::string ReadOrDie(const std::string& path) {
  const auto text = PosixFiles().Read(path, size_t{1} << 30);
  if (!text.ok()) std::abort();
  return *text;
}

}  // namespace lorica

#endif  // LORICA_TESTS_IO_IO_FIXTURE_H_
