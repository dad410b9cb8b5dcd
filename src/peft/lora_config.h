// LoraConfig: what a low-rank adaptation is made of.
//
// E. Hu et al., "LoRA", 2021; rank-stabilised scaling: D. Kalajdzievski, "rsLoRA", 2023.
#ifndef LORICA_PEFT_LORA_CONFIG_H_
#define LORICA_PEFT_LORA_CONFIG_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica {

enum class LoraScaling {
  kStandard,  // alpha / r
  kRsLora,    // alpha / sqrt(r)
};

// How A starts; B starts as zero (for embeddings A is zero and B normal, as PEFT has it).
enum class LoraInit {
  kKaiming,   // uniform in +-1 / sqrt(in)
  kXavier,    // normal, std sqrt(2 / (in + r))
  kGaussian,  // normal, std 1 / r
};

// How stacked experts carry adapters. All factors are [E, r, in] and [E, out, r], or with a leading
// 1 where experts share them.
enum class ExpertLoraKind {
  kFused,        // gate and up share one A
  kSplit,        // gate and up have an A each: modules experts.gate_proj and experts.up_proj
  kSharedOuter,  // fused; experts share the A of gate and up and the B of down
};

// The largest rank that is taken for a meaning rather than for a slip or an attack.
inline constexpr int64_t kMaxLoraRank = 65536;

struct LoraConfig {
  int64_t rank = 16;
  double alpha = 32;
  LoraScaling scaling = LoraScaling::kStandard;
  double dropout = 0;  // on the branch input, in [0, 1)
  LoraInit init = LoraInit::kKaiming;
  // Target patterns (target_pattern.h). Empty: the dense linears, `*_proj` and
  // `kv_a_proj_with_mqa`.
  std::vector<std::string> targets;
  std::vector<std::string> excludes;
  // Pattern and value; the first match in this order counts.
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  uint64_t seed = 0;  // of the start values and of dropout
  ExpertLoraKind expert_kind = ExpertLoraKind::kFused;
  // Above 1 the rank of experts is divided by it, alpha stays: a token meets that many experts.
  // Rounded down; 0 is an error.
  int64_t expert_rank_divisor = 1;
  // For a plan: factors have their shapes and take no memory; they can't be attached.
  bool declare_only = false;
};

// InvalidArgument naming the field when a value is out of its range.
absl::Status Validate(const LoraConfig& config);

// What the product B A is multiplied by.
double LoraScale(LoraScaling scaling, int64_t rank, double alpha);

absl::string_view Name(LoraScaling scaling);  // "standard", "rslora"
absl::string_view Name(LoraInit init);        // "kaiming", ...
absl::string_view Name(ExpertLoraKind kind);  // "fused", "split", "shared-outer"
absl::StatusOr<LoraScaling> ParseLoraScaling(absl::string_view name);
absl::StatusOr<LoraInit> ParseLoraInit(absl::string_view name);
absl::StatusOr<ExpertLoraKind> ParseExpertLoraKind(absl::string_view name);

}  // namespace lorica

#endif  // LORICA_PEFT_LORA_CONFIG_H_
