// nn::Router: the linear that scores experts, and its correction bias.
//
// Letters: T tokens, E experts, K experts a token, C hidden size.
#ifndef LORICA_NN_ROUTER_H_
#define LORICA_NN_ROUTER_H_

#include <cstdint>
#include <memory>

#include "lorica/autograd/router.h"
#include "lorica/nn/linear.h"

namespace lorica::nn {

struct RouterConfig {
  int64_t hidden = 0, experts = 0;
  RouterOptions options;
  bool bias = false;             // of the linear
  bool correction_bias = false;  // added to the scores for the choice alone
  bool wide = true;              // logits in f32 where the model computes in bf16
};

class Router : public Linear {
 public:
  Router(const RouterConfig& config, DType compute);

  // x [T, C] -> [T, E], in the accumulator type where `wide`, else in x's.
  Tensor Logits(const Tensor& x, const ForwardContext& context);
  Routing Choose(const Tensor& logits) const;

  const RouterConfig& config() const { return config_; }
  // [E] in the accumulator type; absent without one. It is no weight: it has no gradient, and is
  // listed under its own name only to be loaded and saved.
  Parameter& correction_bias() { return correction_bias_; }

  // weight, bias, e_score_correction_bias.
  void Visit(ModuleVisitor& visitor) override;

 private:
  RouterConfig config_;
  Parameter correction_bias_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_ROUTER_H_
