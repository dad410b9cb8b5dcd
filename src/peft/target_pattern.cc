#include "lorica/peft/target_pattern.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/grouped_linear.h"
#include "lorica/peft/stored_adapter.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

bool HasName(absl::string_view path, absl::string_view name) {
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    if (part == name) return true;
  }
  return false;
}

bool IsHeadOrRouter(absl::string_view path) {
  const absl::string_view name = LastName(path);
  return name == "lm_head" || name == "gate" || name == "router" || name == "shared_expert_gate";
}

// Linear time in practice and bounded by |glob| * |text|: on a mismatch only the last * is moved
// on.
bool GlobMatches(absl::string_view glob, absl::string_view text) {
  size_t g = 0, t = 0, star = absl::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_text = t;
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g;
      ++t;
    } else if (star != absl::string_view::npos) {
      g = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

bool MatchesPath(absl::string_view pattern, absl::string_view path) {
  if (absl::StrContains(pattern, '*')) return GlobMatches(pattern, path);
  return IsOrEnds(path, pattern);
}

std::vector<std::string> DefaultTargets() { return {"*_proj", "kv_a_proj_with_mqa"}; }

// The fewest edits after which `glob` matches `text`.
size_t GlobDistance(absl::string_view glob, absl::string_view text) {
  std::vector<size_t> row(text.size() + 1), next(text.size() + 1);
  for (size_t t = 0; t <= text.size(); ++t) row[t] = t;
  for (const char c : glob) {
    next[0] = c == '*' ? row[0] : row[0] + 1;
    for (size_t t = 1; t <= text.size(); ++t) {
      next[t] =
          c == '*'
              ? std::min(row[t], next[t - 1])
              : std::min({row[t - 1] + (c == text[t - 1] ? 0 : 1), row[t] + 1, next[t - 1] + 1});
    }
    row.swap(next);
  }
  return row[text.size()];
}

size_t Distance(absl::string_view pattern, absl::string_view path) {
  if (absl::StrContains(pattern, '*')) return GlobDistance(pattern, path);
  size_t least = GlobDistance(pattern, path);
  // A path's last names, its first ones, and ones between.
  for (const std::string& glob : {absl::StrCat("*.", pattern), absl::StrCat(pattern, ".*"),
                                  absl::StrCat("*.", pattern, ".*")}) {
    least = std::min(least, GlobDistance(glob, path));
  }
  return least;
}

// The stack of experts that the projection at `path` belongs to; empty for others.
absl::string_view StackOf(absl::string_view path, AdapterHost::Kind kind) {
  if (kind != AdapterHost::Kind::kGroupedLinear) return {};
  const absl::string_view stack = ExpertsOf(path);
  return LastName(stack) == "experts" ? stack : absl::string_view();
}

// Why a pattern that names a projection of experts finds none, or "".
std::string WrongKind(absl::string_view pattern, ExpertLoraKind kind,
                      const std::vector<TargetCandidate>& candidates) {
  const absl::string_view name = LastName(pattern);
  if (!HasName(pattern, "experts")) return "";
  const bool grouped = std::any_of(
      candidates.begin(), candidates.end(),
      [](const TargetCandidate& c) { return c.host->kind() == AdapterHost::Kind::kGroupedLinear; });
  if (!grouped) return "";
  if (kind != ExpertLoraKind::kSplit && (name == "gate_proj" || name == "up_proj")) {
    return absl::StrCat("; ", Name(kind), " adapters have one gate_up_proj, the kind split has ",
                        "gate_proj and up_proj");
  }
  if (kind == ExpertLoraKind::kSplit && name == "gate_up_proj") {
    return "; split adapters have gate_proj and up_proj instead";
  }
  return "";
}

absl::Status NoMatch(absl::string_view what, absl::string_view pattern, ExpertLoraKind kind,
                     const std::vector<TargetCandidate>& candidates) {
  if (const std::string reason = WrongKind(pattern, kind, candidates); !reason.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " pattern ", Quoted(pattern),
                                                   " matches no module of the model", reason));
  }
  std::vector<std::string> paths;
  for (const TargetCandidate& c : candidates) {
    const absl::string_view stack = StackOf(c.path, c.host->kind());
    if (!stack.empty() && (paths.empty() || paths.back() != stack)) paths.emplace_back(stack);
    paths.push_back(c.path);
  }
  const std::string nearest = NearestPath(pattern, paths);
  std::string message =
      absl::StrCat(what, " pattern ", Quoted(pattern), " matches no module of the model");
  if (!nearest.empty()) absl::StrAppend(&message, "; the nearest path is ", Quoted(nearest));
  if (absl::StrContains(pattern, '*') && !nearest.empty() && Distance(pattern, nearest) == 0) {
    absl::StrAppend(&message, ", which no wildcard reaches: name ",
                    HasName(nearest, "experts") ? "experts" : LastName(nearest));
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace

std::string NearestPath(absl::string_view pattern, const std::vector<std::string>& paths) {
  constexpr size_t kLongest = 256;  // the distance costs a product of lengths
  constexpr size_t kMost = 8192;
  std::string nearest;
  size_t least = std::numeric_limits<size_t>::max();
  for (size_t i = 0; i < std::min(paths.size(), kMost); ++i) {
    const size_t distance = Distance(pattern.substr(0, kLongest), paths[i]);
    if (distance >= least) continue;
    least = distance;
    nearest = paths[i];
  }
  return nearest;
}

std::vector<TargetCandidate> ListTargetCandidates(Module& root, ExpertLoraKind kind) {
  std::vector<TargetCandidate> candidates;
  ForEachModule(root, [&](const std::string& path, Module& module) {
    auto* host = dynamic_cast<AdapterHost*>(&module);
    if (host == nullptr) return;
    const auto* grouped = dynamic_cast<nn::GroupedLinear*>(host);
    if (kind == ExpertLoraKind::kSplit && grouped != nullptr &&
        grouped->outputs() != nn::GroupedLinear::Outputs::kOne) {
      const std::string parent = path.substr(0, path.size() - LastName(path).size());
      candidates.push_back({absl::StrCat(parent, "gate_proj"), host, HostPart::kGate});
      candidates.push_back({absl::StrCat(parent, "up_proj"), host, HostPart::kUp});
      return;
    }
    candidates.push_back({path, host});
  });
  return candidates;
}

bool MatchesTarget(absl::string_view pattern, absl::string_view path, AdapterHost::Kind kind) {
  const bool expert = kind == AdapterHost::Kind::kGroupedLinear || HasName(path, "experts");
  const bool restricted = kind == AdapterHost::Kind::kEmbedding || IsHeadOrRouter(path);
  if (pattern == "all-linear") return !restricted && !expert;
  if (pattern == "all") return !restricted;
  if (expert && !HasName(pattern, "experts")) return false;
  if (restricted && LastName(pattern) != LastName(path)) return false;
  if (MatchesPath(pattern, path)) return true;
  const absl::string_view stack = StackOf(path, kind);
  return !stack.empty() && MatchesPath(pattern, stack);
}

absl::StatusOr<TargetSelection> SelectTargets(Module& root, const std::vector<std::string>& targets,
                                              const std::vector<std::string>& excludes,
                                              ExpertLoraKind kind) {
  const std::vector<TargetCandidate> candidates = ListTargetCandidates(root, kind);
  const bool defaults = targets.empty();
  const std::vector<std::string> patterns = defaults ? DefaultTargets() : targets;
  std::vector<bool> selected(candidates.size(), false);
  TargetSelection selection;
  for (const std::string& pattern : patterns) {
    PatternMatches matches{.pattern = pattern};
    bool trains = false;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!MatchesTarget(pattern, candidates[i].path, candidates[i].host->kind())) continue;
      selected[i] = true;
      matches.paths.push_back(candidates[i].path);
      trains = trains || candidates[i].host->differentiable();
    }
    if (matches.paths.empty() && !defaults) return NoMatch("target", pattern, kind, candidates);
    if (!matches.paths.empty() && !trains && !defaults) {
      return absl::InvalidArgumentError(
          absl::StrCat("target pattern ", Quoted(pattern), " means only modules that no gradient ",
                       "reaches, such as ", Quoted(matches.paths[0])));
    }
    selection.matches.push_back(std::move(matches));
  }
  for (const std::string& pattern : excludes) {
    bool any = false;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!MatchesTarget(pattern, candidates[i].path, candidates[i].host->kind())) continue;
      selected[i] = false;
      any = true;
    }
    if (!any) return NoMatch("exclude", pattern, kind, candidates);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!selected[i]) continue;
    if (candidates[i].host->differentiable()) {
      selection.selected.push_back(candidates[i]);
    } else {
      selection.left_out.push_back(candidates[i].path);
    }
  }
  if (selection.selected.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the LoRA targets leave nothing to train: of ", candidates.size(),
                     " modules that could carry an adapter none is selected"));
  }
  return selection;
}

}  // namespace lorica
