#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"

namespace lorica {
namespace {

// Zeros of `shape` with `part` written at [begin, begin + its extent) of `axis`.
Tensor Embed(const Tensor& part, const Shape& shape, int axis, int64_t begin) {
  Tensor whole = Tensor::Zeros(part.backend(), shape, part.dtype());
  Tensor slot = whole.Narrow(axis, begin, part.dim(axis));
  if (part.numel() > 0) part.backend().Copy(part.view(), slot.mutable_view());
  return whole;
}

struct ReshapeOp : Op {
  static constexpr const char* kName = "reshape";
  Shape from, to;
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& x) { return raw::Contiguous(x).WithShape(to); }
  Grads<1> Backward(const Tensor& dy) const { return {dy.WithShape(from)}; }
};

struct TransposeOp : Op {
  static constexpr const char* kName = "transpose";
  int a = 0, b = 0;
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& x) { return raw::Contiguous(x.Transpose(a, b)); }
  Grads<1> Backward(const Tensor& dy) const { return {raw::Contiguous(dy.Transpose(a, b))}; }
};

struct NarrowOp : Op {
  static constexpr const char* kName = "narrow";
  int axis = 0;
  int64_t begin = 0, length = 0;
  Shape from;
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& x) { return raw::Contiguous(x.Narrow(axis, begin, length)); }
  Grads<1> Backward(const Tensor& dy) const { return {Embed(dy, from, axis, begin)}; }
};

struct ConcatOp : Op {
  static constexpr const char* kName = "concat";
  int axis = 0;
  std::vector<int64_t> extents;
  auto saved() const { return std::tie(); }
  Tensor Forward(const std::vector<Tensor>& parts) {
    Shape shape = parts[0].shape();
    shape[axis] = 0;
    for (const Tensor& part : parts) shape[axis] += part.dim(axis);
    Tensor y = Tensor::Empty(parts[0].backend(), shape, parts[0].dtype());
    int64_t begin = 0;
    for (const Tensor& part : parts) {
      Tensor slot = y.Narrow(axis, begin, part.dim(axis));
      if (part.numel() > 0) part.backend().Copy(part.view(), slot.mutable_view());
      extents.push_back(part.dim(axis));
      begin += part.dim(axis);
    }
    return y;
  }
  std::vector<Tensor> Backward(const Tensor& dy) const {
    std::vector<Tensor> grads(extents.size());
    int64_t begin = 0;
    for (size_t i = 0; i < extents.size(); ++i) {
      if (needs(static_cast<int>(i))) {
        grads[i] = raw::Contiguous(dy.Narrow(axis, begin, extents[i]));
      }
      begin += extents[i];
    }
    return grads;
  }
};

int Axis(const char* op, const Tensor& x, int axis) {
  LORICA_CHECK(x.defined(), "[", op, "] an input is undefined");
  const int index = axis < 0 ? axis + x.rank() : axis;
  LORICA_CHECK(index >= 0 && index < x.rank(), "[", op, "] axis ", axis, " of ", x.shape());
  return index;
}

}  // namespace

Tensor Reshape(const Tensor& x, const Shape& shape) {
  LORICA_CHECK(x.defined(), "[reshape] an input is undefined");
  LORICA_CHECK(shape.numel() == x.numel(), "[reshape] ", x.shape(), " to ", shape,
               " changes the number of elements");
  ReshapeOp op;
  op.from = x.shape();
  op.to = shape;
  return Apply(std::move(op), x);
}

Tensor Transpose(const Tensor& x, int axis_a, int axis_b) {
  TransposeOp op;
  op.a = Axis("transpose", x, axis_a);
  op.b = Axis("transpose", x, axis_b);
  return Apply(std::move(op), x);
}

Tensor Narrow(const Tensor& x, int axis, int64_t begin, int64_t length) {
  NarrowOp op;
  op.axis = Axis("narrow", x, axis);
  op.begin = begin;
  op.length = length;
  op.from = x.shape();
  return Apply(std::move(op), x);
}

Tensor Concat(const std::vector<Tensor>& parts, int axis) {
  LORICA_CHECK(!parts.empty(), "[concat] needs at least one tensor");
  ConcatOp op;
  op.axis = Axis("concat", parts[0], axis);
  for (const Tensor& part : parts) {
    LORICA_CHECK(
        part.defined() && part.rank() == parts[0].rank() && part.dtype() == parts[0].dtype(),
        "[concat] ranks or types differ");
    for (int i = 0; i < part.rank(); ++i) {
      LORICA_CHECK(i == op.axis || part.dim(i) == parts[0].dim(i),
                   "[concat] shapes differ off axis ", op.axis, ": ", parts[0].shape(), " and ",
                   part.shape());
    }
  }
  return ApplyList(std::move(op), parts);
}

}  // namespace lorica
