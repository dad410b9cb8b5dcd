#include "lorica/nn/delta_net.h"

#include <cmath>
#include <utility>
#include <vector>

#include "lorica/autograd/delta_rule.h"
#include "lorica/nn/kv_cache.h"
#include "lorica/tensor/check.h"

namespace lorica::nn {
namespace {

// Added to the squared length of queries and keys, as transformers does.
constexpr double kLengthEps = 1e-6;

// log(1 + exp(x)) without overflow.
Tensor Softplus(const Tensor& x) {
  const Tensor positive = Relu(x), magnitude = Add(positive, Relu(Neg(x)));
  return Add(positive, Log(Affine(Exp(Neg(magnitude)), 1, 1)));
}

}  // namespace

DeltaNet::DeltaNet(const DeltaSizes& sizes, int layer, int64_t hidden, double norm_eps,
                   DType compute)
    : sizes_(sizes),
      layer_(layer),
      qkv_(Linear::Declare(sizes.channels(), hidden, false, compute)),
      z_(Linear::Declare(sizes.value_heads * sizes.value_head_dim, hidden, false, compute)),
      b_(Linear::Declare(sizes.value_heads, hidden, false, compute)),
      a_(Linear::Declare(sizes.value_heads, hidden, false, compute)),
      conv_(sizes.channels(), sizes.taps, compute),
      dt_bias_(Parameter::Declare({sizes.value_heads}, compute)),
      a_log_(Parameter::Declare({sizes.value_heads}, compute)),
      norm_(RmsNorm::Declare(sizes.value_head_dim, norm_eps, compute)),
      out_(Linear::Declare(hidden, sizes.value_heads * sizes.value_head_dim, false, compute)) {}

Tensor DeltaNet::Filter::Table(const Tensor& x, const Tensor& tail) {
  return Concat({x, Reshape(tail, {tail.dim(0) * tail.dim(1), x.dim(1)})}, 0);
}

int32_t DeltaNet::Filter::Place(const Sequences& sequences, int sequence, int64_t index) const {
  if (index >= 0) return static_cast<int32_t>(sequences.begin(sequence) + index);
  const int64_t before = weight_.shape()[2] - 1;
  return static_cast<int32_t>(sequences.rows() + (sequence + 1) * before + index);
}

Tensor DeltaNet::Filter::Forward(const Tensor& x, const Tensor& table, const Sequences& sequences) {
  const int64_t channels = x.dim(1), taps = weight_.shape()[2];
  EmbeddingArgs shifted;
  shifted.table = table;
  // A value that takes part in the tape where the filter trains.
  const Weight weight = weight_.weight();
  const Tensor filter = Cast(weight.leaf.defined() ? weight.leaf : weight.value, x.dtype());
  const auto tap = [&](int64_t back) {
    return Reshape(Narrow(filter, 2, taps - 1 - back, 1), {1, channels});
  };
  Tensor sum = Mul(x, tap(0));
  for (int64_t back = 1; back < taps; ++back) {
    std::vector<int32_t> rows;
    rows.reserve(static_cast<size_t>(x.dim(0)));
    for (int s = 0; s < sequences.groups(); ++s) {
      for (int64_t i = 0; i < sequences.size(s); ++i) rows.push_back(Place(sequences, s, i - back));
    }
    sum = Add(sum, Mul(lorica::Embedding(rows, shifted), tap(back)));
  }
  return Silu(sum);
}

Tensor DeltaNet::Filter::NextTail(const Tensor& table, const Sequences& sequences) const {
  const int64_t before = weight_.shape()[2] - 1;
  std::vector<int32_t> rows;
  for (int s = 0; s < sequences.groups(); ++s) {
    for (int64_t back = before; back > 0; --back) {
      rows.push_back(Place(sequences, s, sequences.size(s) - back));
    }
  }
  EmbeddingArgs picked;
  picked.table = table;
  return Reshape(lorica::Embedding(rows, picked), {sequences.groups(), before, table.dim(1)});
}

Tensor DeltaNet::Normalised(const Tensor& x, double factor) const {
  const double channels = static_cast<double>(x.dim(2));
  const Tensor weight =
      Tensor::Full(x.backend(), {x.dim(2)}, x.dtype(), factor / std::sqrt(channels));
  return lorica::RmsNorm(x, Weight(weight, Tensor()), kLengthEps / channels);
}

Tensor DeltaNet::Forward(const Tensor& x, const ForwardContext& context) {
  const int64_t tokens = x.dim(0), g = sizes_.key_heads, k = sizes_.key_head_dim;
  const int64_t h = sizes_.value_heads, v = sizes_.value_head_dim;
  const DType wide = AccumulatorOf(x.dtype());
  const auto of = [&](const Parameter& parameter) {
    const Weight weight = parameter.weight();
    return Cast(weight.leaf.defined() ? weight.leaf : weight.value, wide);
  };
  const Sequences& sequences = context.sequences;
  const KvCache::State past = context.cache ? context.cache->state(layer_) : KvCache::State();
  const Tensor projected = qkv_.Forward(x, context);
  const Tensor tail =
      past.tail.defined()
          ? past.tail
          : Tensor::Zeros(x.backend(), {sequences.groups(), sizes_.taps - 1, sizes_.channels()},
                          projected.dtype());
  const Tensor table = Filter::Table(projected, tail);
  const Tensor mixed = Cast(conv_.Forward(projected, table, sequences), wide);
  const Tensor query = Normalised(Reshape(Narrow(mixed, 1, 0, g * k), {tokens, g, k}),
                                  1 / std::sqrt(static_cast<double>(k)));
  const Tensor key = Normalised(Reshape(Narrow(mixed, 1, g * k, g * k), {tokens, g, k}), 1);
  const Tensor value = Reshape(Narrow(mixed, 1, 2 * g * k, h * v), {tokens, h, v});
  const Tensor beta = Sigmoid(Cast(b_.Forward(x, context), wide));
  const Tensor rate = Softplus(Add(Cast(a_.Forward(x, context), wide), of(dt_bias_)));
  const Tensor decay = Neg(Mul(Exp(of(a_log_)), rate));
  Tensor y;
  if (context.cache == nullptr) {
    y = GatedDeltaRule(query, key, value, decay, beta, sequences);
  } else {
    DeltaRuleStep step = ContinueDeltaRule(query, key, value, decay, beta, sequences, past.matrix);
    y = step.y;
    context.cache->SetState(layer_, {conv_.NextTail(table, sequences), std::move(step.state)});
  }
  const Tensor gate = Reshape(z_.Forward(x, context), {tokens, h, v});
  const Tensor gated = SwiGlu(gate, norm_.Forward(Cast(y, x.dtype()), context));
  return out_.Forward(Reshape(gated, {tokens, h * v}), context);
}

void DeltaNet::Visit(ModuleVisitor& visitor) {
  visitor.OnChild("in_proj_qkv", qkv_);
  visitor.OnChild("in_proj_z", z_);
  visitor.OnChild("in_proj_b", b_);
  visitor.OnChild("in_proj_a", a_);
  visitor.OnChild("conv1d", conv_);
  visitor.OnParameter("dt_bias", dt_bias_);
  visitor.OnParameter("A_log", a_log_);
  visitor.OnChild("norm", norm_);
  visitor.OnChild("out_proj", out_);
}

}  // namespace lorica::nn
