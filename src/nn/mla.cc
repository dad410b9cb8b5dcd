#include "lorica/nn/mla.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/kept_choice.h"
#include "lorica/nn/mla_absorbed.h"
#include "lorica/tensor/check.h"

namespace lorica::nn {

MlaConfig MlaConfigOf(const ModelConfig& config) {
  MlaConfig mla;
  mla.hidden = config.hidden_size;
  mla.heads = config.heads;
  mla.q_lora_rank = config.latent.q_lora_rank;
  mla.kv_lora_rank = config.latent.kv_lora_rank;
  mla.qk_nope_head_dim = config.latent.qk_nope_head_dim;
  mla.qk_rope_head_dim = config.latent.qk_rope_head_dim;
  mla.v_head_dim = config.latent.v_head_dim;
  mla.bias = config.o_bias;
  mla.indexer = config.indexer;
  return mla;
}

KvCacheConfig MlaCacheConfig(const MlaConfig& config, int layers, DType compute) {
  KvCacheConfig cache;
  cache.layers = layers;
  cache.kv_heads = 1;
  cache.key_channels = config.kv_lora_rank + config.qk_rope_head_dim + config.indexer.head_dim;
  cache.value_channels = 0;
  cache.dtype = compute;
  return cache;
}

MlaAttention::MlaAttention(const MlaConfig& config, std::shared_ptr<Rotary> rotary, DType compute,
                           std::shared_ptr<KeyChoice> choice)
    : config_(config),
      rotary_(std::move(rotary)),
      choice_(std::move(choice)),
      kv_a_(Linear::Declare(config.kv_lora_rank + config.qk_rope_head_dim, config.hidden,
                            config.bias, compute)),
      kv_norm_(RmsNorm::Declare(config.kv_lora_rank, config.norm_eps, compute)),
      kv_b_(Linear::Declare(config.heads * (config.qk_nope_head_dim + config.v_head_dim),
                            config.kv_lora_rank, false, compute)),
      o_(Linear::Declare(config.hidden, config.heads * config.v_head_dim, config.bias, compute)) {
  LORICA_CHECK(rotary_->config().channels == config.qk_rope_head_dim, "[mla] ",
               config.qk_rope_head_dim, " channels rotate, the table has ",
               rotary_->config().channels);
  const IndexerSizes& index = config.indexer;
  LORICA_CHECK(index.top_k == 0 || (choice_ != nullptr && config.q_lora_rank > 0 &&
                                    index.head_dim >= config.qk_rope_head_dim),
               "[mla] sparse attention needs a choice to share, a latent of queries and ",
               config.qk_rope_head_dim, " channels of an index head, found ", index.head_dim);
  if (index.top_k > 0 && !config.shares_choice) {
    indexer_.emplace(index, config.hidden, config.q_lora_rank, compute);
  }
  const int64_t q_channels = config.heads * (config.qk_nope_head_dim + config.qk_rope_head_dim);
  if (config.q_lora_rank == 0) {
    q_ = Linear::Declare(q_channels, config.hidden, false, compute);
    return;
  }
  q_a_ = Linear::Declare(config.q_lora_rank, config.hidden, config.bias, compute);
  q_norm_ = RmsNorm::Declare(config.q_lora_rank, config.norm_eps, compute);
  q_b_ = Linear::Declare(q_channels, config.q_lora_rank, false, compute);
}

MlaAttention::Latent MlaAttention::Compress(const Input& in) {
  const int64_t rank = config_.kv_lora_rank, rope = config_.qk_rope_head_dim;
  const Tensor both = kv_a_.Forward(in.x, in.context);
  const Tensor k_rope = Reshape(Narrow(both, 1, rank, rope), {in.x.dim(0), 1, rope});
  return {kv_norm_.Forward(Narrow(both, 1, 0, rank), in.context),
          Rope(k_rope, in.rotary.table, in.rotary.rows)};
}

Tensor MlaAttention::Chosen(const Input& in, const std::vector<AttentionSpan>& spans,
                            const Tensor& keys) {
  const int64_t top_k = config_.indexer.top_k;
  const auto is_dense = [&](const AttentionSpan& span) { return span.k_length <= top_k; };
  if (top_k == 0 || std::all_of(spans.begin(), spans.end(), is_dense)) return Tensor();
  // A block that runs again, perhaps after other passes, keeps the keys of its first run.
  const Tensor chosen = *KeepChoice<Tensor>([&] {
    if (!indexer_.has_value()) return choice_->words;
    return indexer_->Choose(in.x, in.q_latent,
                            keys.defined() ? keys : indexer_->Keys(in.x, in.rotary, in.context),
                            spans, in.rotary, in.context);
  });
  if (indexer_.has_value()) choice_->words = chosen;
  return chosen;
}

Tensor MlaAttention::Expanded(const Input& in, const Tensor& q_flat, const Latent& latent) {
  const int64_t tokens = q_flat.dim(0), heads = config_.heads;
  const int64_t nope = config_.qk_nope_head_dim, rope = config_.qk_rope_head_dim;
  const Tensor q = Reshape(q_flat, {tokens, heads, nope + rope});
  const Tensor q_rope = Rope(Narrow(q, 2, nope, rope), in.rotary.table, in.rotary.rows);
  const Tensor kv =
      Reshape(kv_b_.Forward(latent.c, in.context), {tokens, heads, nope + config_.v_head_dim});
  const Tensor no_heads = Tensor::Zeros(q.backend(), {tokens, heads, rope}, q.dtype());
  const Tensor k_rope = Add(no_heads, latent.k_rope);  // one for all heads

  AttentionOptions options;
  options.scale = config_.scale;
  options.spans = SpansOf(in.context.sequences);
  options.chosen = Chosen(in, options.spans, Tensor());
  return lorica::Attention(Concat({Narrow(q, 2, 0, nope), q_rope}, 2),
                           Concat({Narrow(kv, 2, 0, nope), k_rope}, 2),
                           Narrow(kv, 2, nope, config_.v_head_dim), std::move(options));
}

Tensor MlaAttention::Absorbed(const Input& in, const Tensor& q_flat, const Latent& latent) {
  const int64_t tokens = q_flat.dim(0), heads = config_.heads, rank = config_.kv_lora_rank;
  const int64_t nope = config_.qk_nope_head_dim, rope = config_.qk_rope_head_dim;
  const AbsorbedProjection kv_b{.heads = heads,
                                .key_rows = nope,
                                .value_rows = config_.v_head_dim,
                                .args = kv_b_.Args(in.context)};
  // Every head's query against the latent itself: [T, H, L + P].
  Tensor q = Tensor::Empty(q_flat.backend(), {tokens, heads, rank + rope}, q_flat.dtype());
  AbsorbKeys(kv_b, q_flat, q);
  const Tensor q_rope = Rope(Narrow(Reshape(q_flat, {tokens, heads, nope + rope}), 2, nope, rope),
                             in.rotary.table, in.rotary.rows);
  q.backend().Copy(q_rope.view(), q.Narrow(2, rank, rope).mutable_view());

  KvCache& cache = *in.context.cache;
  std::vector<Tensor> entry = {Reshape(latent.c, {tokens, 1, rank}), latent.k_rope};
  if (indexer_.has_value()) {
    entry.push_back(indexer_->Keys(in.x, in.rotary, in.context));
  } else if (config_.indexer.top_k > 0) {
    entry.push_back(Tensor::Zeros(q.backend(), {tokens, 1, config_.indexer.head_dim}, q.dtype()));
  }
  cache.Append(config_.layer, Concat(entry, 2), Tensor());
  const Tensor& cached = cache.keys(config_.layer);
  const Tensor keys = cached.Narrow(2, 0, rank + rope);
  const std::vector<AttentionSpan> spans = cache.Spans();
  const Tensor chosen =
      Chosen(in, spans, cached.Narrow(2, rank + rope, cached.dim(2) - rank - rope));
  Tensor mixed = Tensor::Empty(q.backend(), {tokens, heads, rank}, q.dtype());
  if (mixed.numel() > 0) {
    q.backend().Attention({.spans = spans,
                           .scale = config_.scale,
                           .q = q.view(),
                           .k = keys.view(),
                           .v = keys.Narrow(2, 0, rank).view(),
                           .o = mixed.mutable_view(),
                           .chosen = chosen.defined() ? chosen.view() : TensorView()});
  }
  Tensor y = Tensor::Empty(q.backend(), {tokens, heads, config_.v_head_dim}, q.dtype());
  AbsorbValues(kv_b, mixed, y);
  return y;
}

Tensor MlaAttention::Forward(const Tensor& x, const ForwardContext& context) {
  const auto& positions = context.positions;
  LORICA_CHECK(static_cast<int64_t>(positions.size()) == context.tokens(), "[mla] ",
               positions.size(), " positions for ", context.tokens(), " tokens");
  LORICA_CHECK(context.cache == nullptr || !GradEnabled(), "[mla] a cache has no gradient");
  const RotaryRows rotary = rotary_->Rows(x.backend(), x.dtype(), context);
  const Tensor q_latent = q_.has_value() ? x : q_norm_->Forward(q_a_->Forward(x, context), context);
  const Tensor q = (q_.has_value() ? *q_ : *q_b_).Forward(q_latent, context);
  const Input in{x, q_latent, rotary, context};
  const Latent latent = Compress(in);
  const Tensor y = context.cache == nullptr ? Expanded(in, q, latent) : Absorbed(in, q, latent);
  return o_.Forward(Reshape(y, {x.dim(0), config_.heads * config_.v_head_dim}), context);
}

void MlaAttention::Visit(ModuleVisitor& visitor) {
  if (q_.has_value()) {
    visitor.OnChild("q_proj", *q_);
  } else {
    visitor.OnChild("q_a_proj", *q_a_);
    visitor.OnChild("q_a_layernorm", *q_norm_);
    visitor.OnChild("q_b_proj", *q_b_);
  }
  visitor.OnChild("kv_a_proj_with_mqa", kv_a_);
  visitor.OnChild("kv_a_layernorm", kv_norm_);
  visitor.OnChild("kv_b_proj", kv_b_);
  visitor.OnChild("o_proj", o_);
  if (indexer_.has_value()) visitor.OnChild("indexer", *indexer_);
}

}  // namespace lorica::nn
