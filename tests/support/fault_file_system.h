// A file system that goes wrong at a chosen operation: with an error, or by ending the process as a
// crash or a power loss would.
#ifndef LORICA_TESTS_SUPPORT_FAULT_FILE_SYSTEM_H_
#define LORICA_TESTS_SUPPORT_FAULT_FILE_SYSTEM_H_

#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/status.h"

namespace lorica {

struct FaultPlan {
  enum class Action {
    kFail,         // that operation reports `error`
    kFailForever,  // so do all that change the disk after it
    kExit,         // the process ends before the operation (a write: after half of it)
    kPowerLoss,    // the same, and files lose the second half of the bytes that weren't synced
  };
  // Which of the operations that change the disk (open, write, sync, close, rename, folder sync,
  // make, remove, truncate), from 0; -1: none.
  int at = -1;
  Action action = Action::kFail;
  int error = ENOSPC;
};

// The status of a process that FaultPlan::kExit ended.
inline constexpr int kFaultExitStatus = 77;

// Works on PosixFiles(). One thread at a time.
class FaultFileSystem final : public FileSystem {
 public:
  explicit FaultFileSystem(FaultPlan plan) : plan_(plan) {}

  // Operations that changed the disk, or tried to, so far.
  int operations() const { return operations_; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path,
                                                     OpenMode mode) override {
    LORICA_RETURN_IF_ERROR(Step("open", path));
    LORICA_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, PosixFiles().Open(path, mode));
    // What an earlier process wrote and nobody else touched is on the disk by now.
    const auto known = synced_.find(path);
    if (mode != OpenMode::kAppend) {
      synced_[path] = 0;
    } else if (known == synced_.end()) {
      synced_[path] = SizeOf(path);
    }
    return std::make_unique<File>(this, path, std::move(file));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    LORICA_RETURN_IF_ERROR(Step("rename", from));
    LORICA_RETURN_IF_ERROR(PosixFiles().Rename(from, to));
    FollowRename(from, to);
    return absl::OkStatus();
  }
  absl::Status RenameNew(const std::string& from, const std::string& to) override {
    LORICA_RETURN_IF_ERROR(Step("rename", from));
    LORICA_RETURN_IF_ERROR(PosixFiles().RenameNew(from, to));
    FollowRename(from, to);
    return absl::OkStatus();
  }
  absl::Status SyncDirectory(const std::string& path) override {
    LORICA_RETURN_IF_ERROR(Step("sync folder", path));
    return PosixFiles().SyncDirectory(path);
  }
  absl::Status MakeDirectory(const std::string& path) override {
    LORICA_RETURN_IF_ERROR(Step("make folder", path));
    return PosixFiles().MakeDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return PosixFiles().List(path);
  }
  absl::Status RemoveFile(const std::string& path) override {
    LORICA_RETURN_IF_ERROR(Step("remove", path));
    synced_.erase(path);
    return PosixFiles().RemoveFile(path);
  }
  absl::Status RemoveDirectory(const std::string& path) override {
    LORICA_RETURN_IF_ERROR(Step("remove folder", path));
    return PosixFiles().RemoveDirectory(path);
  }
  absl::Status Truncate(const std::string& path, uint64_t size) override {
    LORICA_RETURN_IF_ERROR(Step("truncate", path));
    const auto known = synced_.find(path);
    if (known != synced_.end() && known->second > size) known->second = size;
    return PosixFiles().Truncate(path, size);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    return PosixFiles().Stat(path);
  }
  absl::StatusOr<std::string> Read(const std::string& path, size_t max_bytes) override {
    return PosixFiles().Read(path, max_bytes);
  }
  absl::StatusOr<MappedFile> Map(const std::string& path) override {
    return PosixFiles().Map(path);
  }

 private:
  class File final : public WritableFile {
   public:
    File(FaultFileSystem* files, std::string path, std::unique_ptr<WritableFile> file)
        : files_(files), path_(std::move(path)), file_(std::move(file)) {}

    using WritableFile::Append;
    absl::Status Append(absl::Span<const uint8_t> bytes) override {
      // A torn write: half of the bytes arrive.
      if (files_->IsNext()) file_->Append(bytes.subspan(0, bytes.size() / 2)).IgnoreError();
      LORICA_RETURN_IF_ERROR(files_->Step("write", path_));
      return file_->Append(bytes);
    }
    absl::Status Sync() override {
      LORICA_RETURN_IF_ERROR(files_->Step("sync", path_));
      LORICA_RETURN_IF_ERROR(file_->Sync());
      files_->synced_[path_] = SizeOf(path_);
      return absl::OkStatus();
    }
    absl::Status Close() override {
      LORICA_RETURN_IF_ERROR(files_->Step("close", path_));
      return file_->Close();
    }

   private:
    FaultFileSystem* files_;
    std::string path_;
    std::unique_ptr<WritableFile> file_;
  };

  bool IsNext() const { return operations_ == plan_.at; }

  static uint64_t SizeOf(const std::string& path) {
    const absl::StatusOr<FileInfo> info = PosixFiles().Stat(path);
    return info.ok() ? info->size : 0;
  }

  absl::Status Step(absl::string_view operation, const std::string& path) {
    const int now = operations_++;
    const bool failing =
        plan_.at >= 0 &&
        (now == plan_.at || (plan_.action == FaultPlan::Action::kFailForever && now > plan_.at));
    if (!failing) return absl::OkStatus();
    if (plan_.action == FaultPlan::Action::kPowerLoss) {
      for (const auto& [name, synced] : synced_) {
        const uint64_t size = SizeOf(name);
        if (size > synced) {
          PosixFiles().Truncate(name, synced + (size - synced) / 2).IgnoreError();
        }
      }
    }
    if (plan_.action == FaultPlan::Action::kExit || plan_.action == FaultPlan::Action::kPowerLoss) {
      _exit(kFaultExitStatus);
    }
    return absl::ErrnoToStatus(plan_.error, absl::StrCat(path, ": can't ", operation));
  }

  // Files keep their state under their new name, also those in a renamed folder.
  void FollowRename(const std::string& from, const std::string& to) {
    std::map<std::string, uint64_t> moved;
    for (const auto& [path, synced] : synced_) {
      if (path == from || absl::StartsWith(path, from + "/")) {
        moved[to + path.substr(from.size())] = synced;
      } else {
        moved.emplace(path, synced);
      }
    }
    synced_ = std::move(moved);
  }

  FaultPlan plan_;
  int operations_ = 0;
  std::map<std::string, uint64_t> synced_;  // files written here: bytes that are on the disk
};

}  // namespace lorica

#endif  // LORICA_TESTS_SUPPORT_FAULT_FILE_SYSTEM_H_
