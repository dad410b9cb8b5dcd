#include "lorica/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lorica {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() { close(fd); }
};

absl::Status ErrnoError(int error, absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", what));
}

// Reads `size` bytes; a file that shrinks meanwhile is an error.
absl::Status ReadAll(int fd, const std::string& path, uint8_t* out, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = read(fd, out + done, std::min<size_t>(size - done, 1 << 30));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, "can't read", path);
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(path, ": expected ", size, " bytes, the file ended after ", done));
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  int fd;
  // O_NONBLOCK: opening a pipe without a writer must not wait; it has no effect on regular files.
  do {
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return ErrnoError(errno, "can't open", path);
  const Descriptor descriptor{fd};
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoError(errno, "can't stat", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": expected a regular file, found ",
                     S_ISDIR(info.st_mode) ? "a folder" : "a special file"));
  }
  MappedFile file;
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ == 0) return file;
  void* mapping = mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapping != MAP_FAILED) {
    file.data_ = static_cast<const uint8_t*>(mapping);
    return file;
  }
  file.copy_.reset(new (std::nothrow) uint8_t[file.size_]);
  if (file.copy_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": can't map or read ", file.size_, " bytes into memory"));
  }
  if (absl::Status read = ReadAll(fd, path, file.copy_.get(), file.size_); !read.ok()) return read;
  file.data_ = file.copy_.get();
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      copy_(std::move(other.copy_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(copy_, other.copy_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr && copy_ == nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace lorica
