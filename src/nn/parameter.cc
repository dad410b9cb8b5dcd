#include "lorica/nn/parameter.h"

#include <utility>

#include "lorica/autograd/autograd.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/check.h"

namespace lorica {

Parameter Parameter::Declare(const Shape& shape, DType compute) {
  LORICA_CHECK(IsCompute(compute), "[parameter] ", compute, " is no compute type");
  for (int64_t extent : shape) {
    LORICA_CHECK(extent >= 0, "[parameter] negative extent in ", shape);
  }
  Parameter parameter;
  parameter.defined_ = true;
  parameter.shape_ = shape;
  parameter.compute_ = compute;
  return parameter;
}

Parameter::Parameter(Tensor values) {
  if (!values.defined()) return;
  *this = Declare(values.shape(), values.dtype());
  Assign(values);
}

Parameter Parameter::DeclareBuffer(const Shape& shape, DType compute) {
  Parameter parameter = DeclareFrozen(shape, compute);
  parameter.buffer_ = true;
  return parameter;
}

Parameter Parameter::DeclareFrozen(const Shape& shape, DType compute) {
  Parameter parameter = Declare(shape, compute);
  parameter.differentiable_ = false;
  return parameter;
}

void Parameter::MakeTrainable() {
  if (!differentiable_ || trainable()) return;
  LORICA_CHECK(value_.defined(), "[parameter] a parameter of shape ", shape_,
               " has no values to train yet");
  const DType type = AccumulatorOf(compute_);
  if (type != compute_) {
    master_ = raw::Cast(value_, type);
  } else {
    // Sole owner of writable bytes: they become the master as they are, which spares a full
    // training run one copy of the model.
    const bool sole = value_.storage().use_count() == 1 && !value_.storage()->read_only();
    master_ = sole ? std::move(value_) : raw::Clone(value_);
    value_ = master_;
  }
  value_version_ = master_.storage()->version();
  SetRequiresGrad(master_, true);
}

void Parameter::Freeze() {
  if (!trainable()) return;
  value();
  master_ = Tensor();
}

const Tensor& Parameter::value() const {
  LORICA_CHECK(has_values(), "[parameter] a parameter of shape ", shape_, " has no values yet");
  if (!trainable() || compute_ == master_.dtype()) return value_;
  const uint64_t version = master_.storage()->version();
  if (version == value_version_) return value_;
  // Written in place, so that a packed form is found again under its storage's id; but never under
  // the feet of someone who holds the old values.
  if (value_.storage().use_count() > 1 || value_.storage()->read_only()) {
    value_ = Tensor::Empty(master_.backend(), shape_, compute_);
  }
  if (numel() > 0) master_.backend().Copy(master_.view(), value_.mutable_view());
  value_version_ = version;
  return value_;
}

void Parameter::Assign(const Tensor& values) {
  LORICA_CHECK(defined_, "[parameter] an absent parameter takes no values");
  LORICA_CHECK(values.defined() && values.shape() == shape_ && values.dtype() == compute_,
               "[parameter] expected ", compute_, " values of shape ", shape_, ", found ",
               values.dtype(), " ", values.shape());
  LORICA_CHECK(values.is_contiguous(), "[parameter] values of shape ", shape_,
               " must be contiguous");
  if (!trainable()) {
    value_ = values.Detach();
  } else if (numel() > 0) {
    master_.backend().Copy(values.view(), master_.mutable_view());
  }
}

}  // namespace lorica
