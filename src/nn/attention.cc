#include "lorica/nn/attention.h"

#include <algorithm>
#include <utility>

#include "lorica/nn/kv_cache.h"
#include "lorica/tensor/check.h"

namespace lorica::nn {
Attention::Attention(const AttentionConfig& config, std::shared_ptr<Rotary> rotary, DType compute)
    : config_(config),
      rotary_(std::move(rotary)),
      q_(Linear::Declare(config.heads * config.head_dim, config.hidden, config.qkv_bias, compute)),
      k_(Linear::Declare(config.kv_heads * config.head_dim, config.hidden, config.qkv_bias,
                         compute)),
      v_(Linear::Declare(config.kv_heads * config.head_dim, config.hidden, config.qkv_bias,
                         compute)),
      o_(Linear::Declare(config.hidden, config.heads * config.head_dim, config.o_bias, compute)) {
  LORICA_CHECK(config.kv_heads > 0 && config.heads % config.kv_heads == 0, "[attention] ",
               config.heads, " heads are no multiple of ", config.kv_heads, " key/value heads");
}

Tensor Attention::Forward(const Tensor& x, const ForwardContext& context) {
  const int64_t tokens = context.tokens();
  const auto& positions = context.positions;
  LORICA_CHECK(static_cast<int64_t>(positions.size()) == tokens, "[attention] ", positions.size(),
               " positions for ", tokens, " tokens");
  const int64_t length =
      positions.empty() ? 1 : 1 + *std::max_element(positions.begin(), positions.end());
  const RopeTable& table = rotary_->Table(x.backend(), x.dtype(), length);

  const auto heads_of = [&](Linear& linear, int64_t heads) {
    return Reshape(linear.Forward(x, context), {tokens, heads, config_.head_dim});
  };
  const Tensor q = Rope(heads_of(q_, config_.heads), table, positions);
  Tensor k = Rope(heads_of(k_, config_.kv_heads), table, positions);
  Tensor v = heads_of(v_, config_.kv_heads);

  AttentionOptions options;
  options.scale = config_.scale;
  options.window = config_.window;
  if (context.cache == nullptr) {
    options.spans = SpansOf(context.sequences);
  } else {
    context.cache->Append(config_.layer, k, v);
    options.spans = context.cache->Spans();
    k = context.cache->keys(config_.layer);
    v = context.cache->values(config_.layer);
  }
  const Tensor y = lorica::Attention(q, k, v, std::move(options));
  return o_.Forward(Reshape(y, {tokens, config_.heads * config_.head_dim}), context);
}

void Attention::Visit(ModuleVisitor& visitor) {
  visitor.OnChild("q_proj", q_);
  visitor.OnChild("k_proj", k_);
  visitor.OnChild("v_proj", v_);
  visitor.OnChild("o_proj", o_);
}

}  // namespace lorica::nn
