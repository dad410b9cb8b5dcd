#include "lorica/nn/grouped_linear.h"

#include <utility>

#include "lorica/tensor/check.h"

namespace lorica::nn {

GroupedLinear::GroupedLinear(Parameter weight, Parameter bias, Outputs outputs)
    : weight_(std::move(weight)), bias_(std::move(bias)), outputs_(outputs) {
  LORICA_CHECK(weight_.defined() && weight_.shape().rank() == 3,
               "[grouped_linear] the weight must be [E, out, in], found ", weight_.shape());
  const Shape& shape = weight_.shape();
  LORICA_CHECK(!bias_.defined() || bias_.shape() == Shape({shape[0], shape[1]}),
               "[grouped_linear] a weight ", shape, " with a bias ", bias_.shape());
  LORICA_CHECK(outputs_ == Outputs::kOne || shape[1] % 2 == 0,
               "[grouped_linear] gate and up need an even number of outputs, found ", shape[1]);
}

GroupedLinear GroupedLinear::Declare(int64_t groups, int64_t out, int64_t in, DType compute,
                                     bool with_bias, Outputs outputs) {
  return GroupedLinear(Parameter::Declare({groups, out, in}, compute),
                       with_bias ? Parameter::Declare({groups, out}, compute) : Parameter(),
                       outputs);
}

Tensor GroupedLinear::Forward(const Tensor& x, const RowOffsets& offsets,
                              const ForwardContext& context) {
  LORICA_CHECK(adapter_ == nullptr && !bias_.defined(),
               "[grouped_linear] an adapter or a bias needs a dispatch plan");
  return lorica::GroupedLinear(x, weight_.weight(), offsets);
}

GroupedProjection GroupedLinear::Projection(const ForwardContext& context,
                                            ExpertNumerics numerics) {
  GroupedProjection projection;
  projection.weight = weight_.weight();
  if (bias_.defined()) projection.bias = bias_.weight();
  if (adapter_ != nullptr) {
    projection.branch = &adapter_->Grouped(weight_.compute_dtype(), context.training,
                                           numerics == ExpertNumerics::kFast);
  }
  return projection;
}

void GroupedLinear::Visit(ModuleVisitor& visitor) { visitor.OnParameter("", weight_); }

}  // namespace lorica::nn
