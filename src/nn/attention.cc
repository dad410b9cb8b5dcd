#include "lorica/nn/attention.h"

#include <utility>

#include "lorica/nn/kv_cache.h"
#include "lorica/tensor/check.h"

namespace lorica::nn {
namespace {

constexpr absl::string_view kInputNames[] = {"q_proj", "k_proj", "v_proj"};

// min(max(x, -limit), limit); its gradient is 1 where x is kept.
Tensor Clipped(const Tensor& x, double limit) {
  if (limit == 0) return x;
  const Tensor bound = Tensor::Full(x.backend(), {1}, x.dtype(), limit);
  const Tensor from_below = Maximum(x, Tensor::Full(x.backend(), {1}, x.dtype(), -limit));
  return Neg(Maximum(Neg(from_below), Neg(bound)));
}

}  // namespace

Attention::Attention(const AttentionConfig& config, std::shared_ptr<Rotary> rotary, DType compute)
    : config_(config),
      rotary_(std::move(rotary)),
      o_(Linear::Declare(config.hidden, config.heads * config.head_dim, config.o_bias, compute)) {
  LORICA_CHECK(config.kv_heads > 0 && config.heads % config.kv_heads == 0, "[attention] ",
               config.heads, " heads are no multiple of ", config.kv_heads, " key/value heads");
  const int64_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  const auto input = [&](int64_t out) {
    inputs_.push_back(Linear::Declare(out, config.hidden, config.qkv_bias, compute));
  };
  if (config.fused) {
    input(q + 2 * kv);
  } else {
    for (int64_t out : {config.gate ? 2 * q : q, kv, kv}) input(out);
  }
  if (config.sinks) sinks_ = Parameter::Declare({config.heads}, compute);
  if (config.qk_norm == QkNorm::kNone) return;
  const bool by_head = config.qk_norm == QkNorm::kHead;
  const auto norm = [&](int64_t channels) {
    return RmsNorm::Declare(by_head ? config.head_dim : channels, config.norm_eps, compute,
                            config.norm_offset);
  };
  q_norm_.emplace(norm(q));
  k_norm_.emplace(norm(kv));
}

// `projected` [T, H D] as heads, normed by head or before the cut.
Tensor Attention::Normed(const Tensor& projected, std::optional<RmsNorm>& norm, int64_t heads,
                         const ForwardContext& context) const {
  const Shape shape = {context.tokens(), heads, config_.head_dim};
  if (!norm.has_value()) return Reshape(projected, shape);
  if (config_.qk_norm == QkNorm::kHead) return norm->Forward(Reshape(projected, shape), context);
  return Reshape(norm->Forward(projected, context), shape);
}

Attention::Heads Attention::Project(const Tensor& x, const ForwardContext& context) {
  Tensor q = inputs_[0].Forward(x, context), k, v;
  if (config_.fused) {
    const int64_t q_size = config_.heads * config_.head_dim;
    const int64_t kv_size = config_.kv_heads * config_.head_dim;
    v = Narrow(q, 1, q_size + kv_size, kv_size);
    k = Narrow(q, 1, q_size, kv_size);
    q = Narrow(q, 1, 0, q_size);
  } else {
    k = inputs_[1].Forward(x, context);
    v = inputs_[2].Forward(x, context);
  }
  Heads heads;
  if (config_.gate) {
    const int64_t head = config_.head_dim, flat = config_.heads * head;
    const Tensor both = Reshape(q, {context.tokens(), config_.heads, 2 * head});
    heads.gate = Reshape(Narrow(both, 2, head, head), {context.tokens(), flat});
    q = Reshape(Narrow(both, 2, 0, head), {context.tokens(), flat});
  }
  heads.q = Clipped(Normed(q, q_norm_, config_.heads, context), config_.clip);
  heads.k = Clipped(Normed(k, k_norm_, config_.kv_heads, context), config_.clip);
  heads.v =
      Clipped(Reshape(v, {context.tokens(), config_.kv_heads, config_.head_dim}), config_.clip);
  return heads;
}

Tensor Attention::Forward(const Tensor& x, const ForwardContext& context) {
  const int64_t tokens = context.tokens();
  LORICA_CHECK(static_cast<int64_t>(context.positions.size()) == tokens, "[attention] ",
               context.positions.size(), " positions for ", tokens, " tokens");
  Heads heads = Project(x, context);
  if (rotary_ != nullptr) {
    const RotaryRows rotary = rotary_->Rows(x.backend(), x.dtype(), context);
    heads.q = Rope(heads.q, rotary.table, rotary.rows);
    heads.k = Rope(heads.k, rotary.table, rotary.rows);
  }
  AttentionOptions options;
  options.scale = config_.scale;
  options.window = config_.window;
  options.softcap = config_.softcap;
  if (config_.sinks) options.sinks = sinks_.weight();
  if (context.cache == nullptr) {
    options.spans = SpansOf(context.sequences);
  } else {
    context.cache->Append(config_.layer, heads.k, heads.v);
    options.spans = context.cache->Spans();
    heads.k = context.cache->keys(config_.layer);
    heads.v = context.cache->values(config_.layer);
  }
  Tensor y = lorica::Attention(heads.q, heads.k, heads.v, std::move(options));
  y = Reshape(y, {tokens, config_.heads * config_.head_dim});
  if (heads.gate.defined()) y = Mul(y, Sigmoid(heads.gate));
  return o_.Forward(y, context);
}

void Attention::Visit(ModuleVisitor& visitor) {
  if (config_.fused) {
    visitor.OnChild("qkv_proj", inputs_[0]);
  } else {
    for (size_t i = 0; i < inputs_.size(); ++i) visitor.OnChild(kInputNames[i], inputs_[i]);
  }
  visitor.OnChild("o_proj", o_);
  if (sinks_.defined()) visitor.OnParameter("sinks", sinks_);
  if (q_norm_.has_value()) visitor.OnChild("q_norm", *q_norm_);
  if (k_norm_.has_value()) visitor.OnChild("k_norm", *k_norm_);
}

}  // namespace lorica::nn
