#include "lorica/train/resume.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/toml_options.h"

namespace lorica::internal {
namespace {

constexpr size_t kLongestConfig = size_t{16} << 20;

std::vector<std::pair<std::string, std::string>> Fixed(SftOptions options) {
  // Paths of what is compared by content later are compared here as they stand: there is nothing
  // else to go by, and a wrong guess would clear somebody's run.
  std::vector<std::pair<std::string, std::string>> fixed =
      FixedOptions([&](OptionVisitor& visitor) { VisitSftOptions(options, visitor); });
  fixed.emplace_back("model", options.model);
  fixed.emplace_back("data", absl::StrJoin(options.data, ", "));
  fixed.emplace_back("chat-template", options.chat_template);
  return fixed;
}

// The folder has no checkpoint. Ok when a run of the same options began there.
absl::Status CheckSameBeginning(FileSystem& files, const RunFolder& folder,
                                const SftOptions& options) {
  const absl::Status another = absl::InvalidArgumentError(
      absl::StrCat(folder.path(),
                   ": expected an empty folder or a run of this configuration, found another "
                   "run; choose another output folder"));
  const absl::StatusOr<std::string> text = files.Read(folder.config(), kLongestConfig);
  if (absl::IsNotFound(text.status())) return another;
  LORICA_RETURN_IF_ERROR(AsInputError(text.status()));
  const absl::StatusOr<SftOptions> saved = SftOptionsFromToml(*text, folder.config());
  if (!saved.ok()) return AsInputError(saved.status());
  const auto there = Fixed(*saved), here = Fixed(options);
  std::vector<std::string> differing;
  for (size_t i = 0; i < there.size(); ++i) {
    if (there[i].second != here[i].second) {
      differing.push_back(absl::StrCat(there[i].first, " (", there[i].second, " there, ",
                                       here[i].second, " here)"));
    }
  }
  if (differing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(folder.path(),
                   ": expected an empty folder or a run of this configuration, "
                   "found a run that differs in ",
                   absl::StrJoin(differing, ", ")));
}

absl::StatusOr<StartingPoint> At(FileSystem& files, const std::string& path) {
  StartingPoint start;
  LORICA_ASSIGN_OR_RETURN(CheckpointReader reader,
                          AsInputError(CheckpointReader::Open(path, files)));
  LORICA_ASSIGN_OR_RETURN(start.state, AsInputError(ReadTrainingState(reader)));
  start.checkpoint = std::move(reader);
  return start;
}

absl::StatusOr<StartingPoint> Newest(FileSystem& files, const RunFolder& folder,
                                     const SftOptions& options,
                                     const std::function<void(const std::string&)>& say) {
  if (folder.empty()) return StartingPoint();
  LORICA_ASSIGN_OR_RETURN(const CheckpointList list,
                          AsInputError(ListCheckpoints(folder.checkpoints(), files)));
  if (!list.complete.empty()) {
    for (const absl::Status& damage : list.damaged) {
      if (say) say(absl::StrCat("passing over a damaged checkpoint: ", damage.message()));
    }
    return At(files, list.complete[0].path);
  }
  if (!list.damaged.empty()) {
    return absl::DataLossError(absl::StrCat(
        folder.checkpoints(),
        ": expected a checkpoint that can be opened, found: ", list.damaged[0].message()));
  }
  LORICA_RETURN_IF_ERROR(CheckSameBeginning(files, folder, options));
  StartingPoint start;
  start.clear = true;
  return start;
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

absl::StatusOr<StartingPoint> FindStart(FileSystem& files, const RunFolder& folder,
                                        const SftOptions& options,
                                        const std::function<void(const std::string&)>& say) {
  if (options.resume == "auto") return Newest(files, folder, options, say);
  if (options.resume == "never") {
    if (folder.empty()) return StartingPoint();
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path(),
                     ": expected an empty folder because of --resume never, found "
                     "a run; choose another output folder"));
  }
  const std::string path = WithoutSlash(options.resume);
  const bool inside = WithoutSlash(FolderOf(path)) == WithoutSlash(folder.checkpoints());
  if (!folder.empty() && !inside) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path(), ": expected an empty folder or the run that ", path,
                     " belongs to, found another run; choose another output folder"));
  }
  return At(files, path);
}

absl::Status RemoveLaterSteps(FileSystem& files, const std::string& checkpoints, int64_t step) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(checkpoints);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  LORICA_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    int64_t of_name = 0;
    if (!absl::StartsWith(name, "step-") || !absl::SimpleAtoi(name.substr(5), &of_name) ||
        of_name <= step) {
      continue;
    }
    // Out of sight first: a crash on the way must not leave half a step under its name.
    const std::string path = JoinPath(checkpoints, name);
    const std::string aside = NameAside(path);
    LORICA_RETURN_IF_ERROR(files.Rename(path, aside));
    LORICA_RETURN_IF_ERROR(files.SyncDirectory(checkpoints));
    LORICA_RETURN_IF_ERROR(RemoveTree(files, aside));
  }
  return absl::OkStatus();
}

}  // namespace lorica::internal
