// nn::RmsNorm: y = x / sqrt(mean(x²) + eps) * weight over the last axis.
#ifndef LORICA_NN_RMS_NORM_H_
#define LORICA_NN_RMS_NORM_H_

#include <cstdint>

#include "lorica/nn/forward_context.h"
#include "lorica/nn/module.h"

namespace lorica::nn {

class RmsNorm : public Module {
 public:
  // `weight` [C]. With `offset` the factor is 1 + weight, in the accumulator type.
  RmsNorm(Parameter weight, double eps, bool offset = false);
  static RmsNorm Declare(int64_t channels, double eps, DType compute, bool offset = false);

  // x [T, C] or [T, H, C], rows being the context's tokens; each vector of C is normed by itself.
  Tensor Forward(const Tensor& x, const ForwardContext& context);

  void Visit(ModuleVisitor& visitor) override;
  Parameter& weight() { return weight_; }

 private:
  Parameter weight_;
  double eps_;
  bool offset_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_RMS_NORM_H_
