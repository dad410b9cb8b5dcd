// nn::Mlp: down(silu(gate(x)) * up(x)), the feed-forward part of a Llama-like block.
#ifndef LORICA_NN_MLP_H_
#define LORICA_NN_MLP_H_

#include <cstdint>

#include "lorica/nn/linear.h"

namespace lorica::nn {

class Mlp : public Module {
 public:
  Mlp(int64_t hidden, int64_t intermediate, bool with_bias, DType compute);

  // x [T, C] -> [T, C].
  Tensor Forward(const Tensor& x, const ForwardContext& context);

  // gate_proj, up_proj, down_proj.
  void Visit(ModuleVisitor& visitor) override;

 private:
  Linear gate_, up_, down_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_MLP_H_
