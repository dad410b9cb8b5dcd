#include "lorica/train/data_files.h"

#include <glob.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr double kMostWeight = 1000;

bool Exists(const std::string& path) { return PosixFiles().Stat(path).ok(); }
bool IsFile(const std::string& path) {
  const auto info = PosixFiles().Stat(path);
  return info.ok() && !info->is_directory;
}

// The one file of the folder that is named so; empty where there is none.
absl::StatusOr<std::string> FolderFile(const std::string& folder,
                                       const std::vector<const char*>& stems) {
  std::string found;
  for (const char* stem : stems) {
    for (const char* ending : {".jsonl", ".json"}) {
      for (const char* compression : {"", ".gz", ".zst", ".xz"}) {
        const std::string name = absl::StrCat(stem, ending, compression);
        const std::string path = JoinPath(folder, name);
        if (!IsFile(path)) continue;
        if (!found.empty()) {
          return absl::FailedPreconditionError(absl::StrCat(folder, ": expected one ", stems[0],
                                                            " file, found ", NameOf(found), " and ",
                                                            name, "; name the file itself"));
        }
        found = path;
      }
    }
  }
  return found;
}

absl::Status AddFolder(const std::string& folder, double weight, DataFiles* files) {
  LORICA_ASSIGN_OR_RETURN(std::string train, FolderFile(folder, {"train"}));
  if (train.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder,
                     ": the folder has neither train.jsonl nor train.json, plain or "
                     "compressed; a pattern such as '",
                     JoinPath(folder, "*.jsonl"), "' names other files"));
  }
  files->train.push_back({std::move(train), weight});
  LORICA_ASSIGN_OR_RETURN(std::string valid, FolderFile(folder, {"valid", "validation"}));
  LORICA_ASSIGN_OR_RETURN(std::string test, FolderFile(folder, {"test"}));
  if (!valid.empty()) files->valid.push_back(std::move(valid));
  if (!test.empty()) files->test.push_back(std::move(test));
  return absl::OkStatus();
}

bool IsPattern(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

absl::StatusOr<std::vector<std::string>> Expand(const std::string& pattern) {
  glob_t matches = {};
  const int code = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  std::vector<std::string> paths;
  for (size_t i = 0; code == 0 && i < matches.gl_pathc; ++i) {
    if (IsFile(matches.gl_pathv[i])) paths.emplace_back(matches.gl_pathv[i]);
  }
  globfree(&matches);
  if (code == GLOB_NOSPACE) return absl::ResourceExhaustedError("out of memory");
  if (paths.empty()) {
    return absl::NotFoundError(
        absl::StrCat(Quoted(pattern), ": expected a pattern that files match, found none"));
  }
  // By bytes: the C library would sort by the language of the session.
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct Weighted {
  std::string name;
  std::optional<double> weight;
};

// "data.jsonl@0.3" taken apart.
absl::StatusOr<Weighted> SplitWeight(const std::string& name) {
  const size_t at = name.rfind('@');
  if (at == std::string::npos || at == 0 || Exists(name)) return Weighted{name, std::nullopt};
  double weight = 0;
  // Behind an '@' that belongs to the name comes no number.
  if (!absl::SimpleAtod(name.substr(at + 1), &weight)) return Weighted{name, std::nullopt};
  if (!(weight > 0) || weight > kMostWeight) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(name), ": expected a weight above 0 and at most ", kMostWeight, " behind the @"));
  }
  return Weighted{name.substr(0, at), weight};
}

absl::StatusOr<DataFiles> FindWithoutWeights(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    LORICA_ASSIGN_OR_RETURN(const Weighted weighted, SplitWeight(name));
    if (weighted.weight.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(name), ": expected no weight, which only training data may have"));
    }
  }
  return FindDataFiles(names);
}

}  // namespace

absl::StatusOr<DataFiles> FindDataFiles(const std::vector<std::string>& names) {
  DataFiles files;
  for (const std::string& given : names) {
    LORICA_ASSIGN_OR_RETURN(const Weighted weighted, SplitWeight(given));
    const std::string& name = weighted.name;
    const double weight = weighted.weight.value_or(1);
    const auto info = PosixFiles().Stat(name);
    if (!info.ok() && IsPattern(name)) {
      LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Expand(name));
      for (const std::string& path : paths) files.train.push_back({path, weight});
    } else if (!info.ok()) {
      return info.status();
    } else if (info->is_directory) {
      LORICA_RETURN_IF_ERROR(AddFolder(name, weight, &files));
    } else {
      files.train.push_back({name, weight});
    }
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> FindHeldOutFiles(const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    LORICA_ASSIGN_OR_RETURN(const DataFiles files, FindWithoutWeights({name}));
    const auto& held_out = !files.valid.empty() ? files.valid : files.test;
    paths.insert(paths.end(), held_out.begin(), held_out.end());
    if (!held_out.empty()) continue;
    for (const DataFile& file : files.train) paths.push_back(file.path);
  }
  return paths;
}

absl::StatusOr<std::vector<std::string>> FindPlainFiles(const std::vector<std::string>& names) {
  LORICA_ASSIGN_OR_RETURN(const DataFiles files, FindWithoutWeights(names));
  std::vector<std::string> paths;
  for (const DataFile& file : files.train) paths.push_back(file.path);
  return paths;
}

}  // namespace lorica
