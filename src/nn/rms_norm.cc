#include "lorica/nn/rms_norm.h"

#include <utility>

#include "lorica/autograd/ops.h"
#include "lorica/tensor/check.h"

namespace lorica::nn {

RmsNorm::RmsNorm(Parameter weight, double eps) : weight_(std::move(weight)), eps_(eps) {
  LORICA_CHECK(weight_.defined() && weight_.shape().rank() == 1,
               "[rms_norm] the weight must be [C], found ", weight_.shape());
}

RmsNorm RmsNorm::Declare(int64_t channels, double eps, DType compute) {
  return RmsNorm(Parameter::Declare({channels}, compute), eps);
}

Tensor RmsNorm::Forward(const Tensor& x, const ForwardContext& context) {
  return lorica::RmsNorm(x, weight_.weight(), eps_, &context.sequences);
}

void RmsNorm::Visit(ModuleVisitor& visitor) { visitor.OnParameter("weight", weight_); }

}  // namespace lorica::nn
