#include <algorithm>

#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/check_inputs.h"

namespace lorica {
namespace {

// Keeps q, k, v, the result and the log of each softmax denominator; the probabilities are computed
// again. T. Dao et al., "FlashAttention", 2022.
//
// A sink z adds exp(z) to the denominator: with L = log(sum of exp(scores)) and L' = log(exp(L) +
// exp(z)) the result is multiplied by exp(L - L'). The backward pass for scores needs nothing but
// that result and L'; dz = -exp(z - L') dy · y, summed over tokens.
struct AttentionOp : Op {
  static constexpr const char* kName = "attention";
  AttentionOptions options;
  Saved q, k, v, o, lse;
  Tensor sink_value;  // [H]
  auto saved() const { return std::tie(q, k, v, o, lse); }

  Tensor Forward(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const Tensor&) {
    const Tensor qc = raw::Contiguous(q_in), kc = raw::Contiguous(k_in), vc = raw::Contiguous(v_in);
    const bool record = needs(0) || needs(1) || needs(2) || needs(3);
    Tensor y = Tensor::Empty(qc.backend(), {qc.dim(0), qc.dim(1), vc.dim(2)}, qc.dtype());
    Tensor sums;
    if (record || sink_value.defined()) {
      sums = Tensor::Empty(qc.backend(), {qc.dim(0), qc.dim(1)}, AccumulatorOf(qc.dtype()));
    }
    if (y.numel() > 0) {
      qc.backend().Attention({.spans = options.spans,
                              .scale = options.scale,
                              .causal = options.causal,
                              .window = options.window,
                              .softcap = options.softcap,
                              .q = qc.view(),
                              .k = kc.view(),
                              .v = vc.view(),
                              .o = y.mutable_view(),
                              .lse = sums.defined() ? sums.mutable_view() : MutableTensorView(),
                              .chosen = Chosen()});
      if (sink_value.defined()) AddSinks(y, sums);
    }
    if (record) {
      q = qc;
      k = kc;
      v = vc;
      o = y;
      lse = sums;
    }
    return y;
  }

  TensorView Chosen() const {
    return options.chosen.defined() ? options.chosen.view() : TensorView();
  }

  // Multiplies y [T, H, Dv] by the share that the scores keep and adds the sinks to `sums` [T, H].
  void AddSinks(Tensor& y, Tensor& sums) const {
    const NoGrad no_grad;
    const Tensor z = raw::Cast(sink_value, sums.dtype());
    // exp(L - L') = sigmoid(L - z); L' = L - log of that.
    const Tensor difference = Sub(sums, z);
    const int64_t rows = y.dim(0) * y.dim(1);
    const Tensor share = Sigmoid(difference);
    Tensor matrix = y.WithShape({rows, y.dim(2)});
    y.backend().ScaleRows(matrix.view(), share.WithShape({rows}).view(), matrix.mutable_view());
    // log(sigmoid(d)) without overflow: min(d, 0) - log(1 + exp(-|d|)).
    const Tensor negative = Neg(Relu(Neg(difference)));
    const Tensor magnitude = Add(Relu(difference), Relu(Neg(difference)));
    const Tensor log_share = Sub(negative, Log(Affine(Exp(Neg(magnitude)), 1, 1)));
    sums = Sub(sums, log_share);
  }

  // The gradient of the sinks, into their leaf.
  Tensor SinkGradient(const Tensor& dy) const {
    const NoGrad no_grad;
    const Tensor sums = lse.get(kName), y = o.get(kName);
    const Tensor z = raw::Cast(sink_value, sums.dtype());
    const Tensor product = Mul(raw::Cast(dy, sums.dtype()), raw::Cast(y, sums.dtype()));
    const Tensor dots = Reshape(SumAxis(product, 2), sums.shape());
    const Tensor per_token = Neg(Mul(Exp(Sub(z, sums)), dots));
    return Reshape(SumAxis(per_token, 0), {sums.dim(1)});
  }

