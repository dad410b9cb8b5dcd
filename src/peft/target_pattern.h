// Which modules a LoRA configuration means.
//
// A pattern is one of
//   *_proj  model.layers.1.*   a glob over the whole dotted path: * stands for any characters, dots
//   included; a dot is a
//                              dot
//   q_proj  self_attn.q_proj   without *: a path, or its last names
//   all-linear                 every dense linear except head and router
//   all                        those and the experts
// A wildcard never crosses into `experts`: only a pattern that spells that name reaches them. One
// that names `experts` itself means all their projections.
// Router, head and embeddings are reached only by a pattern whose last name is their own.
#ifndef LORICA_PEFT_TARGET_PATTERN_H_
#define LORICA_PEFT_TARGET_PATTERN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/nn/linear.h"
#include "lorica/peft/lora_config.h"

namespace lorica {

// Which outputs of a host an adapter is for.
enum class HostPart { kAll, kGate, kUp };

// A module that can carry an adapter. In the kind `split` a grouped gate_up_proj is two of them,
// gate_proj and up_proj.
struct TargetCandidate {
  std::string path;
  AdapterHost* host = nullptr;
  HostPart part = HostPart::kAll;
};

// All adapter hosts below `root`, in the order of the tree.
std::vector<TargetCandidate> ListTargetCandidates(Module& root,
                                                  ExpertLoraKind kind = ExpertLoraKind::kFused);

// Whether `pattern` means the module at `path` of this kind.
bool MatchesTarget(absl::string_view pattern, absl::string_view path, AdapterHost::Kind kind);

struct PatternMatches {
  std::string pattern;
  std::vector<std::string> paths;
};

struct TargetSelection {
  std::vector<TargetCandidate> selected;  // in the order of the tree
  // Matched but without a gradient in training, left out.
  std::vector<std::string> left_out;
  // What each target pattern matched, before excludes, in the order given.
  std::vector<PatternMatches> matches;
};

// Applies targets and excludes (excludes win). InvalidArgument for a given pattern that matches
// nothing, naming the nearest path, or only what no gradient reaches, and when nothing is left.
// With no targets the defaults stand in, of which one may match nothing.
absl::StatusOr<TargetSelection> SelectTargets(Module& root, const std::vector<std::string>& targets,
                                              const std::vector<std::string>& excludes,
                                              ExpertLoraKind kind = ExpertLoraKind::kFused);

// The path that `pattern` misses by the fewest edits; "" where there is none.
std::string NearestPath(absl::string_view pattern, const std::vector<std::string>& paths);

}  // namespace lorica

#endif  // LORICA_PEFT_TARGET_PATTERN_H_
