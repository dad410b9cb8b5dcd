#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/check_inputs.h"

namespace lorica {
namespace {

Tensor SumToShape(const Tensor& x, const Shape& kept) {
  const Tensor in = raw::Contiguous(x);
  Tensor y = Tensor::Zeros(x.backend(), kept, x.dtype());
  if (x.numel() > 0) x.backend().SumTo(in.view(), y.mutable_view());
  return y;
}

// `x`, of the same rank as `shape` with some extents 1, repeated along them.
Tensor Expand(const Tensor& x, const Shape& shape) {
  Tensor y = Tensor::Empty(x.backend(), shape, x.dtype());
  TensorView view = x.view();
  for (int i = 0; i < shape.rank(); ++i) {
    if (x.dim(i) != shape[i]) view.strides[i] = 0;
  }
  view.shape = shape;
  if (y.numel() > 0) x.backend().Copy(view, y.mutable_view());
  return y;
}

struct SumOp : Op {
  static constexpr const char* kName = "sum";
  Shape from, kept, to;
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& x) {
    from = x.shape();
    return SumToShape(x, kept).WithShape(to);
  }
  Grads<1> Backward(const Tensor& dy) const { return {Expand(dy.WithShape(kept), from)}; }
};

// dx = y (dy - sum(dy y)), for the logarithm dy - exp(y) sum(dy).
struct SoftmaxOp : Op {
  static constexpr const char* kName = "softmax";
  bool log = false;
  Saved y;
  auto saved() const { return std::tie(y); }
  Tensor Forward(const Tensor& x) {
    const Tensor in = raw::Contiguous(x);
    Tensor result = Tensor::Empty(x.backend(), x.shape(), x.dtype());
    if (x.numel() > 0) x.backend().Softmax(in.view(), log, result.mutable_view());
    if (needs(0)) y = result;
    return result;
  }
  Grads<1> Backward(const Tensor& dy) const {
    Tensor dx = Tensor::Empty(dy.backend(), dy.shape(), dy.dtype());
    if (dx.numel() > 0) {
      dy.backend().SoftmaxGrad(y.get(kName).view(), dy.view(), log, dx.mutable_view());
    }
    return {dx};
  }
};

Tensor ApplySoftmax(const Tensor& x, bool log) {
  ops::CheckCompute("softmax", x);
  LORICA_CHECK(x.rank() >= 1, "[softmax] needs an axis");
  SoftmaxOp op;
  op.log = log;
  return Apply(std::move(op), x);
}

}  // namespace

Tensor Sum(const Tensor& x) {
  ops::CheckCompute("sum", x);
  SumOp op;
  op.kept = x.shape();
  for (int i = 0; i < x.rank(); ++i) op.kept[i] = 1;
  return Apply(std::move(op), x);
}

Tensor Mean(const Tensor& x) {
  ops::CheckCompute("mean", x);
  LORICA_CHECK(x.numel() > 0, "[mean] of no elements: shape ", x.shape());
  return Affine(Sum(x), 1.0 / static_cast<double>(x.numel()));
}

Tensor SumAxis(const Tensor& x, int axis) {
  ops::CheckCompute("sum", x);
  SumOp op;
  op.kept = x.shape();
  op.kept[axis] = 1;
  op.to = op.kept;
  return Apply(std::move(op), x);
}

Tensor Softmax(const Tensor& x) { return ApplySoftmax(x, false); }
Tensor LogSoftmax(const Tensor& x) { return ApplySoftmax(x, true); }

}  // namespace lorica
