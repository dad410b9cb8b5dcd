#include "lorica/nn/indexer.h"

#include "lorica/autograd/autograd.h"

namespace lorica::nn {
namespace {

// Of the norm of keys, whatever the model's others have.
constexpr double kNormEps = 1e-6;

}  // namespace

Indexer::Indexer(const IndexerSizes& sizes, int64_t hidden, int64_t q_lora_rank, DType compute)
    : sizes_(sizes),
      q_(sizes.heads * sizes.head_dim, q_lora_rank, compute),
      k_(sizes.head_dim, hidden, compute),
      weights_(sizes.heads, hidden, compute),
      k_norm_(sizes.head_dim, compute) {}

Tensor Indexer::KeyNorm::Forward(const Tensor& x) const {
  // What is centred has its variance as its mean square.
  const Tensor wide = Cast(x, AccumulatorOf(x.dtype()));
  const Tensor mean = Affine(SumAxis(wide, 1), 1.0 / static_cast<double>(x.dim(1)));
  return Add(lorica::RmsNorm(Sub(wide, mean), weight_.weight(), kNormEps), bias_.value());
}

Tensor Indexer::Rotated(const Tensor& x, const RotaryRows& rotary) const {
  RopeTable table = rotary.table;
  table.interleaved = sizes_.interleaved;
  return Rope(x, table, rotary.rows);
}

Tensor Indexer::Keys(const Tensor& x, const RotaryRows& rotary, const ForwardContext& context) {
  const NoGrad no_grad;
  const Tensor keys = k_norm_.Forward(k_.Forward(x, context));
  return Rotated(Reshape(keys, {x.dim(0), 1, sizes_.head_dim}), rotary);
}

Tensor Indexer::Choose(const Tensor& x, const Tensor& q_latent, const Tensor& keys,
                       const std::vector<AttentionSpan>& spans, const RotaryRows& rotary,
                       const ForwardContext& context) {
  const NoGrad no_grad;
  const Tensor q =
      Reshape(q_.Forward(q_latent, context), {x.dim(0), sizes_.heads, sizes_.head_dim});
  return ChooseKeys(Rotated(q, rotary), keys, weights_.Forward(x, context), spans, sizes_.top_k);
}

void Indexer::Visit(ModuleVisitor& visitor) {
  visitor.OnChild("wq_b", q_);
  visitor.OnChild("wk", k_);
  visitor.OnChild("k_norm", k_norm_);
  visitor.OnChild("weights_proj", weights_);
}

}  // namespace lorica::nn
