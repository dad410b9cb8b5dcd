#include "lorica/nn/rms_norm.h"

#include <limits>
#include <utility>

#include "lorica/autograd/ops.h"
#include "lorica/tensor/check.h"

namespace lorica::nn {

RmsNorm::RmsNorm(Parameter weight, double eps, bool offset)
    : weight_(std::move(weight)), eps_(eps), offset_(offset) {
  LORICA_CHECK(weight_.defined() && weight_.shape().rank() == 1,
               "[rms_norm] the weight must be [C], found ", weight_.shape());
}

RmsNorm RmsNorm::Declare(int64_t channels, double eps, DType compute, bool offset) {
  return RmsNorm(Parameter::Declare({channels}, compute), eps, offset);
}

Tensor RmsNorm::Forward(const Tensor& x, const ForwardContext& context) {
  if (x.rank() <= 2) {
    return lorica::RmsNorm(x, weight_.weight(), eps_, &context.sequences, offset_);
  }
  // The vectors of a token stand one behind the other.
  const int64_t heads = x.dim(1);
  LORICA_CHECK(context.tokens() * heads <= std::numeric_limits<int32_t>::max(), "[rms_norm] ",
               context.tokens(), " tokens of ", heads, " heads don't fit 31 bits");
  Sequences vectors = context.sequences;
  for (int32_t& offset : vectors.offsets) offset *= static_cast<int32_t>(heads);
  return lorica::RmsNorm(x, weight_.weight(), eps_, &vectors, offset_);
}

void RmsNorm::Visit(ModuleVisitor& visitor) { visitor.OnParameter("weight", weight_); }

}  // namespace lorica::nn