  Grads<4> Backward(const Tensor& dy_any) const {
    const Tensor dy = raw::Contiguous(dy_any);
    const Tensor &qs = q.get(kName), &ks = k.get(kName), &vs = v.get(kName);
    Tensor dq = Tensor::Empty(qs.backend(), qs.shape(), qs.dtype());
    Tensor dk = Tensor::Empty(ks.backend(), ks.shape(), ks.dtype());
    Tensor dv = Tensor::Empty(vs.backend(), vs.shape(), vs.dtype());
    if (dy.numel() > 0) {
      dy.backend().AttentionGrad({.spans = options.spans,
                                  .scale = options.scale,
                                  .causal = options.causal,
                                  .window = options.window,
                                  .softcap = options.softcap,
                                  .q = qs.view(),
                                  .k = ks.view(),
                                  .v = vs.view(),
                                  .o = o.get(kName).view(),
                                  .lse = lse.get(kName).view(),
                                  .dy = dy.view(),
                                  .dq = dq.mutable_view(),
                                  .dk = dk.mutable_view(),
                                  .dv = dv.mutable_view(),
                                  .chosen = Chosen()});
    }
    return {needs(0) ? dq : Tensor(), needs(1) ? dk : Tensor(), needs(2) ? dv : Tensor(),
            needs(3) ? SinkGradient(dy) : Tensor()};
  }
};

void CheckSpans(const AttentionOptions& options, int64_t q_rows, int64_t k_rows, bool disjoint) {
  int64_t next_q = 0;
  std::vector<std::pair<int64_t, int64_t>> keys;
  for (size_t i = 0; i < options.spans.size(); ++i) {
    const AttentionSpan& s = options.spans[i];
    LORICA_CHECK(s.q_begin == next_q && s.q_length >= 0 && s.k_begin >= 0 && s.k_length >= 0 &&
                     s.k_begin + s.k_length <= k_rows,
                 "[attention] span ", i, ": query rows [", s.q_begin, ", ", s.q_begin + s.q_length,
                 ") and key rows [", s.k_begin, ", ", s.k_begin + s.k_length, ") of ", k_rows,
                 ", expected query rows from ", next_q);
    LORICA_CHECK(!options.causal || s.k_length >= s.q_length, "[attention] span ", i, ": ",
                 s.q_length, " causal queries on ", s.k_length, " keys");
    next_q += s.q_length;
    keys.emplace_back(s.k_begin, s.k_begin + s.k_length);
  }
  LORICA_CHECK(next_q == q_rows, "[attention] spans cover ", next_q, " query rows of ", q_rows);
  if (!disjoint) return;
  std::sort(keys.begin(), keys.end());
  int64_t next_k = 0;
  for (const auto& [begin, end] : keys) {
    LORICA_CHECK(begin == next_k, "[attention] training needs spans that cover each key row once; ",
                 "row ", next_k, " isn't");
    next_k = end;
  }
  LORICA_CHECK(next_k == k_rows, "[attention] spans cover ", next_k, " key rows of ", k_rows);
}

// Words of a block of 64 keys each, for the longest span.
int64_t ChosenWords(const std::vector<AttentionSpan>& spans) {
  int64_t longest = 0;
  for (const AttentionSpan& span : spans) longest = std::max(longest, span.k_length);
  return (longest + 63) / 64;
}

}  // namespace

Tensor Attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options) {
  ops::CheckSame("attention", q, k);
  ops::CheckSame("attention", q, v);
  LORICA_CHECK(q.rank() == 3 && k.rank() == 3 && v.rank() == 3 && q.dim(2) == k.dim(2) &&
                   k.dim(0) == v.dim(0) && k.dim(1) == v.dim(1),
               "[attention] q [T, H, D], k [S, G, D], v [S, G, Dv] expected, found ", q.shape(),
               ", ", k.shape(), ", ", v.shape());
  LORICA_CHECK(k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0, "[attention] ", q.dim(1),
               " query heads on ", k.dim(1), " key heads");
  LORICA_CHECK(options.softcap >= 0, "[attention] a cap of scores from 0 on expected, found ",
               options.softcap);
  const bool differentiates =
      GradEnabled() && (RequiresGrad(q) || RequiresGrad(k) || RequiresGrad(v));
  CheckSpans(options, q.dim(0), k.dim(0), differentiates);
  const Tensor& chosen = options.chosen;
  if (chosen.defined()) {
    LORICA_CHECK(chosen.dtype() == DType::kI64 && chosen.rank() == 2 && chosen.is_contiguous() &&
                     chosen.dim(0) == q.dim(0) && chosen.dim(1) >= ChosenWords(options.spans) &&
                     &chosen.backend() == &q.backend(),
                 "[attention] a choice i64 [", q.dim(0), ", ", ChosenWords(options.spans),
                 "] expected, found ", chosen.dtype(), " ", chosen.shape());
  }
  AttentionOp op;
  op.sink_value = options.sinks.value;
  if (op.sink_value.defined()) {
    LORICA_CHECK(op.sink_value.shape() == Shape({q.dim(1)}), "[attention] ", q.dim(1),
                 " sinks expected, found ", op.sink_value.shape());
  }
  const Tensor leaf = options.sinks.leaf;
  op.options = std::move(options);
  return Apply(std::move(op), q, k, v, leaf);
}

Tensor ChooseKeys(const Tensor& q, const Tensor& k, const Tensor& weights,
                  const std::vector<AttentionSpan>& spans, int64_t top_k) {
  ops::CheckSame("choose_keys", q, k);
  ops::CheckSame("choose_keys", q, weights);
  LORICA_CHECK(q.rank() == 3 && k.rank() == 3 && k.dim(1) == 1 && k.dim(2) == q.dim(2) &&
                   (k.dim(2) == 1 || k.strides()[2] == 1) &&
                   weights.shape() == Shape({q.dim(0), q.dim(1)}),
               "[choose_keys] q [T, H, D], k [S, 1, D], weights [T, H] expected, found ", q.shape(),
               ", ", k.shape(), ", ", weights.shape());
  LORICA_CHECK(top_k > 0, "[choose_keys] some keys must be left, found top_k ", top_k);
  AttentionOptions options;
  options.spans = spans;
  CheckSpans(options, q.dim(0), k.dim(0), false);
  const Tensor qc = raw::Contiguous(q), wc = raw::Contiguous(weights);
  Tensor chosen = Tensor::Empty(q.backend(), {q.dim(0), ChosenWords(spans)}, DType::kI64);
  if (chosen.numel() > 0) {
    q.backend().ChooseKeys({.spans = spans,
                            .top_k = top_k,
                            .q = qc.view(),
                            .k = k.view(),
                            .weights = wc.view(),
                            .chosen = chosen.mutable_view()});
  }
  return chosen;
}

}  // namespace lorica
