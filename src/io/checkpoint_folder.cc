// The folder of step folders: listing, rotation, cleaning.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/checkpoint.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr absl::string_view kTrashPrefix = ".trash-";

// The step of a name that CheckpointName makes.
std::optional<int64_t> ParseCheckpointName(absl::string_view name) {
  constexpr absl::string_view kPrefix = "step-";
  int64_t step = 0;
  if (!absl::StartsWith(name, kPrefix) || !absl::SimpleAtoi(name.substr(kPrefix.size()), &step) ||
      step < 0 || CheckpointName(step) != name) {
    return std::nullopt;
  }
  return step;
}

// Names in a folder that may be absent.
absl::StatusOr<std::vector<std::string>> ListIfThere(FileSystem& files, const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> names = files.List(folder);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

}  // namespace

absl::StatusOr<CheckpointList> ListCheckpoints(const std::string& folder, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(files, folder));
  CheckpointList list;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = ParseCheckpointName(name);
    if (!step.has_value()) continue;
    const std::string path = JoinPath(folder, name);
    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(path, files);
    if (!reader.ok()) {
      list.damaged.push_back(reader.status());
    } else if (reader->manifest().step != *step) {
      list.damaged.push_back(absl::InvalidArgumentError(
          absl::StrCat(path, ": the manifest is of step ", reader->manifest().step)));
    } else {
      list.complete.push_back({path, *step});
    }
  }
  std::sort(list.complete.begin(), list.complete.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  return list;
}

absl::Status KeepNewest(FileSystem& files, const std::string& folder, int64_t keep,
                        absl::Span<const int64_t> also_keep) {
  LORICA_CHECK(keep >= 1, "[checkpoint] at least one checkpoint must be kept, not ", keep);
  LORICA_ASSIGN_OR_RETURN(const CheckpointList list, ListCheckpoints(folder, files));
  std::vector<std::string> trash;
  for (size_t i = static_cast<size_t>(keep); i < list.complete.size(); ++i) {
    const CheckpointPlace& place = list.complete[i];
    if (std::find(also_keep.begin(), also_keep.end(), place.step) != also_keep.end()) continue;
    const std::string name = absl::StrCat(kTrashPrefix, NameOf(place.path), ".", MakeNonce());
    trash.push_back(JoinPath(folder, name));
    LORICA_RETURN_IF_ERROR(files.Rename(place.path, trash.back()));
  }
  if (trash.empty()) return absl::OkStatus();
  // The new names must be on the disk before the contents go: else a crash could bring back a step
  // with files missing.
  LORICA_RETURN_IF_ERROR(files.SyncDirectory(folder));
  for (const std::string& path : trash) LORICA_RETURN_IF_ERROR(RemoveTree(files, path));
  return absl::OkStatus();
}

absl::Status RemoveLeftovers(FileSystem& files, const std::string& folder) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(files, folder));
  for (const std::string& name : names) {
    if (IsTemporaryName(name) || absl::StartsWith(name, kTrashPrefix)) {
      LORICA_RETURN_IF_ERROR(RemoveTree(files, JoinPath(folder, name)));
    }
  }
  return absl::OkStatus();
}

}  // namespace lorica
