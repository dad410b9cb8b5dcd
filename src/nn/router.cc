#include "lorica/nn/router.h"

namespace lorica::nn {

Router::Router(const RouterConfig& config, DType compute)
    : Linear(Linear::Declare(config.experts, config.hidden, config.bias, compute)),
      config_(config) {
  if (config.correction_bias) {
    correction_bias_ = Parameter::DeclareBuffer({config.experts}, AccumulatorOf(compute));
  }
}

Tensor Router::Logits(const Tensor& x, const ForwardContext& context) {
  const DType type = config_.wide ? AccumulatorOf(x.dtype()) : x.dtype();
  LinearArgs args = Args(context);
  if (type != x.dtype()) {
    args.weight.value = raw::Cast(args.weight.value, type);
    if (args.bias.defined()) args.bias.value = raw::Cast(args.bias.value, type);
    if (adapter_ != nullptr) args.branches = adapter_->Branches(type, context.training);
  }
  return lorica::Linear(Cast(x, type), args);
}

Routing Router::Choose(const Tensor& logits) const {
  return Route(logits, config_.options,
               correction_bias_.defined() ? correction_bias_.value() : Tensor());
}

void Router::Visit(ModuleVisitor& visitor) {
  Linear::Visit(visitor);
  if (correction_bias_.defined()) visitor.OnParameter("e_score_correction_bias", correction_bias_);
}

}  // namespace lorica::nn
