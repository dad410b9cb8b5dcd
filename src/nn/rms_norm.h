// nn::RmsNorm: y = x / sqrt(mean(x²) + eps) * weight over the last axis.
#ifndef LORICA_NN_RMS_NORM_H_
#define LORICA_NN_RMS_NORM_H_

#include <cstdint>

#include "lorica/nn/forward_context.h"
#include "lorica/nn/module.h"

namespace lorica::nn {

class RmsNorm : public Module {
 public:
  // `weight` [C].
  RmsNorm(Parameter weight, double eps);
  static RmsNorm Declare(int64_t channels, double eps, DType compute);

  // x [T, C] -> [T, C].
  Tensor Forward(const Tensor& x, const ForwardContext& context);

  void Visit(ModuleVisitor& visitor) override;
  Parameter& weight() { return weight_; }

 private:
  Parameter weight_;
  double eps_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_RMS_NORM_H_
