// Which modules PEFT's configuration means.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lorica/peft/peft_config.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

bool EndsWithName(absl::string_view path, absl::string_view name) {
  return absl::EndsWith(path, absl::StrCat(".", name));
}

// The first number in a path with at least two names before it and one behind it; -1 without one.
int64_t LayerIn(absl::string_view path) {
  const std::vector<absl::string_view> names = absl::StrSplit(path, '.');
  for (size_t i = 2; i + 1 < names.size(); ++i) {
    int64_t layer = -1;
    const bool digits =
        !names[i].empty() && names[i].find_first_not_of("0123456789") == absl::string_view::npos;
    if (digits && absl::SimpleAtoi(names[i], &layer)) return layer;
  }
  return -1;
}

}  // namespace

absl::StatusOr<PeftModuleNames> PeftModuleNames::OfList(std::vector<std::string> names) {
  PeftModuleNames result;
  result.names_ = std::move(names);
  return result;
}

absl::StatusOr<PeftModuleNames> PeftModuleNames::OfRegex(absl::string_view pattern,
                                                         absl::string_view where) {
  PeftModuleNames result;
  if (absl::EqualsIgnoreCase(pattern, "all-linear")) {
    result.all_linear_ = true;
    return result;
  }
  PathRegex regex;
  LORICA_ASSIGN_OR_RETURN(regex, PathRegex::Compile(pattern, where));
  result.regex_ = std::move(regex);
  return result;
}

void PeftModuleNames::RestrictLayers(std::vector<int64_t> layers, std::vector<PathRegex> patterns) {
  layers_ = std::move(layers);
  layer_patterns_ = std::move(patterns);
}

bool PeftModuleNames::Matches(absl::string_view path) const {
  if (regex_.has_value()) return regex_->FullMatch(path);
  // A whole path isn't asked for its layer.
  if (std::find(names_.begin(), names_.end(), path) != names_.end()) return true;
  if (std::none_of(names_.begin(), names_.end(),
                   [&](const std::string& name) { return EndsWithName(path, name); })) {
    return false;
  }
  if (layers_.empty()) return true;
  int64_t layer = layer_patterns_.empty() ? LayerIn(path) : -1;
  for (const PathRegex& pattern : layer_patterns_) {
    if (pattern.FullMatch(path)) {
      layer = pattern.MatchedIndex(path);
      break;
    }
  }
  return std::find(layers_.begin(), layers_.end(), layer) != layers_.end() && layer >= 0;
}

bool PeftConfig::Adapts(absl::string_view path) const {
  if (excludes.Matches(path)) return false;
  for (const std::string& name : saved_modules) {
    // Nor anything inside of it.
    if (absl::StrContains(absl::StrCat(".", path, "."), absl::StrCat(".", name, "."))) return false;
  }
  return targets.all_linear() || targets.Matches(path);
}

bool PeftConfig::Saves(absl::string_view path) const {
  return std::any_of(saved_modules.begin(), saved_modules.end(),
                     [&](const std::string& name) { return IsOrEnds(path, name); });
}

std::optional<SavedTensor> PeftConfig::ParseSavedKey(absl::string_view key) const {
  const size_t dot = key.rfind('.');
  if (dot == absl::string_view::npos || !Saves(key.substr(0, dot))) return std::nullopt;
  return SavedTensor{std::string(key.substr(0, dot)), std::string(key.substr(dot + 1)), Tensor()};
}

}  // namespace lorica
