#include "lorica/io/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

absl::Status ErrnoError(int error, absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", what));
}

// Calls `operation` until a signal doesn't interrupt it.
template <typename Operation>
auto Retry(Operation operation) {
  decltype(operation()) result;
  do {
    result = operation();
  } while (result < 0 && errno == EINTR);
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(int fd, std::string path) : descriptor_(fd), path_(std::move(path)) {}

  using WritableFile::Append;
  absl::Status Append(absl::Span<const uint8_t> bytes) override {
    while (!bytes.empty()) {
      // Linux writes at most 2 GiB - 4 KiB in one call.
      const size_t piece = std::min<size_t>(bytes.size(), size_t{1} << 30);
      const ssize_t written = Retry([&] { return write(descriptor_.get(), bytes.data(), piece); });
      if (written < 0) return ErrnoError(errno, "can't write", path_);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (Retry([&] { return fsync(descriptor_.get()); }) != 0) {
      return ErrnoError(errno, "can't sync", path_);
    }
    return absl::OkStatus();
  }

  absl::Status Close() override {
    // After EINTR Linux has closed the descriptor: a retry could close somebody else's.
    if (close(descriptor_.Release()) != 0 && errno != EINTR) {
      return ErrnoError(errno, "can't close", path_);
    }
    return absl::OkStatus();
  }

 private:
  Descriptor descriptor_;
  std::string path_;
};

class PosixFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path,
                                                     OpenMode mode) override {
    const int how = mode == OpenMode::kCreateNew ? O_EXCL
                    : mode == OpenMode::kReplace ? O_TRUNC
                                                 : O_APPEND;
    const int fd =
        Retry([&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666); });
    if (fd < 0) return ErrnoError(errno, "can't create", path);
    return std::make_unique<PosixWritableFile>(fd, path);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return ErrnoError(errno, absl::StrCat("can't rename to ", to), from);
    }
    return absl::OkStatus();
  }

  absl::Status RenameNew(const std::string& from, const std::string& to) override {
#ifdef RENAME_NOREPLACE
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
      return absl::OkStatus();
    }
    // Some network file systems don't know the flag.
    if (errno != EINVAL && errno != ENOSYS) {
      return ErrnoError(errno, absl::StrCat("can't rename to ", to), from);
    }
#endif
    struct stat info;
    if (lstat(to.c_str(), &info) == 0) {
      return ErrnoError(EEXIST, absl::StrCat("can't rename to ", to), from);
    }
    return Rename(from, to);
  }

  absl::Status SyncDirectory(const std::string& path) override {
    const Descriptor folder(
        Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (folder.get() < 0) return ErrnoError(errno, "can't open folder", path);
    // EINVAL: a file system without this operation, which then has nothing to sync.
    if (Retry([&] { return fsync(folder.get()); }) != 0 && errno != EINVAL) {
      return ErrnoError(errno, "can't sync folder", path);
    }
    return absl::OkStatus();
  }

  absl::Status MakeDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0777) != 0) return ErrnoError(errno, "can't make folder", path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    DIR* folder = opendir(path.c_str());
    if (folder == nullptr) return ErrnoError(errno, "can't open folder", path);
    std::vector<std::string> names;
    int error = 0;
    while (true) {
      errno = 0;
      const dirent* entry = readdir(folder);
      if (entry == nullptr) {
        error = errno;
        break;
      }
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    closedir(folder);
    if (error != 0) return ErrnoError(error, "can't list folder", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status RemoveFile(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return ErrnoError(errno, "can't remove", path);
    return absl::OkStatus();
  }

  absl::Status RemoveDirectory(const std::string& path) override {
    if (rmdir(path.c_str()) != 0) return ErrnoError(errno, "can't remove folder", path);
    return absl::OkStatus();
  }

  absl::Status Truncate(const std::string& path, uint64_t size) override {
    if (Retry([&] { return truncate(path.c_str(), static_cast<off_t>(size)); }) != 0) {
      return ErrnoError(errno, absl::StrCat("can't cut to ", size, " bytes"), path);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return ErrnoError(errno, "can't stat", path);
    struct stat itself;
    const bool is_link = lstat(path.c_str(), &itself) == 0 && S_ISLNK(itself.st_mode);
    return FileInfo{.is_directory = S_ISDIR(info.st_mode),
                    .is_regular = S_ISREG(info.st_mode),
                    .is_link = is_link,
                    .size = S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0};
  }

  absl::StatusOr<std::string> Read(const std::string& path, size_t max_bytes) override {
    const Descriptor file(Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
    if (file.get() < 0) return ErrnoError(errno, "can't open", path);
    struct stat info;
    if (fstat(file.get(), &info) != 0) return ErrnoError(errno, "can't stat", path);
    const auto too_long = [&] {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected at most ", max_bytes, " bytes, the file is longer"));
    };
    const uint64_t size = S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
    if (size > max_bytes) return too_long();
    std::string text;
    text.reserve(size);
    char buffer[1 << 16];
    while (true) {
      const ssize_t got = Retry([&] { return read(file.get(), buffer, sizeof(buffer)); });
      if (got < 0) return ErrnoError(errno, "can't read", path);
      if (got == 0) return text;
      if (static_cast<size_t>(got) > max_bytes - text.size()) return too_long();
      text.append(buffer, static_cast<size_t>(got));
    }
  }

  absl::StatusOr<MappedFile> Map(const std::string& path) override {
    return MappedFile::Open(path);
  }
};

}  // namespace

FileSystem& PosixFiles() {
  static PosixFileSystem files;
  return files;
}

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, folder.back() == '/' ? "" : "/", name);
}

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

std::string NameOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

bool IsPlainName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == absl::string_view::npos && name.find('\0') == absl::string_view::npos;
}

absl::Status MakeDirectories(FileSystem& files, const std::string& path) {
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (info.ok() && info->is_directory) return absl::OkStatus();
  if (info.ok()) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": expected a folder, found a file"));
  }
  if (!absl::IsNotFound(info.status())) return info.status();
  const std::string parent = FolderOf(path);
  if (parent != path && parent != ".") LORICA_RETURN_IF_ERROR(MakeDirectories(files, parent));
  const absl::Status made = files.MakeDirectory(path);
  // Somebody else may have made it meanwhile; "a/" names the folder that "a" was a moment ago.
  if (absl::IsAlreadyExists(made)) return absl::OkStatus();
  return made;
}

absl::Status RemoveTree(FileSystem& files, const std::string& path) {
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (!info.ok() || !info->is_directory || info->is_link) {
    // Also a link that leads nowhere, which Stat doesn't find.
    const absl::Status removed = files.RemoveFile(path);
    return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
  }
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(path));
  for (const std::string& name : names) {
    LORICA_RETURN_IF_ERROR(RemoveTree(files, JoinPath(path, name)));
  }
  return files.RemoveDirectory(path);
}

}  // namespace lorica
