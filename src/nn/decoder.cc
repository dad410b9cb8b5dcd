#include "lorica/nn/decoder.h"

#include <string>
#include <utility>

#include "lorica/autograd/autograd.h"
#include "lorica/nn/mla.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace nn {
namespace {

// `value` rounded to the compute type, as transformers keeps the scale of embeddings.
double Rounded(double value, DType compute) {
  if (compute == DType::kBF16) return static_cast<float>(BF16(static_cast<float>(value)));
  return compute == DType::kF32 ? static_cast<float>(value) : value;
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, DType compute)
    : embed_tokens_(Embedding::Declare(config.vocab_size, config.hidden_size, compute)),
      embedding_scale_(Rounded(config.embedding_scale, compute)),
      norm_(
          RmsNorm::Declare(config.hidden_size, config.rms_norm_eps, compute, config.norm_offset)) {
  std::shared_ptr<Rotary> main, local;
  const auto rotary_of = [&](LayerConfig::Rope which) -> std::shared_ptr<Rotary> {
    if (which == LayerConfig::Rope::kNone) return nullptr;
    const bool is_local = which == LayerConfig::Rope::kLocal;
    std::shared_ptr<Rotary>& rotary = is_local ? local : main;
    if (rotary == nullptr) {
      rotary = std::make_shared<Rotary>(is_local ? config.local_rope : config.rope);
    }
    return rotary;
  };
  const auto choice = std::make_shared<KeyChoice>();
  layers_.reserve(static_cast<size_t>(config.layers));
  for (int i = 0; i < static_cast<int>(config.layers); ++i) {
    layers_.push_back(std::make_unique<DecoderLayer>(config, i, rotary_of(config.Layer(i).rope),
                                                     choice, compute));
  }
}

Tensor Decoder::Residual(absl::Span<const int32_t> ids, const ForwardContext& context, int blocks) {
  LORICA_CHECK(blocks >= 0 && blocks <= static_cast<int>(layers_.size()), "[decoder] block ",
               blocks, " of ", layers_.size());
  LORICA_CHECK(static_cast<int64_t>(ids.size()) == context.tokens(), "[decoder] ", ids.size(),
               " ids for ", context.tokens(), " tokens");
  // The residual stream stays in the accumulator type: bf16 would round it twice a block, which is
  // most of what a bf16 model is off by.
  Tensor x = embed_tokens_.Forward(ids, context);
  x = Cast(x, AccumulatorOf(x.dtype()));
  if (embedding_scale_ != 1) x = Affine(x, embedding_scale_);
  if (!context.recompute || !GradEnabled()) {
    for (int i = 0; i < blocks; ++i) x = layers_[i]->Forward(x, context);
    return x;
  }
  // The backward pass runs a block again when the caller's context may be gone: it keeps a copy.
  const auto kept = std::make_shared<const ForwardContext>(context);
  for (int i = 0; i < blocks; ++i) {
    DecoderLayer* layer = layers_[i].get();
    x = Recompute([layer, kept](const Tensor& input) { return layer->Forward(input, *kept); }, x);
  }
  return x;
}

Tensor Decoder::Forward(absl::Span<const int32_t> ids, const ForwardContext& context) {
  const int blocks = static_cast<int>(layers_.size());
  if (context.cache == nullptr) return norm_.Forward(Residual(ids, context, blocks), context);
  NoGrad no_grad;
  context.cache->Begin(context.sequences);
  const Tensor x = Residual(ids, context, blocks);
  context.cache->Commit();
  return norm_.Forward(x, context);
}

void Decoder::Visit(ModuleVisitor& visitor) {
  visitor.OnChild("embed_tokens", embed_tokens_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    visitor.OnChild("layers." + std::to_string(i), *layers_[i]);
  }
  visitor.OnChild("norm", norm_);
}

}  // namespace nn

namespace {

const ModelConfig& Checked(const ModelConfig& config) {
  const absl::Status status = CheckModelConfig(config, "[causal_lm]");
  LORICA_CHECK(status.ok(), status.message());
  return config;
}

// Rows `rows` of x [T, ...], as an op: the table of an embedding may be any tensor.
Tensor TakeRows(const Tensor& x, absl::Span<const int32_t> rows) {
  EmbeddingArgs args;
  args.table = x;
  return Embedding(rows, args);
}

}  // namespace

