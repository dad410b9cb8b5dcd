#include "lorica/nn/linear.h"

#include <utility>

#include "lorica/tensor/check.h"

namespace lorica::nn {

Linear::Linear(Parameter weight, Parameter bias)
    : weight_(std::make_shared<Parameter>(std::move(weight))), bias_(std::move(bias)) {
  LORICA_CHECK(weight_->defined() && weight_->shape().rank() == 2,
               "[linear] the weight must be [out, in], found ", weight_->shape());
  LORICA_CHECK(!bias_.defined() || bias_.shape() == Shape({weight_->shape()[0]}),
               "[linear] a weight ", weight_->shape(), " needs a bias [", weight_->shape()[0],
               "], found ", bias_.shape());
}

Linear::Linear(Tensor weight, Tensor bias)
    : Linear(Parameter(std::move(weight)), Parameter(std::move(bias))) {}

Linear Linear::Declare(int64_t out, int64_t in, bool with_bias, DType compute) {
  return Linear(Parameter::Declare({out, in}, compute),
                with_bias ? Parameter::Declare({out}, compute) : Parameter());
}

Linear Linear::Tied(std::shared_ptr<Parameter> weight) {
  LORICA_CHECK(weight != nullptr && weight->defined() && weight->shape().rank() == 2,
               "[linear] a tied weight must be [out, in]");
  Linear linear;
  linear.weight_ = std::move(weight);
  linear.tied_to_ = linear.weight_;
  return linear;
}

void Linear::Untie(Tensor values) {
  LORICA_CHECK(tied() && values.shape() == weight_->shape(), "[untie] a tied weight of shape ",
               weight_->shape(), " expected, found ", values.shape());
  weight_ = std::make_shared<Parameter>(std::move(values));
}

void Linear::Retie() {
  LORICA_CHECK(tied_to_ != nullptr, "[retie] this weight was never tied");
  weight_ = tied_to_;
}

LinearArgs Linear::Args(const ForwardContext& context) {
  LinearArgs args;
  args.weight = weight_->weight();
  if (bias_.defined()) args.bias = bias_.weight();
  if (adapter_ != nullptr) {
    args.branches = adapter_->Branches(weight_->compute_dtype(), context.training);
  }
  if (!context.spans.spans().empty()) args.spans = &context.spans;
  args.sequences = &context.sequences;
  args.row_keys = context.row_keys;
  return args;
}

Tensor Linear::Forward(const Tensor& x, const ForwardContext& context) {
  return lorica::Linear(x, Args(context));
}

void Linear::Visit(ModuleVisitor& visitor) {
  if (!tied()) visitor.OnParameter("weight", *weight_);
  if (bias_.defined()) visitor.OnParameter("bias", bias_);
}

}  // namespace lorica::nn
