// Files and folders that appear complete or not at all: written under a temporary name beside the
// final one, synced, renamed, and the folder above synced. A crash at any moment leaves the old
// state, or the new one, and perhaps a temporary entry `.<name>.<nonce>.tmp` that nobody reads.
#ifndef LORICA_IO_ATOMIC_COMMIT_H_
#define LORICA_IO_ATOMIC_COMMIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/file_system.h"

namespace lorica {

// 16 hexadecimal digits from the system's entropy: two processes that write to the same place don't
// meet.
std::string MakeNonce();
// ".<name>.<nonce>.tmp"
std::string TemporaryName(absl::string_view name, absl::string_view nonce);
// A name made by TemporaryName.
bool IsTemporaryName(absl::string_view name);

// One file. Write into file(), then Commit; an object that is destroyed without a successful Commit
// removes its temporary file.
class FileCommit {
 public:
  // Borrows `files`. The folder of `path` must exist.
  static absl::StatusOr<FileCommit> Begin(FileSystem& files, const std::string& path);

  FileCommit(FileCommit&&) = default;
  FileCommit& operator=(FileCommit&&) = delete;
  ~FileCommit();

  WritableFile& file() { return *file_; }
  // Where the bytes lie until Commit.
  const std::string& temporary_path() const { return temporary_; }
  // Sync, close, rename over an existing file, sync the folder. Once.
  absl::Status Commit();

 private:
  FileCommit(FileSystem& files, std::string path, std::string temporary)
      : files_(&files), path_(std::move(path)), temporary_(std::move(temporary)) {}

  FileSystem* files_;
  std::string path_;
  std::string temporary_;
  std::unique_ptr<WritableFile> file_;  // null when moved from or committed
  bool renamed_ = false;
};

// Writes `bytes` as the whole file.
absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::Span<const uint8_t> bytes);
absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::string_view text);

// A folder of files. An object that is destroyed without a successful Commit removes its temporary
// folder.
class DirectoryCommit {
 public:
  // Borrows `files`. AlreadyExists where `path` exists. The folder above `path` must exist.
  static absl::StatusOr<DirectoryCommit> Begin(FileSystem& files, const std::string& path);

  DirectoryCommit(DirectoryCommit&& other) noexcept;
  DirectoryCommit& operator=(DirectoryCommit&&) = delete;
  ~DirectoryCommit();

  // Where the files lie until Commit.
  const std::string& temporary_path() const { return temporary_; }
  const std::string& nonce() const { return nonce_; }
  // A new file in the folder; its Close syncs first. Close every file before Commit. `name` is a
  // plain file name (else throws Error).
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(absl::string_view name);
  absl::Status WriteFile(absl::string_view name, absl::Span<const uint8_t> bytes);
  absl::Status WriteFile(absl::string_view name, absl::string_view text);
  // Syncs the folder, renames it (AlreadyExists where somebody else made the final name meanwhile),
  // syncs the folder above. Throws Error where a file is still open. Once.
  absl::Status Commit();

 private:
  DirectoryCommit(FileSystem& files, std::string path, std::string nonce);

  FileSystem* files_;
  std::string path_;
  std::string nonce_;
  std::string temporary_;  // empty when moved from or committed
  std::shared_ptr<int> open_files_;
};

}  // namespace lorica

#endif  // LORICA_IO_ATOMIC_COMMIT_H_
