#include "lorica/nn/mlp.h"

#include "lorica/tensor/check.h"

namespace lorica::nn {

Tensor Gated(Activation activation, const Tensor& gate, const Tensor& up) {
  switch (activation) {
    case Activation::kSilu:
      return SwiGlu(gate, up);
    case Activation::kGelu:
      return GeGlu(gate, up, /*tanh_form=*/false);
    case Activation::kGeluTanh:
      return GeGlu(gate, up, /*tanh_form=*/true);
  }
  Fail("[mlp] unknown activation");
}

Mlp::Mlp(const MlpConfig& config, DType compute)
    : config_(config),
      down_(Linear::Declare(config.hidden, config.intermediate, config.bias, compute)) {
  const int64_t count = config.fused ? 1 : 2;
  for (int64_t i = 0; i < count; ++i) {
    inputs_.push_back(
        Linear::Declare(2 * config.intermediate / count, config.hidden, config.bias, compute));
  }
}

Tensor Mlp::Forward(const Tensor& x, const ForwardContext& context) {
  Tensor gate = inputs_[0].Forward(x, context), up;
  if (config_.fused) {
    up = Narrow(gate, 1, config_.intermediate, config_.intermediate);
    gate = Narrow(gate, 1, 0, config_.intermediate);
  } else {
    up = inputs_[1].Forward(x, context);
  }
  return down_.Forward(Gated(config_.activation, gate, up), context);
}

void Mlp::Visit(ModuleVisitor& visitor) {
  if (config_.fused) {
    visitor.OnChild("gate_up_proj", inputs_[0]);
  } else {
    visitor.OnChild("gate_proj", inputs_[0]);
    visitor.OnChild("up_proj", inputs_[1]);
  }
  visitor.OnChild("down_proj", down_);
}

}  // namespace lorica::nn
