// nn::Mlp: down(activation(gate(x)) * up(x)), the feed-forward part of a block.
// N. Shazeer, "GLU variants improve transformer", 2020.
#ifndef LORICA_NN_MLP_H_
#define LORICA_NN_MLP_H_

#include <cstdint>

#include "lorica/nn/linear.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/sublayer.h"

namespace lorica::nn {

// activation(gate) * up, both of one shape.
Tensor Gated(Activation activation, const Tensor& gate, const Tensor& up);

struct MlpConfig {
  int64_t hidden = 0, intermediate = 0;
  bool bias = false;
  bool fused = false;  // one linear of 2 * intermediate outputs, gate before up
  Activation activation = Activation::kSilu;
};

class Mlp : public Sublayer {
 public:
  Mlp(const MlpConfig& config, DType compute);

  Tensor Forward(const Tensor& x, const ForwardContext& context) override;

  // gate_proj and up_proj, or gate_up_proj; down_proj.
  void Visit(ModuleVisitor& visitor) override;

 private:
  MlpConfig config_;
  // One: gate_up. Two: gate, up.
  std::vector<Linear> inputs_;
  Linear down_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_MLP_H_
