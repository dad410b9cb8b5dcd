#include "lorica/nn/moe.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/autograd/kept_choice.h"
#include "lorica/tensor/check.h"

namespace lorica::nn {
namespace {

const MoeConfig& Checked(const MoeConfig& config) {
  LORICA_CHECK(config.hidden > 0 && config.experts > 0 && config.expert_width > 0 &&
                   config.router.top_k > 0 && config.router.top_k <= config.experts &&
                   config.shared_width >= 0 && config.latent >= 0,
               "[moe] ", config.experts, " experts of width ", config.expert_width, ", ",
               config.router.top_k, " a token, hidden size ", config.hidden);
  LORICA_CHECK(!config.shared_gate || config.shared_width > 0,
               "[moe] a gate of shared experts needs shared experts");
  return config;
}

RouterConfig RouterOf(const MoeConfig& config) {
  return {.hidden = config.hidden,
          .experts = config.experts,
          .options = config.router,
          .bias = config.router_bias,
          .correction_bias = config.correction_bias,
          .wide = config.router_wide};
}

int64_t ExpertInput(const MoeConfig& config) {
  return config.latent > 0 ? config.latent : config.hidden;
}

GroupedLinear::Outputs OutputsOf(const MoeConfig& config) {
  if (!config.activation.gated()) return GroupedLinear::Outputs::kOne;
  return config.activation.interleaved ? GroupedLinear::Outputs::kInterleaved
                                       : GroupedLinear::Outputs::kGateAndUp;
}

}  // namespace

absl::string_view Name(ExpertNumerics numerics) {
  return numerics == ExpertNumerics::kFast ? "fast" : "automodel";
}

absl::StatusOr<ExpertNumerics> ParseExpertNumerics(absl::string_view name) {
  for (ExpertNumerics n : {ExpertNumerics::kFast, ExpertNumerics::kAutomodel}) {
    if (name == Name(n)) return n;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the numerics of experts are fast or automodel, found \"", name, "\""));
}

absl::string_view Name(RouterWeightPlacement placement) {
  return placement == RouterWeightPlacement::kBeforeDown ? "before-down" : "after-down";
}

absl::StatusOr<RouterWeightPlacement> ParseRouterWeightPlacement(absl::string_view name) {
  for (RouterWeightPlacement p :
       {RouterWeightPlacement::kBeforeDown, RouterWeightPlacement::kAfterDown}) {
    if (name == Name(p)) return p;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("router weights go before-down or after-down, found \"", name, "\""));
}

GroupedExperts::GroupedExperts(const MoeConfig& config, DType compute)
    : config_(config),
      gate_up_(GroupedLinear::Declare(
          config.experts, config.expert_width * (config.activation.gated() ? 2 : 1),
          ExpertInput(config), compute, config.expert_bias, OutputsOf(config))),
      down_(GroupedLinear::Declare(config.experts, ExpertInput(config), config.expert_width,
                                   compute, config.expert_bias)) {}

Tensor GroupedExperts::Forward(const Tensor& x, const Tensor& weights,
                               std::shared_ptr<const DispatchPlan> plan,
                               const ForwardContext& context) {
  ExpertsArgs args;
  args.gate_up = gate_up_.Projection(context, config_.numerics);
  args.down = down_.Projection(context, config_.numerics);
  args.activation = config_.activation;
  args.placement = config_.placement;
  args.numerics = config_.numerics;
  args.plan = std::move(plan);
  if (!context.spans.spans().empty()) args.spans = &context.spans;
  args.sequences = &context.sequences;
  args.row_keys = context.row_keys;
  return Experts(x, weights, args);
}

void GroupedExperts::Visit(ModuleVisitor& visitor) {
  const char* first = config_.activation.gated() ? "gate_up_proj" : "up_proj";
  visitor.OnChild(first, gate_up_);
  if (gate_up_.bias().defined()) {
    visitor.OnParameter(std::string(first) + "_bias", gate_up_.bias());
  }
  visitor.OnChild("down_proj", down_);
  if (down_.bias().defined()) visitor.OnParameter("down_proj_bias", down_.bias());
}

Moe::Moe(const MoeConfig& config, DType compute)
    : config_(Checked(config)), router_(RouterOf(config), compute), experts_(config, compute) {
  if (config.latent > 0) {
    latent_in_ = Linear::Declare(config.latent, config.hidden, false, compute);
    latent_out_ = Linear::Declare(config.hidden, config.latent, false, compute);
  }
  if (config.shared_width > 0) {
    shared_.emplace(MlpConfig{.hidden = config.hidden, .intermediate = config.shared_width},
                    compute);
    if (config.shared_gate) shared_gate_ = Linear::Declare(1, config.hidden, false, compute);
  }
}

Tensor Moe::Forward(const Tensor& x, const ForwardContext& context) {
  const int64_t tokens = x.dim(0);
  const Tensor logits = router_.Logits(x, context);
  const Routing routing = router_.Choose(logits);
  Tensor weights = routing.weights, loss;
  if (config_.aux_loss_coefficient > 0) {
    loss = LoadBalancingLoss(logits, config_.router, *routing.experts);
  }
  const auto plan = KeepChoice<DispatchPlan>([&] {
    DispatchPlan made =
        MakeDispatchPlan(*routing.experts, tokens, config_.router.top_k, config_.experts);
    // Here a forward pass counts once, however often its blocks are run again.
    statistics_.load.resize(static_cast<size_t>(config_.experts));
    for (int e = 0; e < made.offsets.groups(); ++e) {
      statistics_.load[static_cast<size_t>(e)] += made.offsets.size(e);
    }
    ++statistics_.batches;
    if (loss.defined()) statistics_.aux_loss += loss.item();
    return made;
  });
  if (loss.defined() && GradEnabled()) {
    const double weight =
        context.trained_weight > 0 ? context.trained_weight : static_cast<double>(tokens);
    weights = AttachLoss(weights, loss, config_.aux_loss_coefficient * weight);
  }
  const Tensor input = latent_in_.has_value() ? latent_in_->Forward(x, context) : x;
  Tensor y = experts_.Forward(input, weights, plan, context);
  if (latent_out_.has_value()) y = latent_out_->Forward(y, context);
  if (!shared_.has_value()) return y;
  Tensor shared = shared_->Forward(x, context);
  if (shared_gate_.has_value()) shared = Mul(Sigmoid(shared_gate_->Forward(x, context)), shared);
  return Add(y, shared);
}

MoeStatistics Moe::TakeStatistics() {
  MoeStatistics taken = std::exchange(statistics_, MoeStatistics());
  taken.load.resize(static_cast<size_t>(config_.experts));
  return taken;
}

void Moe::Visit(ModuleVisitor& visitor) {
  visitor.OnChild(config_.router_name, router_);
  if (latent_in_.has_value()) visitor.OnChild("fc1_latent_proj", *latent_in_);
  visitor.OnChild("experts", experts_);
  if (latent_out_.has_value()) visitor.OnChild("fc2_latent_proj", *latent_out_);
  if (shared_.has_value()) visitor.OnChild(config_.shared_name, *shared_);
  if (shared_gate_.has_value()) visitor.OnChild("shared_expert_gate", *shared_gate_);
}

}  // namespace lorica::nn