CausalLm::CausalLm(const ModelConfig& config, DType compute)
    : config_(Checked(config)),
      compute_(compute),
      model_(config, compute),
      lm_head_(config.tied
                   ? nn::Linear::Tied(model_.embed_tokens().table())
                   : nn::Linear::Declare(config.vocab_size, config.hidden_size, false, compute)) {}

Tensor CausalLm::Hidden(absl::Span<const int32_t> ids, const ForwardContext& context) {
  return model_.Forward(ids, context);
}

Tensor CausalLm::HeadInput(const Tensor& hidden) const {
  return config_.logit_divisor == 1 ? hidden : Affine(hidden, 1 / config_.logit_divisor);
}

Tensor CausalLm::Logits(const Tensor& hidden, const ForwardContext& context) {
  const Tensor logits = lm_head_.Forward(HeadInput(hidden), context);
  return config_.logit_softcap > 0 ? SoftCap(logits, config_.logit_softcap) : logits;
}

Tensor CausalLm::LogitsOfRows(const Tensor& hidden, absl::Span<const int32_t> rows,
                              const ForwardContext& context) {
  const NoGrad no_grad;
  const ForwardContext selected = context.Select(rows);
  LinearArgs args = lm_head_.Args(selected);
  args.accumulator_output = true;
  const Tensor logits = Linear(HeadInput(TakeRows(hidden, rows)), args);
  return config_.logit_softcap > 0 ? SoftCap(logits, config_.logit_softcap) : logits;
}

Tensor CausalLm::Loss(absl::Span<const int32_t> ids, absl::Span<const int32_t> targets,
                      const ForwardContext& context) {
  const int64_t tokens = context.tokens();
  LORICA_CHECK(static_cast<int64_t>(targets.size()) == tokens, "[loss] ", targets.size(),
               " targets for ", tokens, " tokens");
  const Tensor hidden = HeadInput(Hidden(ids, context));
  const double softcap = config_.logit_softcap;
  // Only rows with a target meet the head, which is the widest product of all: the rest of a
  // prompt costs nothing here.
  std::vector<int32_t> rows, row_targets;
  std::vector<int32_t> places(static_cast<size_t>(tokens));  // row of `losses` below
  for (int64_t t = 0; t < tokens; ++t) {
    if (targets[t] < 0) {
      places[t] = -1;
      continue;
    }
    places[t] = static_cast<int32_t>(rows.size());
    rows.push_back(static_cast<int32_t>(t));
    row_targets.push_back(targets[t]);
  }
  const int64_t count = static_cast<int64_t>(rows.size());
  if (count == tokens) return LinearCrossEntropy(hidden, lm_head_.Args(context), targets, softcap);

  const ForwardContext selected = context.Select(rows);
  Tensor losses =
      LinearCrossEntropy(TakeRows(hidden, rows), lm_head_.Args(selected), row_targets, softcap);
  // Back to one value per token: masked ones take the zero behind the last row.
  losses = Reshape(losses, {count, 1});
  losses = Concat({losses, Tensor::Zeros(losses.backend(), {1, 1}, losses.dtype())}, 0);
  for (int32_t& place : places) {
    if (place < 0) place = static_cast<int32_t>(count);
  }
  return Reshape(TakeRows(losses, places), {tokens});
}

KvCacheConfig CausalLm::CacheConfig() const {
  if (config_.latent.kv_lora_rank > 0) {
    return nn::MlaCacheConfig(nn::MlaConfigOf(config_), static_cast<int>(config_.layers), compute_);
  }
  KvCacheConfig cache;
  cache.layers = static_cast<int>(config_.layers);
  cache.kv_heads = config_.kv_heads;
  cache.key_channels = cache.value_channels = config_.head_dim;
  cache.dtype = compute_;
  if (const DeltaSizes& delta = config_.delta; delta.taps > 0) {
    cache.state = {delta.taps - 1, delta.channels(), delta.value_heads, delta.key_head_dim,
                   delta.value_head_dim};
    for (int i = 0; i < cache.layers; ++i) cache.recurrent.push_back(config_.Layer(i).delta);
  }
  return cache;
}

void CausalLm::Visit(ModuleVisitor& visitor) {
  visitor.OnChild("model", model_);
  visitor.OnChild("lm_head", lm_head_);
}

}  // namespace lorica
