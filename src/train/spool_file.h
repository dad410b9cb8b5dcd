// A file without a name: what is too large for memory and of no use to anybody else.
#ifndef LORICA_TRAIN_SPOOL_FILE_H_
#define LORICA_TRAIN_SPOOL_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace lorica {

// Written in order, read anywhere. It has no name from the beginning, so it is gone with the
// process however that ends; that is also why it doesn't go through FileSystem, which guards what
// lasts. Append: one thread at a time; Read: any thread.
class SpoolFile {
 public:
  // In `folder`; empty: the system's folder for temporary files. Internal where that fails.
  static absl::StatusOr<SpoolFile> Create(const std::string& folder);
  SpoolFile(SpoolFile&& other) noexcept;
  SpoolFile& operator=(SpoolFile&& other) noexcept;
  ~SpoolFile();

  // Internal where the disk is full.
  absl::Status Append(absl::Span<const char> bytes);
  // Fills `bytes` from `offset`.
  absl::Status Read(int64_t offset, absl::Span<char> bytes) const;
  int64_t size() const { return size_; }

 private:
  SpoolFile(int file, std::string folder) : file_(file), folder_(std::move(folder)) {}

  int file_ = -1;
  std::string folder_;
  int64_t size_ = 0;
};

// Fills `bytes` from `offset` of an open file; false where it ends before, or can't be read
// (errno).
bool ReadAt(int file, int64_t offset, absl::Span<char> bytes);

}  // namespace lorica

#endif  // LORICA_TRAIN_SPOOL_FILE_H_
