#include "lorica/train/spool_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/file_system.h"

namespace lorica {
namespace {

std::string TemporaryFolder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

absl::Status Failed(const std::string& folder, const char* what) {
  return absl::InternalError(absl::StrCat(folder, ": a temporary file for the data can't be ", what,
                                          ": ", std::strerror(errno)));
}

}  // namespace

bool ReadAt(int file, int64_t offset, absl::Span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pread(file, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

absl::StatusOr<SpoolFile> SpoolFile::Create(const std::string& folder) {
  const std::string place = folder.empty() ? TemporaryFolder() : folder;
  int file = open(place.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    // A file system that knows no files without names: it has one for a moment, of the kind that
    // is cleared away in a run's folder.
    const std::string name = JoinPath(place, TemporaryName("metrics.jsonl", MakeNonce()));
    file = open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0) unlink(name.c_str());
  }
  if (file < 0) return Failed(place, "made");
  return SpoolFile(file, place);
}

SpoolFile::SpoolFile(SpoolFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      folder_(std::move(other.folder_)),
      size_(other.size_) {}

SpoolFile& SpoolFile::operator=(SpoolFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(folder_, other.folder_);
  std::swap(size_, other.size_);
  return *this;
}

SpoolFile::~SpoolFile() {
  if (file_ >= 0) close(file_);
}

absl::Status SpoolFile::Append(absl::Span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file_, bytes.data(), bytes.size(), size_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(folder_, "written");
    bytes.remove_prefix(static_cast<size_t>(count));
    size_ += count;
  }
  return absl::OkStatus();
}

absl::Status SpoolFile::Read(int64_t offset, absl::Span<char> bytes) const {
  return ReadAt(file_, offset, bytes) ? absl::OkStatus() : Failed(folder_, "read");
}

}  // namespace lorica
