#include "lorica/autograd/ops/gated_activation.h"

#include "lorica/autograd/ops.h"

namespace lorica::ops {
namespace {

// Where x equals the bound the gradient goes to the bound.
Tensor AtLeast(const Tensor& x, double bound) {
  return Maximum(Tensor::Full(x.backend(), {1, 1}, x.dtype(), bound), x);
}
Tensor AtMost(const Tensor& x, double bound) { return Neg(AtLeast(Neg(x), -bound)); }

Tensor Activated(const Tensor& h, const GatedActivation& f) {
  if (f.kind == GatedActivation::Kind::kRelu2) return Square(Relu(h));
  auto [gate, up] = SplitGate(h, f.interleaved);
  if (f.limit > 0) {
    gate = AtMost(gate, f.limit);
    up = AtLeast(AtMost(up, f.limit), -f.limit);
  }
  if (f.kind == GatedActivation::Kind::kGeluTanh) return Mul(GeluTanh(gate), up);
  if (f.slope == 1 && f.offset == 0) return Mul(Silu(gate), up);
  return Mul(Mul(gate, Sigmoid(Affine(gate, f.slope))), Affine(up, 1, f.offset));
}

}  // namespace

GateAndUp SplitGate(const Tensor& h, bool interleaved) {
  const int64_t rows = h.dim(0), width = h.dim(1) / 2;
  if (!interleaved) return {Narrow(h, 1, 0, width), Narrow(h, 1, width, width)};
  const Tensor pairs = Reshape(h, {rows, width, 2});
  return {Reshape(Narrow(pairs, 2, 0, 1), {rows, width}),
          Reshape(Narrow(pairs, 2, 1, 1), {rows, width})};
}

Tensor StepwiseActivation(const Tensor& h, const Tensor& factor, const GatedActivation& f) {
  const DType type = h.dtype(), wide = AccumulatorOf(type);
  const bool in_wide = f.kind == GatedActivation::Kind::kSigmoid && !f.interleaved &&
                       (f.limit > 0 || f.offset != 0 || f.slope != 1);
  Tensor y = Activated(in_wide ? Cast(h, wide) : h, f);
  if (factor.defined()) y = Mul(Cast(y, wide), factor);
  return Cast(y, type);
}

}  // namespace lorica::ops
