// RMSNorm, gated activations, rotary embedding.
#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/check_inputs.h"

namespace lorica {
namespace {

// With r = rstd, n = x r: dx = r (g - n mean(g n)), g = dy weight; dw = sum over tokens of dy n.
struct RmsNormOp : Op {
  static constexpr const char* kName = "rms_norm";
  double eps = 0;
  Saved x, rstd, weight;
  Sequences sequences;
  Tensor weight_value, weight_leaf;
  DType y_dtype = DType::kF32;
  auto saved() const { return std::tie(x, rstd, weight); }

  Tensor Run(const Tensor& rows, const Tensor& w, Tensor& r) const {
    Tensor y = Tensor::Empty(rows.backend(), rows.shape(), y_dtype);
    if (y.numel() > 0) {
      rows.backend().RmsNorm(rows.view(), w.view(), eps, y.mutable_view(), r.mutable_view());
    }
    return y;
  }

  Tensor Forward(const Tensor& input, const Tensor&) {
    const Tensor rows = ops::AsMatrix(input);
    Tensor r = Tensor::Empty(rows.backend(), {rows.dim(0)}, AccumulatorOf(rows.dtype()));
    const Tensor y = Run(rows, weight_value, r);
    if (needs(0) || needs(1)) {
      x = rows;
      rstd = r;
      weight = weight_value;
    }
    weight_value = Tensor();
    return y.WithShape(input.shape());
  }

  // One pass over x is cheaper than keeping y.
  Tensor Recreate() const {
    const Tensor rows = x.get(kName);
    Tensor r = Tensor::Empty(rows.backend(), {rows.dim(0)}, AccumulatorOf(rows.dtype()));
    return Run(rows, weight.get(kName), r);
  }

  Grads<2> Backward(const Tensor& dy_any) const {
    const Tensor dy = ops::AsMatrix(dy_any);
    const Tensor rows = x.get(kName), r = rstd.get(kName);
    Grads<2> grads;
    if (needs(0)) {
      Tensor dx = Tensor::Empty(dy.backend(), dy.shape(), rows.dtype());
      if (dx.numel() > 0) {
        dy.backend().RmsNormGrad(rows.view(), weight.get(kName).view(), r.view(), dy.view(),
                                 dx.mutable_view());
      }
      grads[0] = dx.WithShape(dy_any.shape());
    }
    if (needs(1)) {
      ops::WeightGradient sum(weight_leaf);
      if (dy.numel() > 0) {
        dy.backend().RmsNormWeightGrad(rows.view(), r.view(), dy.view(), sequences, sum.view());
      }
      grads[1] = sum.Result();
    }
    return grads;
  }
};

struct SwiGluOp : Op {
  static constexpr const char* kName = "swiglu";
  Saved gate, up;
  auto saved() const { return std::tie(gate, up); }

  static Tensor Run(const Tensor& g, const Tensor& u) {
    Tensor y = Tensor::Empty(g.backend(), g.shape(), g.dtype());
    if (y.numel() > 0) g.backend().SwiGlu(g.view(), u.view(), y.mutable_view());
    return y;
  }
  Tensor Forward(const Tensor& g, const Tensor& u) {
    const Tensor gc = raw::Contiguous(g), uc = raw::Contiguous(u);
    if (needs(0) || needs(1)) {
      gate = gc;
      up = uc;
    }
    return Run(gc, uc);
  }
  // One pass over gate and up is cheaper than keeping y, the widest value of a block.
  Tensor Recreate() const { return Run(gate.get(kName), up.get(kName)); }

  Grads<2> Backward(const Tensor& dy) const {
    Tensor dg = Tensor::Empty(dy.backend(), dy.shape(), dy.dtype());
    Tensor du = Tensor::Empty(dy.backend(), dy.shape(), dy.dtype());
    if (dg.numel() > 0) {
      dy.backend().SwiGluGrad(gate.get(kName).view(), up.get(kName).view(), dy.view(),
                              dg.mutable_view(), du.mutable_view());
    }
    return {needs(0) ? dg : Tensor(), needs(1) ? du : Tensor()};
  }
};

// Composed of the backend's elementwise kernels, but saving no more than SwiGlu.
struct GeGluOp : Op {
  static constexpr const char* kName = "geglu";
  UnaryOp gelu = UnaryOp::kGelu;
  Saved gate, up;
  auto saved() const { return std::tie(gate, up); }

  // gelu(g) * factor.
  Tensor Run(const Tensor& g, const Tensor& factor) const {
    Tensor y = Tensor::Empty(g.backend(), g.shape(), g.dtype());
    if (y.numel() > 0) {
      g.backend().Unary(gelu, g.view(), y.mutable_view());
      g.backend().Binary(BinaryOp::kMul, y.view(), factor.view(), y.mutable_view());
    }
    return y;
  }
  Tensor Forward(const Tensor& g, const Tensor& u) {
    const Tensor gc = raw::Contiguous(g), uc = raw::Contiguous(u);
    if (needs(0) || needs(1)) {
      gate = gc;
      up = uc;
    }
    return Run(gc, uc);
  }
  Tensor Recreate() const { return Run(gate.get(kName), up.get(kName)); }

