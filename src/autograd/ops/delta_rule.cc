#include "lorica/autograd/delta_rule.h"

#include "lorica/autograd/op.h"
#include "lorica/autograd/ops/check_inputs.h"

namespace lorica {
namespace {

struct DeltaRuleOp : Op {
  static constexpr const char* kName = "gated_delta_rule";
  Sequences sequences;
  Saved q, k, v, g, beta;
  auto saved() const { return std::tie(q, k, v, g, beta); }

  Tensor Forward(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> x;
    for (const Tensor& input : inputs) x.push_back(raw::Contiguous(input));
    Tensor y = Tensor::Empty(x[2].backend(), x[2].shape(), x[2].dtype());
    if (y.numel() > 0) {
      y.backend().DeltaRule({.sequences = &sequences,
                             .q = x[0].view(),
                             .k = x[1].view(),
                             .v = x[2].view(),
                             .g = x[3].view(),
                             .beta = x[4].view(),
                             .y = y.mutable_view(),
                             .state = {}});
    }
    if (!needs_.empty()) {
      q = x[0];
      k = x[1];
      v = x[2];
      g = x[3];
      beta = x[4];
    }
    return y;
  }

  std::vector<Tensor> Backward(const Tensor& dy_any) const {
    const Tensor dy = raw::Contiguous(dy_any);
    const Saved* inputs[] = {&q, &k, &v, &g, &beta};
    std::vector<Tensor> grads;
    for (const Saved* input : inputs) {
      const Tensor x = input->get(kName);
      grads.push_back(Tensor::Empty(x.backend(), x.shape(), x.dtype()));
    }
    if (dy.numel() > 0) {
      dy.backend().DeltaRuleGrad({.sequences = &sequences,
                                  .q = q.get(kName).view(),
                                  .k = k.get(kName).view(),
                                  .v = v.get(kName).view(),
                                  .g = g.get(kName).view(),
                                  .beta = beta.get(kName).view(),
                                  .dy = dy.view(),
                                  .dq = grads[0].mutable_view(),
                                  .dk = grads[1].mutable_view(),
                                  .dv = grads[2].mutable_view(),
                                  .dg = grads[3].mutable_view(),
                                  .dbeta = grads[4].mutable_view()});
    }
    for (int i = 0; i < 5; ++i) {
      if (!needs(i)) grads[i] = Tensor();
    }
    return grads;
  }
};

void Check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
           const Sequences& sequences) {
  for (const Tensor* other : {&k, &v, &g, &beta}) ops::CheckSame("gated_delta_rule", q, *other);
  LORICA_CHECK(q.dtype() != DType::kBF16, "[gated_delta_rule] needs f32 or f64, found bf16");
  LORICA_CHECK(q.rank() == 3 && q.shape() == k.shape() && v.rank() == 3 && v.dim(0) == q.dim(0) &&
                   q.dim(1) > 0 && v.dim(1) % q.dim(1) == 0 && g.shape() == beta.shape() &&
                   g.shape() == Shape({v.dim(0), v.dim(1)}),
               "[gated_delta_rule] q and k [T, G, K], v [T, H, V], g and beta [T, H] expected, ",
               "found ", q.shape(), ", ", k.shape(), ", ", v.shape(), ", ", g.shape(), ", ",
               beta.shape());
  sequences.Check("gated_delta_rule", q.dim(0));
}

}  // namespace

Tensor GatedDeltaRule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                      const Tensor& beta, const Sequences& sequences) {
  Check(q, k, v, g, beta, sequences);
  DeltaRuleOp op;
  op.sequences = sequences;
  return ApplyList(std::move(op), {q, k, v, g, beta});
}

DeltaRuleStep ContinueDeltaRule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                const Tensor& beta, const Sequences& sequences,
                                const Tensor& state) {
  Check(q, k, v, g, beta, sequences);
  LORICA_CHECK(!GradEnabled(), "[gated_delta_rule] a state that goes on has no gradient");
  const Shape wanted = {sequences.groups(), v.dim(1), q.dim(2), v.dim(2)};
  LORICA_CHECK(state.dtype() == q.dtype() && state.shape() == wanted, "[gated_delta_rule] state ",
               state.dtype(), " ", state.shape(), ", expected ", q.dtype(), " ", wanted);
  DeltaRuleStep step = {Tensor::Empty(v.backend(), v.shape(), v.dtype()),
                        Tensor::Empty(v.backend(), wanted, state.dtype())};
  v.backend().Copy(state.view(), step.state.mutable_view());
  if (step.y.numel() == 0) return step;
  const Tensor x[] = {raw::Contiguous(q), raw::Contiguous(k), raw::Contiguous(v),
                      raw::Contiguous(g), raw::Contiguous(beta)};
  v.backend().DeltaRule({.sequences = &sequences,
                         .q = x[0].view(),
                         .k = x[1].view(),
                         .v = x[2].view(),
                         .g = x[3].view(),
                         .beta = x[4].view(),
                         .y = step.y.mutable_view(),
                         .state = step.state.mutable_view()});
  return step;
}

}  // namespace lorica
