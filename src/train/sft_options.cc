#include "lorica/train/sft_options.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/moe.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"
#include "lorica/train/toml_options.h"

namespace lorica {
namespace {

constexpr int64_t kMostDataMemory = 10'000'000;

absl::Status AtLeast(absl::string_view name, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return WrongOption(name, absl::StrCat("a whole number of at least ", least), absl::StrCat(value));
}
absl::Status AtLeast(absl::string_view name, const std::optional<int64_t>& value, int64_t least) {
  return value.has_value() ? AtLeast(name, *value, least) : absl::OkStatus();
}
absl::Status InRange(absl::string_view name, double value, bool ok, absl::string_view range) {
  if (ok && std::isfinite(value)) return absl::OkStatus();
  return WrongOption(name, absl::StrCat("a number ", range), absl::StrCat(value));
}

// "PATTERN=VALUE", split at the last '='.
template <typename Value, typename Parse>
absl::Status SplitPattern(absl::string_view name, const std::string& text, const Parse& parse,
                          std::vector<std::pair<std::string, Value>>* patterns) {
  const size_t at = text.rfind('=');
  Value value{};
  if (at == std::string::npos || at == 0 || !parse(text.substr(at + 1), &value)) {
    return WrongOption(name, "PATTERN=NUMBER", Quoted(text));
  }
  if (patterns != nullptr) patterns->emplace_back(text.substr(0, at), value);
  return absl::OkStatus();
}
bool ParseRank(const std::string& text, int64_t* value) {
  return absl::SimpleAtoi(text, value) && *value >= 1 && *value <= kMaxLoraRank;
}
bool ParseAlpha(const std::string& text, double* value) {
  return absl::SimpleAtod(text, value) && std::isfinite(*value) && *value > 0;
}

absl::Status ValidateAdapter(const SftOptions& o) {
  if (o.lora_rank.has_value() && (*o.lora_rank < 0 || *o.lora_rank > kMaxLoraRank)) {
    return WrongOption("lora-rank", absl::StrCat("0 (full training) to ", kMaxLoraRank),
                       absl::StrCat(*o.lora_rank));
  }
  if (o.lora_alpha.has_value()) {
    LORICA_RETURN_IF_ERROR(InRange("lora-alpha", *o.lora_alpha, *o.lora_alpha > 0, "above 0"));
  }
  LORICA_RETURN_IF_ERROR(InRange("lora-dropout", o.lora_dropout,
                                 o.lora_dropout >= 0 && o.lora_dropout < 1, "in [0, 1)"));
  for (const std::string& text : o.rank_pattern) {
    LORICA_RETURN_IF_ERROR(SplitPattern<int64_t>("rank-pattern", text, ParseRank, nullptr));
  }
  for (const std::string& text : o.alpha_pattern) {
    LORICA_RETURN_IF_ERROR(SplitPattern<double>("alpha-pattern", text, ParseAlpha, nullptr));
  }
  if (!IsFullTraining(o)) return absl::OkStatus();
  const std::pair<const char*, bool> meaningless[] = {
      {"init-adapter", !o.init_adapter.empty()},
      {"target", !o.target.empty()},
      {"exclude", !o.exclude.empty()},
      {"rank-pattern", !o.rank_pattern.empty()},
      {"alpha-pattern", !o.alpha_pattern.empty()},
      {"lora-alpha", o.lora_alpha.has_value()},
      {"lora-dropout", o.lora_dropout != 0},
      {"lora-scaling", !o.lora_scaling.empty()},
      {"train-router", o.train_router},
  };
  for (const auto& [name, given] : meaningless) {
    if (given) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", name, " has no meaning with --lora-rank 0, which trains the whole model"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateSteps(const SftOptions& o) {
  LORICA_RETURN_IF_ERROR(AtLeast("max-length", o.max_length, 2));
  if (o.data_memory < 0 || o.data_memory > kMostDataMemory) {
    return WrongOption("data-memory", absl::StrCat("0 to ", kMostDataMemory, " MB"),
                       absl::StrCat(o.data_memory));
  }
  LORICA_RETURN_IF_ERROR(AtLeast("epochs", o.epochs, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("max-steps", o.max_steps, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("batch-size", o.batch_size, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("micro-batch-size", o.micro_batch_size, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("warmup-steps", o.warmup_steps, 0));
  LORICA_RETURN_IF_ERROR(InRange("warmup-ratio", o.warmup_ratio,
                                 o.warmup_ratio >= 0 && o.warmup_ratio <= 1, "in [0, 1]"));
  LORICA_RETURN_IF_ERROR(InRange("min-lr-ratio", o.min_lr_ratio,
                                 o.min_lr_ratio >= 0 && o.min_lr_ratio <= 1, "in [0, 1]"));
  LORICA_RETURN_IF_ERROR(
      InRange("max-grad-norm", o.max_grad_norm, o.max_grad_norm >= 0, "of 0 or more"));
  LORICA_RETURN_IF_ERROR(AtLeast("eval-every", o.eval_every, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("early-stop", o.early_stop, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("sample-tokens", o.sample_tokens, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("save-every", o.save_every, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("keep", o.keep, 1));
  LORICA_RETURN_IF_ERROR(AtLeast("threads", o.threads, 0));
  LORICA_RETURN_IF_ERROR(AtLeast("seed", o.seed, 0));
  return AtLeast("device", o.device, 0);
}

}  // namespace

absl::Status Validate(const SftOptions& options, bool need_paths) {
  SftOptions copy = options;
  LORICA_RETURN_IF_ERROR(
      CheckTextOptions([&](OptionVisitor& visitor) { VisitSftOptions(copy, visitor); }));
  const SftOptions& o = options;
  if (o.model.empty()) return WrongOption("model", "a folder or a .gguf file", "nothing");
  if (need_paths && o.data.empty()) return WrongOption("data", "at least one file", "nothing");
  if (need_paths && o.output.empty()) return WrongOption("output", "a folder", "nothing");
  LORICA_RETURN_IF_ERROR(ValidateAdapter(o));
  if (!o.router_weight.empty() && !nn::ParseRouterWeightPlacement(o.router_weight).ok()) {
    return WrongOption("router-weight", "before-down or after-down", o.router_weight);
  }
  LORICA_RETURN_IF_ERROR(
      InRange("aux-loss", o.aux_loss, o.aux_loss >= 0 && o.aux_loss <= 1e6, "from 0 to 1e6"));
  LORICA_RETURN_IF_ERROR(InRange("router-bias-update", o.router_bias_update,
                                 o.router_bias_update >= 0 && o.router_bias_update <= 1,
                                 "from 0 to 1"));
  LORICA_RETURN_IF_ERROR(ValidateSteps(o));
  const absl::Status optimizer = Validate(OptimizerOptionsOf(o));
  if (!optimizer.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--", optimizer.message()));
  }
  if (o.resume.empty()) return WrongOption("resume", "auto, never or a path", "nothing");
  if (o.backend != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("--backend ", o.backend, ": this build has no such backend; use cpu"));
  }
  return absl::OkStatus();
}

LoraConfig LoraConfigOf(const SftOptions& options, const ModelConfig& model) {
  LoraConfig config;
  config.rank = options.lora_rank.value_or(config.rank);
  config.alpha = options.lora_alpha.value_or(config.alpha);
  if (!options.lora_scaling.empty()) config.scaling = *ParseLoraScaling(options.lora_scaling);
  config.dropout = options.lora_dropout;
  config.init = *ParseLoraInit(options.lora_init);
  config.targets = options.target;
  config.excludes = options.exclude;
  for (const std::string& text : options.rank_pattern) {
    const absl::Status split =
        SplitPattern<int64_t>("rank-pattern", text, ParseRank, &config.rank_pattern);
    LORICA_CHECK(split.ok(), split.message());
  }
  for (const std::string& text : options.alpha_pattern) {
    const absl::Status split =
        SplitPattern<double>("alpha-pattern", text, ParseAlpha, &config.alpha_pattern);
    LORICA_CHECK(split.ok(), split.message());
  }
  config.seed = static_cast<uint64_t>(options.seed);
  config.expert_kind = *ParseExpertLoraKind(options.expert_lora);
  if (options.moe_rank_scaling && model.moe.experts > 0) {
    config.expert_rank_divisor = model.moe.router.top_k;
  }
  return config;
}

ModelConfig WithExpertOptions(ModelConfig config, const SftOptions& options) {
  nn::MoeConfig& moe = config.moe;
  moe.numerics = *nn::ParseExpertNumerics(options.numerics);
  if (moe.numerics == ExpertNumerics::kAutomodel) {
    // The placement of that system: after the down projection for GLM-4, before it for others.
    const bool after = config.family == "glm4_moe" || config.family == "glm4_moe_lite";
    moe.placement = after ? RouterWeightPlacement::kAfterDown : RouterWeightPlacement::kBeforeDown;
  }
  if (!options.router_weight.empty()) {
    moe.placement = *nn::ParseRouterWeightPlacement(options.router_weight);
  }
  moe.aux_loss_coefficient = options.aux_loss;
  return config;
}

OptimizerOptions OptimizerOptionsOf(const SftOptions& options) {
  OptimizerOptions o;
  o.kind = options.optimizer == "muon" ? OptimizerKind::kMuon : OptimizerKind::kAdamW;
  o.adamw = {.lr = options.lr,
             .beta1 = options.beta1,
             .beta2 = options.beta2,
             .eps = options.eps,
             .weight_decay = options.weight_decay};
  o.muon = {.lr = options.muon_lr,
            .momentum = options.muon_momentum,
            .nesterov = options.muon_nesterov,
            .weight_decay = options.weight_decay};
  return o;
}

LrSchedule ScheduleOf(const SftOptions& options, int64_t total_steps) {
  LrSchedule schedule;
  for (ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kLinear}) {
    if (options.schedule == Name(kind)) schedule.kind = kind;
  }
  schedule.total_steps = total_steps;
  schedule.min_ratio = options.min_lr_ratio;
  schedule.warmup_steps = options.warmup_steps.value_or(
      static_cast<int64_t>(std::ceil(options.warmup_ratio * static_cast<double>(total_steps))));
  return schedule;
}

DType ComputeTypeOf(const SftOptions& options) {
  if (options.dtype == "bf16") return DType::kBF16;
  return options.dtype == "f64" ? DType::kF64 : DType::kF32;
}

std::string SftOptionsToToml(const SftOptions& options) {
  SftOptions copy = options;
  return FormatTomlOptions([&](OptionVisitor& visitor) { VisitSftOptions(copy, visitor); });
}

absl::StatusOr<SftOptions> SftOptionsFromToml(absl::string_view text, absl::string_view where,
                                              SftOptions base) {
  LORICA_RETURN_IF_ERROR(ParseTomlOptions(
      text, where, [&](OptionVisitor& visitor) { VisitSftOptions(base, visitor); }));
  return base;
}

}  // namespace lorica