  Grads<2> Backward(const Tensor& dy_any) const {
    const Tensor dy = raw::Contiguous(dy_any);
    const Tensor &g = gate.get(kName), &u = up.get(kName);
    Grads<2> grads;
    if (needs(0)) {
      Tensor dg = Tensor::Empty(dy.backend(), dy.shape(), dy.dtype());
      if (dg.numel() > 0) {
        dy.backend().Binary(BinaryOp::kMul, dy.view(), u.view(), dg.mutable_view());
        dy.backend().UnaryGrad(gelu, g.view(), dg.view(), dg.mutable_view());
      }
      grads[0] = dg;
    }
    if (needs(1)) grads[1] = Run(g, dy);
    return grads;
  }
};

// A rotation; its gradient is the inverse rotation.
struct RopeOp : Op {
  static constexpr const char* kName = "rope";
  RopeTable table;
  std::vector<int32_t> positions;
  auto saved() const { return std::tie(); }

  Tensor Run(const Tensor& x, bool inverse) const {
    const Tensor in = raw::Contiguous(x);
    Tensor y = Tensor::Empty(x.backend(), x.shape(), x.dtype());
    if (y.numel() > 0) {
      x.backend().Rope({.x = in.view(),
                        .positions = positions,
                        .cos = table.cos.view(),
                        .sin = table.sin.view(),
                        .interleaved = table.interleaved,
                        .inverse = inverse,
                        .y = y.mutable_view()});
    }
    return y;
  }
  Tensor Forward(const Tensor& x) { return Run(x, false); }
  Grads<1> Backward(const Tensor& dy) const { return {Run(dy, true)}; }
};

}  // namespace

Tensor RmsNorm(const Tensor& x, const Weight& weight, double eps, const Sequences* sequences,
               bool offset) {
  ops::CheckSameOrWider("rms_norm", x, weight.value);
  LORICA_CHECK(weight.value.shape() == Shape({x.dim(-1)}), "[rms_norm] weight ",
               weight.value.shape(), " for x ", x.shape());
  RmsNormOp op;
  op.eps = eps;
  op.y_dtype = weight.value.dtype();
  op.weight_value = raw::Contiguous(weight.value);
  if (offset) {
    // In bf16 most of a small weight would be lost beside the 1. The gradient is that of the sum.
    const NoGrad no_grad;
    op.weight_value = Affine(raw::Cast(op.weight_value, AccumulatorOf(op.y_dtype)), 1, 1);
  }
  op.weight_leaf = weight.leaf;
  op.sequences = ops::SequencesOrSingle("rms_norm", sequences, x.shape().rows());
  return Apply(std::move(op), x, weight.leaf);
}

Tensor SwiGlu(const Tensor& gate, const Tensor& up) {
  ops::CheckSame("swiglu", gate, up);
  LORICA_CHECK(gate.shape() == up.shape(), "[swiglu] shapes differ: ", gate.shape(), " and ",
               up.shape());
  return Apply(SwiGluOp{}, gate, up);
}

Tensor GeGlu(const Tensor& gate, const Tensor& up, bool tanh_form) {
  ops::CheckSame("geglu", gate, up);
  LORICA_CHECK(gate.shape() == up.shape(), "[geglu] shapes differ: ", gate.shape(), " and ",
               up.shape());
  GeGluOp op;
  op.gelu = tanh_form ? UnaryOp::kGeluTanh : UnaryOp::kGelu;
  return Apply(std::move(op), gate, up);
}

Tensor Rope(const Tensor& x, const RopeTable& table, absl::Span<const int32_t> positions) {
  ops::CheckCompute("rope", x);
  LORICA_CHECK(x.rank() == 3, "[rope] x [T, H, D] expected, found ", x.shape());
  LORICA_CHECK(table.cos.defined() && table.cos.rank() == 2 &&
                   table.cos.shape() == table.sin.shape() && 2 * table.cos.dim(1) <= x.dim(2) &&
                   table.cos.dtype() == AccumulatorOf(x.dtype()),
               "[rope] table [positions, rotated / 2] of type ", AccumulatorOf(x.dtype()),
               " expected for x ", x.shape());
  LORICA_CHECK(static_cast<int64_t>(positions.size()) == x.dim(0), "[rope] ", positions.size(),
               " positions for ", x.dim(0), " tokens");
  for (int32_t p : positions) {
    LORICA_CHECK(p >= 0 && p < table.cos.dim(0), "[rope] position ", p, ", the table has ",
                 table.cos.dim(0));
  }
  RopeOp op;
  op.table = table;
  op.positions.assign(positions.begin(), positions.end());
  return Apply(std::move(op), x);
}

}  // namespace lorica
