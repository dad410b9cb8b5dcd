#include "lorica/peft/target_pattern.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/grouped_linear.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

absl::string_view LastName(absl::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == absl::string_view::npos ? path : path.substr(dot + 1);
}

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
  return pattern == path || absl::EndsWith(path, absl::StrCat(".", pattern));
}

std::vector<std::string> DefaultTargets() { return {"*_proj", "kv_a_proj_with_mqa"}; }

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
  std::vector<std::string> names;
  for (const TargetCandidate& c : candidates) {
    names.push_back(c.path);
    names.emplace_back(LastName(c.path));
  }
  const std::string nearest = NearestName(pattern, names);
  std::string message =
      absl::StrCat(what, " pattern ", Quoted(pattern), " matches no module of the model");
  if (!nearest.empty()) {
    absl::StrAppend(&message, "; the nearest name is ", Quoted(nearest));
  } else if (!candidates.empty()) {
    absl::StrAppend(&message, ", whose targets are such as ", Quoted(candidates[0].path));
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace

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
  // The stack of experts that a projection belongs to.
  const size_t dot = path.rfind('.');
  return kind == AdapterHost::Kind::kGroupedLinear && dot != absl::string_view::npos &&
         LastName(path.substr(0, dot)) == "experts" && MatchesPath(pattern, path.substr(0, dot));
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
    int matches = 0;
    const TargetCandidate* frozen = nullptr;
    bool trains = false;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!MatchesTarget(pattern, candidates[i].path, candidates[i].host->kind())) continue;
      selected[i] = true;
      ++matches;
      trains = trains || candidates[i].host->differentiable();
      if (frozen == nullptr) frozen = &candidates[i];
    }
    if (matches == 0 && !defaults) return NoMatch("target", pattern, kind, candidates);
    if (matches > 0 && !trains && !defaults) {
      return absl::InvalidArgumentError(absl::StrCat("target pattern ", Quoted(pattern),
                                                     " means only modules that no gradient ",
                                                     "reaches, such as ", Quoted(frozen->path)));
    }
    selection.matches.emplace_back(pattern, matches);
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
