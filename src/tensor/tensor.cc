#include "lorica/tensor/tensor.h"

#include <cstring>
#include <utility>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/check.h"

namespace lorica {

Tensor Tensor::Empty(Backend& backend, const Shape& shape, DType dtype) {
  for (int64_t d : shape) LORICA_CHECK(d >= 0, "[tensor] negative extent in ", shape);
  const size_t bytes = static_cast<size_t>(shape.numel()) * SizeOf(dtype);
  return Tensor(Storage::Allocate(backend, bytes), shape, ContiguousStrides(shape), 0, dtype);
}

Tensor Tensor::Zeros(Backend& backend, const Shape& shape, DType dtype) {
  return Full(backend, shape, dtype, 0);
}

Tensor Tensor::Full(Backend& backend, const Shape& shape, DType dtype, double value) {
  Tensor result = Empty(backend, shape, dtype);
  if (result.numel() > 0) backend.Fill(result.mutable_view(), value);
  return result;
}

Tensor Tensor::FromHostBytes(Backend& backend, const Shape& shape, DType dtype, const void* values,
                             size_t count) {
  LORICA_CHECK(static_cast<int64_t>(count) == shape.numel(), "[tensor] ", shape, " needs ",
               shape.numel(), " values, found ", count);
  Tensor result = Empty(backend, shape, dtype);
  if (count > 0) backend.CopyFromHost(values, result.mutable_view());
  return result;
}

TensorView Tensor::view() const {
  LORICA_CHECK(defined(), "[tensor] an undefined tensor has no values");
  const char* base = static_cast<const char*>(storage_->data());
  return {base + offset_ * static_cast<int64_t>(SizeOf(dtype_)), shape_, strides_, dtype_};
}

MutableTensorView Tensor::mutable_view() {
  LORICA_CHECK(defined(), "[tensor] an undefined tensor has no values");
  char* base = static_cast<char*>(storage_->mutable_data());
  return {base + offset_ * static_cast<int64_t>(SizeOf(dtype_)), shape_, strides_, dtype_};
}

std::vector<double> Tensor::ToDoubles() const {
  std::vector<double> values(static_cast<size_t>(numel()));
  if (values.empty()) return values;
  Tensor wide = Empty(backend(), shape_, DType::kF64);
  backend().Copy(view(), wide.mutable_view());
  backend().CopyToHost(wide.view(), values.data());
  return values;
}

double Tensor::item() const {
  LORICA_CHECK(defined() && numel() == 1, "[item] one element expected, found shape ", shape_);
  return ToDoubles()[0];
}

Tensor Tensor::WithShape(const Shape& shape) const {
  LORICA_CHECK(is_contiguous(), "[reshape] needs a contiguous tensor, found strides ", strides_);
  LORICA_CHECK(shape.numel() == numel(), "[reshape] ", shape_, " to ", shape,
               " changes the number of elements");
  Tensor result = Detach();
  result.shape_ = shape;
  result.strides_ = ContiguousStrides(shape);
  return result;
}

Tensor Tensor::Narrow(int axis, int64_t begin, int64_t length) const {
  LORICA_CHECK(begin >= 0 && length >= 0 && begin + length <= dim(axis), "[narrow] [", begin, ", ",
               begin + length, ") is outside of axis ", axis, " of ", shape_);
  Tensor result = Detach();
  result.shape_[axis] = length;
  result.offset_ += begin * strides_[axis];
  return result;
}

Tensor Tensor::Transpose(int axis_a, int axis_b) const {
  Tensor result = Detach();
  std::swap(result.shape_[axis_a], result.shape_[axis_b]);
  std::swap(result.strides_[axis_a], result.strides_[axis_b]);
  return result;
}

Tensor Tensor::Detach() const {
  Tensor result = *this;
  result.autograd_ = nullptr;
  return result;
}

namespace raw {

Tensor Contiguous(const Tensor& x) { return x.is_contiguous() ? x : Clone(x); }

Tensor Cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = Tensor::Empty(x.backend(), x.shape(), dtype);
  if (y.numel() > 0) x.backend().Copy(x.view(), y.mutable_view());
  return y;
}

Tensor Clone(const Tensor& x) {
  Tensor y = Tensor::Empty(x.backend(), x.shape(), x.dtype());
  if (y.numel() > 0) x.backend().Copy(x.view(), y.mutable_view());
  return y;
}

}  // namespace raw
}  // namespace lorica
