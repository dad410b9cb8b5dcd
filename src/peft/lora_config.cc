#include "lorica/peft/lora_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace lorica {
namespace {

absl::Status CheckRank(int64_t rank, absl::string_view where) {
  if (rank >= 1 && rank <= kMaxLoraRank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, " must lie in [1, ", kMaxLoraRank, "], found ", rank));
}

absl::Status CheckAlpha(double alpha, absl::string_view where) {
  if (std::isfinite(alpha) && alpha > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, " must be a positive number, found ", alpha));
}

}  // namespace

absl::Status Validate(const LoraConfig& config) {
  if (absl::Status s = CheckRank(config.rank, "the LoRA rank"); !s.ok()) return s;
  if (absl::Status s = CheckAlpha(config.alpha, "lora_alpha"); !s.ok()) return s;
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the LoRA dropout must lie in [0, 1), found ", config.dropout));
  }
  if (config.expert_rank_divisor < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the divisor of expert ranks must be at least 1, found ", config.expert_rank_divisor));
  }
  for (const auto& [pattern, rank] : config.rank_pattern) {
    if (absl::Status s = CheckRank(rank, absl::StrCat("the rank of pattern \"", pattern, "\""));
        !s.ok()) {
      return s;
    }
  }
  for (const auto& [pattern, alpha] : config.alpha_pattern) {
    if (absl::Status s = CheckAlpha(alpha, absl::StrCat("the alpha of pattern \"", pattern, "\""));
        !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

double LoraScale(LoraScaling scaling, int64_t rank, double alpha) {
  const double r = static_cast<double>(rank);
  return scaling == LoraScaling::kRsLora ? alpha / std::sqrt(r) : alpha / r;
}

absl::string_view Name(LoraScaling scaling) {
  return scaling == LoraScaling::kRsLora ? "rslora" : "standard";
}

absl::string_view Name(LoraInit init) {
  switch (init) {
    case LoraInit::kKaiming:
      return "kaiming";
    case LoraInit::kXavier:
      return "xavier";
    case LoraInit::kGaussian:
      return "gaussian";
  }
  return "";
}

absl::string_view Name(ExpertLoraKind kind) {
  switch (kind) {
    case ExpertLoraKind::kFused:
      return "fused";
    case ExpertLoraKind::kSplit:
      return "split";
    case ExpertLoraKind::kSharedOuter:
      return "shared-outer";
  }
  return "";
}

absl::StatusOr<ExpertLoraKind> ParseExpertLoraKind(absl::string_view name) {
  for (ExpertLoraKind k :
       {ExpertLoraKind::kFused, ExpertLoraKind::kSplit, ExpertLoraKind::kSharedOuter}) {
    if (name == Name(k)) return k;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("LoRA on experts is one of fused, split, shared-outer; found \"", name, "\""));
}

absl::StatusOr<LoraScaling> ParseLoraScaling(absl::string_view name) {
  for (LoraScaling s : {LoraScaling::kStandard, LoraScaling::kRsLora}) {
    if (name == Name(s)) return s;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a LoRA scaling is one of standard, rslora; found \"", name, "\""));
}

absl::StatusOr<LoraInit> ParseLoraInit(absl::string_view name) {
  for (LoraInit i : {LoraInit::kKaiming, LoraInit::kXavier, LoraInit::kGaussian}) {
    if (name == Name(i)) return i;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a LoRA start is one of kaiming, xavier, gaussian; found \"", name, "\""));
}

}  // namespace lorica
