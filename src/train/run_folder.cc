#include "lorica/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"

namespace lorica {
namespace {

constexpr char kLockName[] = ".lorica.lock";
constexpr const char* kOwnNames[] = {"config.toml", "metrics.jsonl", "checkpoints", "adapter",
                                     "model",       "report.html",   "LATEST"};

bool IsOurs(const std::string& name) {
  return std::any_of(std::begin(kOwnNames), std::end(kOwnNames),
                     [&](const char* own) { return name == own; });
}

// A temporary entry of one of our own names: ".adapter.<nonce>.tmp".
bool IsOurLeftover(const std::string& name) {
  return IsTemporaryName(name) &&
         std::any_of(std::begin(kOwnNames), std::end(kOwnNames), [&](const char* own) {
           return absl::StartsWith(name, absl::StrCat(".", own, "."));
         });
}

}  // namespace

std::string NameAside(const std::string& path) {
  return JoinPath(FolderOf(path), TemporaryName(NameOf(path), MakeNonce()));
}

absl::StatusOr<RunFolder> RunFolder::Claim(FileSystem& files, const std::string& output) {
  std::string path = output;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  RunFolder folder(files, path);
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (info.ok() && !info->is_directory) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a folder for the output, found a file"));
  }
  if (!info.ok() && !absl::IsNotFound(info.status())) return AsRunError(info.status());
  // Folders that are absent, innermost first.
  std::vector<std::string> absent;
  for (std::string at = path; absl::IsNotFound(files.Stat(at).status()); at = FolderOf(at)) {
    absent.push_back(at);
    if (FolderOf(at) == at) break;
  }
  for (auto it = absent.rbegin(); it != absent.rend(); ++it) {
    if (absl::Status made = files.MakeDirectory(*it); !made.ok()) {
      if (absl::IsAlreadyExists(made)) continue;  // another process was faster
      return AsRunError(made);
    }
    folder.made_.push_back(*it);
  }
  LORICA_RETURN_IF_ERROR(folder.Lock());
  LORICA_RETURN_IF_ERROR(folder.LookAround());
  return folder;
}

absl::Status RunFolder::Lock() {
  const std::string name = JoinPath(path_, kLockName);
  for (;;) {
    const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
      return absl::InternalError(
          absl::StrCat(path_, ": the output folder can't be written: ", std::strerror(errno)));
    }
    // File systems without locks have to do without.
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(file);
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": the output folder is in use by another process"));
    }
    // The one who held the lock before may have removed the file in between.
    struct stat held {
    }, named{};
    if (fstat(file, &held) == 0 && stat(name.c_str(), &named) == 0 && held.st_ino == named.st_ino) {
      lock_ = file;
      return absl::OkStatus();
    }
    close(file);
  }
}

absl::Status RunFolder::LookAround() {
  absl::StatusOr<std::vector<std::string>> names = files_->List(path_);
  if (!names.ok()) return AsRunError(names.status());
  std::vector<std::string> leftovers;
  bool any = false;
  for (const std::string& name : *names) {
    if (name == kLockName) continue;
    if (IsOurLeftover(name)) {
      leftovers.push_back(name);
    } else if (IsOurs(name)) {
      any = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": expected an empty folder or one of an earlier run, found ",
                       Quoted(name), "; choose another output folder"));
    }
  }
  // Nothing in them is needed: whatever a run had committed stands under its own name, and a result
  // that was moved aside is made again from the last checkpoint.
  for (const std::string& name : leftovers) {
    const std::string full = JoinPath(path_, name);
    LORICA_RETURN_IF_ERROR(AsRunError(RemoveTree(*files_, full)));
  }
  empty_ = !any;
  return absl::OkStatus();
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : files_(other.files_),
      path_(std::move(other.path_)),
      made_(std::exchange(other.made_, {})),
      lock_(std::exchange(other.lock_, -1)),
      empty_(other.empty_),
      keep_(other.keep_) {}

absl::Status RunFolder::Clear() {
  LORICA_ASSIGN_OR_RETURN(std::vector<std::string> names, files_->List(path_));
  // The configuration goes last: it says whose the rest is, should this be cut short.
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name != "config.toml"; });
  for (const std::string& name : names) {
    // Whatever somebody else put here meanwhile stays.
    if (!IsOurs(name) && !IsOurLeftover(name)) continue;
    LORICA_RETURN_IF_ERROR(RemoveTree(*files_, JoinPath(path_, name)));
  }
  empty_ = true;
  return absl::OkStatus();
}

RunFolder::~RunFolder() {
  if (lock_ < 0 && made_.empty()) return;
  // Nothing better can be done with errors here.
  if (!keep_ && empty_ && lock_ >= 0) Clear().IgnoreError();
  if (lock_ >= 0) {
    unlink(JoinPath(path_, kLockName).c_str());
    close(lock_);
  }
  if (!keep_) {
    for (auto it = made_.rbegin(); it != made_.rend(); ++it) {
      files_->RemoveDirectory(*it).IgnoreError();
    }
  }
}

}  // namespace lorica
