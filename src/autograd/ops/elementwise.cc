#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/check_inputs.h"

namespace lorica {
namespace {

using ops::CheckCompute;
using ops::CheckSame;

// `x` read as `shape`: broadcast axes get stride 0.
TensorView BroadcastView(const Tensor& x, const Shape& shape) {
  TensorView view = x.view();
  Shape strides = shape;
  for (int i = 1; i <= shape.rank(); ++i) {
    const bool own = i <= x.rank() && x.dim(-i) == shape[-i];
    strides[-i] = own ? x.strides()[-i] : 0;
  }
  view.shape = shape;
  view.strides = strides;
  return view;
}

Tensor Binary(BinaryOp op, const char* name, const Tensor& a, const Tensor& b) {
  const Shape shape = BroadcastShapes(name, a.shape(), b.shape());
  Tensor y = Tensor::Empty(a.backend(), shape, a.dtype());
  if (y.numel() > 0) {
    a.backend().Binary(op, BroadcastView(a, shape), BroadcastView(b, shape), y.mutable_view());
  }
  y.set_placement(a.placement());
  return y;
}

Tensor Unary(UnaryOp op, const Tensor& x) {
  const Tensor in = raw::Contiguous(x);
  Tensor y = Tensor::Empty(x.backend(), x.shape(), x.dtype());
  if (y.numel() > 0) x.backend().Unary(op, in.view(), y.mutable_view());
  y.set_placement(x.placement());
  return y;
}

Tensor Scaled(const Tensor& x, double factor, double bias) {
  const Tensor in = raw::Contiguous(x);
  Tensor y = Tensor::Empty(x.backend(), x.shape(), x.dtype());
  if (y.numel() > 0) x.backend().Affine(in.view(), factor, bias, y.mutable_view());
  y.set_placement(x.placement());
  return y;
}

struct AddOp : Op {
  static constexpr const char* kName = "add";
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& a, const Tensor& b) { return Binary(BinaryOp::kAdd, kName, a, b); }
  Grads<2> Backward(const Tensor& dy) const {
    return {needs(0) ? dy : Tensor(), needs(1) ? dy : Tensor()};
  }
};

struct SubOp : Op {
  static constexpr const char* kName = "sub";
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& a, const Tensor& b) { return Binary(BinaryOp::kSub, kName, a, b); }
  Grads<2> Backward(const Tensor& dy) const {
    return {needs(0) ? dy : Tensor(), needs(1) ? Scaled(dy, -1, 0) : Tensor()};
  }
};

// Saves each operand only if the other one needs a gradient.
struct MulOp : Op {
  static constexpr const char* kName = "mul";
  Saved a, b;
  auto saved() const { return std::tie(a, b); }
  Tensor Forward(const Tensor& lhs, const Tensor& rhs) {
    if (needs(1)) a = lhs;
    if (needs(0)) b = rhs;
    return Binary(BinaryOp::kMul, kName, lhs, rhs);
  }
  Grads<2> Backward(const Tensor& dy) const {
    return {needs(0) ? Binary(BinaryOp::kMul, kName, dy, b.get(kName)) : Tensor(),
            needs(1) ? Binary(BinaryOp::kMul, kName, dy, a.get(kName)) : Tensor()};
  }
};

// d(a / b) = dy / b, -dy y / b with y = a / b.
struct DivOp : Op {
  static constexpr const char* kName = "div";
  Saved b, y;
  auto saved() const { return std::tie(b, y); }
  Tensor Forward(const Tensor& lhs, const Tensor& rhs) {
    const Tensor result = Binary(BinaryOp::kDiv, kName, lhs, rhs);
    if (needs(0) || needs(1)) b = rhs;
    if (needs(1)) y = result;
    return result;
  }
  Grads<2> Backward(const Tensor& dy) const {
    const Tensor da = Binary(BinaryOp::kDiv, kName, dy, b.get(kName));
    return {needs(0) ? da : Tensor(),
            needs(1) ? Scaled(Binary(BinaryOp::kMul, kName, da, y.get(kName)), -1, 0) : Tensor()};
  }
};

// The operand that won takes the gradient: step(a >= b) = 1 - relu'(b - a).
struct MaximumOp : Op {
  static constexpr const char* kName = "maximum";
  Saved difference;  // b - a
  auto saved() const { return std::tie(difference); }
  Tensor Forward(const Tensor& a, const Tensor& b) {
    if (needs(0) || needs(1)) difference = Binary(BinaryOp::kSub, kName, b, a);
    return Binary(BinaryOp::kMax, kName, a, b);
  }
  Grads<2> Backward(const Tensor& dy) const {
    const Tensor& d = difference.get(kName);
    Tensor db = Tensor::Empty(dy.backend(), dy.shape(), dy.dtype());
    if (db.numel() > 0) {
      dy.backend().UnaryGrad(UnaryOp::kRelu, d.view(), dy.view(), db.mutable_view());
    }
    return {needs(0) ? Binary(BinaryOp::kSub, kName, dy, db) : Tensor(), needs(1) ? db : Tensor()};
  }
};

