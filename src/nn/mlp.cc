#include "lorica/nn/mlp.h"

namespace lorica::nn {

Mlp::Mlp(int64_t hidden, int64_t intermediate, bool with_bias, DType compute)
    : gate_(Linear::Declare(intermediate, hidden, with_bias, compute)),
      up_(Linear::Declare(intermediate, hidden, with_bias, compute)),
      down_(Linear::Declare(hidden, intermediate, with_bias, compute)) {}

Tensor Mlp::Forward(const Tensor& x, const ForwardContext& context) {
  const Tensor gate = gate_.Forward(x, context);
  const Tensor up = up_.Forward(x, context);
  return down_.Forward(SwiGlu(gate, up), context);
}

void Mlp::Visit(ModuleVisitor& visitor) {
  visitor.OnChild("gate_proj", gate_);
  visitor.OnChild("up_proj", up_);
  visitor.OnChild("down_proj", down_);
}

}  // namespace lorica::nn
