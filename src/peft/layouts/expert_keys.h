// Where a module's path crosses into routed experts, in the spellings of all layouts.
#ifndef LORICA_PEFT_LAYOUTS_EXPERT_KEYS_H_
#define LORICA_PEFT_LAYOUTS_EXPERT_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica::layouts {

enum class Projection { kGate, kUp, kDown, kGateUp };
// "gate_proj", "up_proj", "down_proj", "gate_up_proj".
absl::string_view Name(Projection projection);
// The same in files with one pair an expert; `numbered` (ExpertForm::numbered_names): "w1", "w3",
// "w2".
absl::string_view SingleName(Projection projection, bool numbered);
// "...mlp.experts" as those files spell it.
std::string SinglePath(absl::string_view experts, bool numbered);

struct ExpertKey {
  enum class Form {
    kDense,    // the path names no routed expert
    kPacked,   // ...experts, behind it `depth` times .base_layer
    kGrouped,  // ...experts.gate_proj or ...switch_mlp.gate_proj
    kSingle,   // ...experts.7.gate_proj
  };
  Form form = Form::kDense;
  std::string experts;  // canonical: ...mlp.experts
  Projection projection = Projection::kGate;
  int64_t index = 0;
  int depth = 0;
  bool numbered_names = false;  // block_sparse_moe, or w1, w3, w2
};

// `path` has neither prefix nor factor name. An error (without a place) where it crosses into
// experts and goes on in an unknown way.
absl::StatusOr<ExpertKey> ParseExpertKey(absl::string_view path);

}  // namespace lorica::layouts

#endif  // LORICA_PEFT_LAYOUTS_EXPERT_KEYS_H_
