#include "lorica/nn/delta_net.h"

#include <cmath>
#include <vector>

#include "lorica/autograd/delta_rule.h"
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

DeltaNet::DeltaNet(const DeltaSizes& sizes, int64_t hidden, double norm_eps, DType compute)
    : sizes_(sizes),
      qkv_(Linear::Declare(sizes.channels(), hidden, false, compute)),
      z_(Linear::Declare(sizes.value_heads * sizes.value_head_dim, hidden, false, compute)),
      b_(Linear::Declare(sizes.value_heads, hidden, false, compute)),
      a_(Linear::Declare(sizes.value_heads, hidden, false, compute)),
      conv_(sizes.channels(), sizes.taps, compute),
      dt_bias_(Parameter::Declare({sizes.value_heads}, compute)),
      a_log_(Parameter::Declare({sizes.value_heads}, compute)),
      norm_(RmsNorm::Declare(sizes.value_head_dim, norm_eps, compute)),
      out_(Linear::Declare(hidden, sizes.value_heads * sizes.value_head_dim, false, compute)) {}

Tensor DeltaNet::Filter::Forward(const Tensor& x, const ForwardContext& context) {
  const int64_t tokens = x.dim(0), channels = x.dim(1), taps = weight_.shape()[2];
  // Tokens before a sequence are the row of zeros behind the last one.
  EmbeddingArgs shifted;
  const Tensor zeros = Tensor::Zeros(x.backend(), {1, channels}, x.dtype());
  shifted.table = Concat({x, zeros}, 0);
  // A value that takes part in the tape where the filter trains.
  const Weight weight = weight_.weight();
  const Tensor filter = Cast(weight.leaf.defined() ? weight.leaf : weight.value, x.dtype());
  Tensor sum;
  for (int64_t back = 0; back < taps; ++back) {
    std::vector<int32_t> rows(static_cast<size_t>(tokens), static_cast<int32_t>(tokens));
    for (int s = 0; s < context.sequences.groups(); ++s) {
      const int64_t begin = context.sequences.begin(s), end = begin + context.sequences.size(s);
      for (int64_t t = begin + back; t < end; ++t) rows[t] = static_cast<int32_t>(t - back);
    }
    const Tensor tap = Reshape(Narrow(filter, 2, taps - 1 - back, 1), {1, channels});
    const Tensor term = Mul(back == 0 ? x : lorica::Embedding(rows, shifted), tap);
    sum = back == 0 ? term : Add(sum, term);
  }
  return Silu(sum);
}

Tensor DeltaNet::Normalised(const Tensor& x, double factor) const {
  const double channels = static_cast<double>(x.dim(2));
  const Tensor weight =
      Tensor::Full(x.backend(), {x.dim(2)}, x.dtype(), factor / std::sqrt(channels));
  return lorica::RmsNorm(x, Weight(weight, Tensor()), kLengthEps / channels);
}

Tensor DeltaNet::Forward(const Tensor& x, const ForwardContext& context) {
  LORICA_CHECK(context.cache == nullptr, "[delta_net] decoding with a cache isn't supported");
  const int64_t tokens = x.dim(0), g = sizes_.key_heads, k = sizes_.key_head_dim;
  const int64_t h = sizes_.value_heads, v = sizes_.value_head_dim;
  const DType wide = AccumulatorOf(x.dtype());
  const auto of = [&](const Parameter& parameter) {
    const Weight weight = parameter.weight();
    return Cast(weight.leaf.defined() ? weight.leaf : weight.value, wide);
  };
  const Tensor mixed = Cast(conv_.Forward(qkv_.Forward(x, context), context), wide);
  const Tensor query = Reshape(Narrow(mixed, 1, 0, g * k), {tokens, g, k});
  const Tensor key = Reshape(Narrow(mixed, 1, g * k, g * k), {tokens, g, k});
  const Tensor value = Reshape(Narrow(mixed, 1, 2 * g * k, h * v), {tokens, h, v});
  const Tensor beta = Sigmoid(Cast(b_.Forward(x, context), wide));
  const Tensor rate = Softplus(Add(Cast(a_.Forward(x, context), wide), of(dt_bias_)));
  const Tensor decay = Neg(Mul(Exp(of(a_log_)), rate));
  const Tensor y = GatedDeltaRule(Normalised(query, 1 / std::sqrt(static_cast<double>(k))),
                                  Normalised(key, 1), value, decay, beta, context.sequences);
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
