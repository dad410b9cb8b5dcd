// The seam between Lorica and the disk: everything that is written goes through a FileSystem, so
// tests can fail any operation. Errors name the operation, the path and the system's reason ("No
// space left on device").
#ifndef LORICA_IO_FILE_SYSTEM_H_
#define LORICA_IO_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/mapped_file.h"

namespace lorica {

// A file open for sequential writing. Destroying it closes it without a report; call Close for the
// last error. One thread at a time.
class WritableFile {
 public:
  virtual ~WritableFile() = default;

  // Writes all of `bytes`, or fails with an unknown part of them written.
  virtual absl::Status Append(absl::Span<const uint8_t> bytes) = 0;
  // The bytes so far are on the disk when this returns OK.
  virtual absl::Status Sync() = 0;
  // Once; no other call after it.
  virtual absl::Status Close() = 0;

  absl::Status Append(absl::string_view text) {
    return Append({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
};

struct FileInfo {
  bool is_directory = false;
  bool is_regular = false;
  bool is_link = false;  // the path itself is a symbolic link; the rest is about what it leads to
  uint64_t size = 0;     // of a regular file
};

enum class OpenMode {
  kCreateNew,  // an existing file is an error (AlreadyExists)
  kReplace,    // cut to nothing where it exists
  kAppend,     // created where absent
};

// Thread-safe. Paths are the system's byte strings.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path,
                                                             OpenMode mode) = 0;
  // Atomic; replaces an existing file.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Atomic; AlreadyExists where `to` exists, be it an empty folder.
  virtual absl::Status RenameNew(const std::string& from, const std::string& to) = 0;
  // Makes renames, new names and removals inside the folder durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // One level; AlreadyExists where the name is taken.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // Names without "." and "..", sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  virtual absl::Status RemoveFile(const std::string& path) = 0;
  // An empty folder.
  virtual absl::Status RemoveDirectory(const std::string& path) = 0;
  // Cuts a file to `size` bytes.
  virtual absl::Status Truncate(const std::string& path, uint64_t size) = 0;
  // NotFound where there is nothing; follows symbolic links.
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path) = 0;
  // The whole file, also of a pipe; more than `max_bytes` is an error.
  virtual absl::StatusOr<std::string> Read(const std::string& path, size_t max_bytes) = 0;
  virtual absl::StatusOr<MappedFile> Map(const std::string& path) = 0;
};

// The operating system's files. Stateless; one object for the whole process.
FileSystem& PosixFiles();

// "a/b": `folder` + '/' + `name`, without a doubled slash.
std::string JoinPath(absl::string_view folder, absl::string_view name);
// "a" of "a/b", "." of "b", "/" of "/b".
std::string FolderOf(absl::string_view path);
// "b" of "a/b".
std::string NameOf(absl::string_view path);
// A file name that stays inside its folder: not empty, no '/', no NUL, not "." or "..".
bool IsPlainName(absl::string_view name);

// Makes `path` and the folders above it where they are absent.
absl::Status MakeDirectories(FileSystem& files, const std::string& path);
// Removes a file, or a folder and all inside it. An absent path is fine. Doesn't follow symbolic
// links out of the tree.
absl::Status RemoveTree(FileSystem& files, const std::string& path);

}  // namespace lorica

#endif  // LORICA_IO_FILE_SYSTEM_H_
