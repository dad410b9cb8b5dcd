#include "lorica/io/atomic_commit.h"

#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr size_t kNonceDigits = 16;

// A file of a folder that is being committed: synced when closed, counted while open.
class CountedFile final : public WritableFile {
 public:
  CountedFile(std::unique_ptr<WritableFile> file, std::shared_ptr<int> open_files)
      : file_(std::move(file)), open_files_(std::move(open_files)) {
    ++*open_files_;
  }

  using WritableFile::Append;
  absl::Status Append(absl::Span<const uint8_t> bytes) override { return file_->Append(bytes); }
  absl::Status Sync() override { return file_->Sync(); }
  absl::Status Close() override {
    LORICA_RETURN_IF_ERROR(file_->Sync());
    LORICA_RETURN_IF_ERROR(file_->Close());
    // Only a file that is safely on the disk stops counting: an ignored failure can't be committed.
    --*open_files_;
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<WritableFile> file_;
  std::shared_ptr<int> open_files_;
};

absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

std::string MakeNonce() {
  std::random_device entropy;
  const uint64_t value = (uint64_t{entropy()} << 32) | entropy();
  return absl::StrCat(absl::Hex(value, absl::kZeroPad16));
}

std::string TemporaryName(absl::string_view name, absl::string_view nonce) {
  return absl::StrCat(".", name, ".", nonce, ".tmp");
}

bool IsTemporaryName(absl::string_view name) {
  constexpr absl::string_view kSuffix = ".tmp";
  // ".", a name of at least one letter, ".", nonce, ".tmp"
  if (name.size() < 3 + kNonceDigits + kSuffix.size() || name[0] != '.' ||
      !absl::EndsWith(name, kSuffix)) {
    return false;
  }
  name.remove_suffix(kSuffix.size());
  const absl::string_view nonce = name.substr(name.size() - kNonceDigits);
  return name[name.size() - kNonceDigits - 1] == '.' &&
         nonce.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

absl::StatusOr<FileCommit> FileCommit::Begin(FileSystem& files, const std::string& path) {
  const std::string temporary = JoinPath(FolderOf(path), TemporaryName(NameOf(path), MakeNonce()));
  FileCommit commit(files, path, temporary);
  LORICA_ASSIGN_OR_RETURN(commit.file_, files.Open(temporary, OpenMode::kCreateNew));
  return commit;
}

FileCommit::~FileCommit() {
  if (file_ == nullptr || renamed_) return;
  file_.reset();
  files_->RemoveFile(temporary_).IgnoreError();  // nothing better to do with it
}

absl::Status FileCommit::Commit() {
  LORICA_CHECK(file_ != nullptr && !renamed_, "[commit] ", path_, " is already committed");
  LORICA_RETURN_IF_ERROR(file_->Sync());
  LORICA_RETURN_IF_ERROR(file_->Close());
  LORICA_RETURN_IF_ERROR(files_->Rename(temporary_, path_));
  renamed_ = true;
  return files_->SyncDirectory(FolderOf(path_));
}

absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::Span<const uint8_t> bytes) {
  LORICA_ASSIGN_OR_RETURN(FileCommit commit, FileCommit::Begin(files, path));
  LORICA_RETURN_IF_ERROR(commit.file().Append(bytes));
  return commit.Commit();
}

absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::string_view text) {
  return WriteFileAtomically(files, path, AsBytes(text));
}

DirectoryCommit::DirectoryCommit(FileSystem& files, std::string path, std::string nonce)
    : files_(&files),
      path_(std::move(path)),
      nonce_(std::move(nonce)),
      temporary_(JoinPath(FolderOf(path_), TemporaryName(NameOf(path_), nonce_))),
      open_files_(std::make_shared<int>(0)) {}

DirectoryCommit::DirectoryCommit(DirectoryCommit&& other) noexcept
    : files_(other.files_),
      path_(std::move(other.path_)),
      nonce_(std::move(other.nonce_)),
      temporary_(std::exchange(other.temporary_, {})),
      open_files_(std::move(other.open_files_)) {}

absl::StatusOr<DirectoryCommit> DirectoryCommit::Begin(FileSystem& files, const std::string& path) {
  const absl::StatusOr<FileInfo> existing = files.Stat(path);
  if (existing.ok()) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": expected a new name, found a ",
                                                 existing->is_directory ? "folder" : "file"));
  }
  if (!absl::IsNotFound(existing.status())) return existing.status();
  DirectoryCommit commit(files, path, MakeNonce());
  if (absl::Status made = files.MakeDirectory(commit.temporary_); !made.ok()) {
    commit.temporary_.clear();  // nothing to remove
    return made;
  }
  return commit;
}

DirectoryCommit::~DirectoryCommit() {
  if (!temporary_.empty()) RemoveTree(*files_, temporary_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<WritableFile>> DirectoryCommit::Create(absl::string_view name) {
  LORICA_CHECK(IsPlainName(name), "[commit] ", Quoted(name), " isn't a plain file name");
  LORICA_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                          files_->Open(JoinPath(temporary_, name), OpenMode::kCreateNew));
  return std::make_unique<CountedFile>(std::move(file), open_files_);
}

absl::Status DirectoryCommit::WriteFile(absl::string_view name, absl::Span<const uint8_t> bytes) {
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, Create(name));
  LORICA_RETURN_IF_ERROR(file->Append(bytes));
  return file->Close();
}

absl::Status DirectoryCommit::WriteFile(absl::string_view name, absl::string_view text) {
  return WriteFile(name, AsBytes(text));
}

absl::Status DirectoryCommit::Commit() {
  LORICA_CHECK(!temporary_.empty(), "[commit] ", path_, " is already committed");
  LORICA_CHECK(*open_files_ == 0, "[commit] ", path_, ": ", *open_files_,
               " files aren't closed, or failed to");
  LORICA_RETURN_IF_ERROR(files_->SyncDirectory(temporary_));
  LORICA_RETURN_IF_ERROR(files_->RenameNew(temporary_, path_));
  temporary_.clear();
  return files_->SyncDirectory(FolderOf(path_));
}

}  // namespace lorica
