// The output folder of a run: who may use it, and what is in it.
//
//   config.toml     the complete options; its presence says that a run was started here
//   metrics.jsonl   a line a step
//   checkpoints/    step-XXXXXXXX/ (io/checkpoint.h)
//   adapter/        the result, or model/ of full training
//   report.html
//   .lorica.lock    held while a process works here
#ifndef LORICA_TRAIN_RUN_FOLDER_H_
#define LORICA_TRAIN_RUN_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"

namespace lorica {

// A folder that this process has to itself. When the object is destroyed before Keep, what was put
// into a folder that held no run is removed again, and so are the folders that the claim made.
class RunFolder {
 public:
  // Makes the folder where it is absent, locks it, and removes temporary entries that a dead run
  // left. InvalidArgument where another process works in it, where it isn't a folder, or where it
  // holds anything that no run of ours writes; Internal where it can't be written.
  static absl::StatusOr<RunFolder> Claim(FileSystem& files, const std::string& path);

  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const std::string& path() const { return path_; }
  std::string config() const { return JoinPath(path_, "config.toml"); }
  std::string metrics() const { return JoinPath(path_, "metrics.jsonl"); }
  std::string checkpoints() const { return JoinPath(path_, "checkpoints"); }
  std::string adapter() const { return JoinPath(path_, "adapter"); }
  std::string model() const { return JoinPath(path_, "model"); }
  std::string report() const { return JoinPath(path_, "report.html"); }

  // Nothing of an earlier run is there.
  bool empty() const { return empty_; }

  // Removes what a run of ours wrote here, nothing else. For a run that starts afresh.
  absl::Status Clear();
  // The run has begun: from now on nothing is removed on destruction.
  void Keep() { keep_ = true; }

 private:
  RunFolder(FileSystem& files, std::string path) : files_(&files), path_(std::move(path)) {}
  absl::Status Lock();
  absl::Status LookAround();

  FileSystem* files_;
  std::string path_;
  std::vector<std::string> made_;  // folders that the claim made, outermost first
  int lock_ = -1;                  // file descriptor
  bool empty_ = false;             // until it has been looked at
  bool keep_ = false;
};

// Puts what `write` makes at `path` (which it must leave absent or complete) in place of what is
// there. A crash in between leaves the old one, the new one, or, between two renames, the old one
// under a temporary name. After an error of `write` the old one is back.
template <typename Write>
absl::Status ReplaceFolder(FileSystem& files, const std::string& path, const Write& write);

// The name that ReplaceFolder gives the old folder meanwhile.
std::string NameAside(const std::string& path);

template <typename Write>
absl::Status ReplaceFolder(FileSystem& files, const std::string& path, const Write& write) {
  const std::string aside = NameAside(path);
  const absl::Status moved = files.Rename(path, aside);
  if (!moved.ok() && !absl::IsNotFound(moved)) return moved;
  const absl::Status written = write();
  if (!moved.ok()) return written;
  if (!written.ok()) {
    files.Rename(aside, path).IgnoreError();  // the first error is the one to report
    return written;
  }
  return RemoveTree(files, aside);
}

}  // namespace lorica

#endif  // LORICA_TRAIN_RUN_FOLDER_H_