struct UnaryOpNode : Op {
  static constexpr const char* kName = "unary";
  UnaryOp op;
  Saved x;
  auto saved() const { return std::tie(x); }
  Tensor Forward(const Tensor& input) {
    if (needs(0)) x = raw::Contiguous(input);
    return Unary(op, input);
  }
  Grads<1> Backward(const Tensor& dy) const {
    Tensor dx = Tensor::Empty(dy.backend(), dy.shape(), dy.dtype());
    if (dx.numel() > 0) {
      dy.backend().UnaryGrad(op, x.get(kName).view(), dy.view(), dx.mutable_view());
    }
    return {dx};
  }
};

struct AffineOp : Op {
  static constexpr const char* kName = "affine";
  double factor = 1, bias = 0;
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& x) { return Scaled(x, factor, bias); }
  Grads<1> Backward(const Tensor& dy) const { return {Scaled(dy, factor, 0)}; }
};

struct CastOp : Op {
  static constexpr const char* kName = "cast";
  DType target = DType::kF32;
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& x) { return raw::Cast(x, target); }
  // The engine converts a gradient to the type of the value it belongs to.
  Grads<1> Backward(const Tensor& dy) const { return {dy}; }
};

struct DropoutOp : Op {
  static constexpr const char* kName = "dropout";
  DropoutArgs args;
  auto saved() const { return std::tie(); }
  Tensor Run(const Tensor& x) const {
    const Tensor in = ops::AsMatrix(x);
    Tensor y = Tensor::Empty(x.backend(), in.shape(), x.dtype());
    if (y.numel() > 0) {
      x.backend().Dropout(in.view(), {args.rate, args.key, *args.row_keys}, y.mutable_view());
    }
    return y.WithShape(x.shape());
  }
  Tensor Forward(const Tensor& x) { return Run(x); }
  Grads<1> Backward(const Tensor& dy) const { return {Run(dy)}; }
};

Tensor ApplyUnary(UnaryOp op, const Tensor& x, const char* name) {
  CheckCompute(name, x);
  UnaryOpNode node;
  node.op = op;
  return Apply(std::move(node), x);
}

}  // namespace

Tensor Add(const Tensor& a, const Tensor& b) {
  ops::CheckSameOrWider("add", a, b);
  return Apply(AddOp{}, a, b);
}
Tensor Sub(const Tensor& a, const Tensor& b) {
  CheckSame("sub", a, b);
  return Apply(SubOp{}, a, b);
}
Tensor Mul(const Tensor& a, const Tensor& b) {
  CheckSame("mul", a, b);
  return Apply(MulOp{}, a, b);
}
Tensor Div(const Tensor& a, const Tensor& b) {
  CheckSame("div", a, b);
  return Apply(DivOp{}, a, b);
}
Tensor Maximum(const Tensor& a, const Tensor& b) {
  CheckSame("maximum", a, b);
  return Apply(MaximumOp{}, a, b);
}

Tensor Neg(const Tensor& x) { return ApplyUnary(UnaryOp::kNeg, x, "neg"); }
Tensor Exp(const Tensor& x) { return ApplyUnary(UnaryOp::kExp, x, "exp"); }
Tensor Log(const Tensor& x) { return ApplyUnary(UnaryOp::kLog, x, "log"); }
Tensor Sqrt(const Tensor& x) { return ApplyUnary(UnaryOp::kSqrt, x, "sqrt"); }
Tensor Square(const Tensor& x) { return ApplyUnary(UnaryOp::kSquare, x, "square"); }
Tensor Sigmoid(const Tensor& x) { return ApplyUnary(UnaryOp::kSigmoid, x, "sigmoid"); }
Tensor Tanh(const Tensor& x) { return ApplyUnary(UnaryOp::kTanh, x, "tanh"); }
Tensor Relu(const Tensor& x) { return ApplyUnary(UnaryOp::kRelu, x, "relu"); }
Tensor Silu(const Tensor& x) { return ApplyUnary(UnaryOp::kSilu, x, "silu"); }
Tensor Gelu(const Tensor& x) { return ApplyUnary(UnaryOp::kGelu, x, "gelu"); }
Tensor GeluTanh(const Tensor& x) { return ApplyUnary(UnaryOp::kGeluTanh, x, "gelu_tanh"); }

Tensor SoftCap(const Tensor& x, double cap) {
  LORICA_CHECK(cap > 0, "[soft_cap] a positive cap expected, found ", cap);
  return Affine(Tanh(Affine(x, 1 / cap)), cap);
}

Tensor Affine(const Tensor& x, double factor, double bias) {
  CheckCompute("affine", x);
  AffineOp op;
  op.factor = factor;
  op.bias = bias;
  return Apply(std::move(op), x);
}

Tensor Cast(const Tensor& x, DType dtype) {
  CheckCompute("cast", x);
  LORICA_CHECK(IsCompute(dtype), "[cast] to ", dtype, " has no gradient; use raw::Cast");
  if (x.dtype() == dtype) return x;
  CastOp op;
  op.target = dtype;
  return Apply(std::move(op), x);
}

Tensor Dropout(const Tensor& x, const DropoutArgs& args) {
  CheckCompute("dropout", x);
  LORICA_CHECK(args.rate >= 0 && args.rate < 1, "[dropout] rate must lie in [0, 1), found ",
               args.rate);
  if (args.rate == 0) return x;
  LORICA_CHECK(
      args.row_keys != nullptr && static_cast<int64_t>(args.row_keys->size()) == x.shape().rows(),
      "[dropout] one key per row expected for ", x.shape());
  DropoutOp op;
  op.args = args;
  return Apply(std::move(op), x);
}

}  // namespace lorica
