// The decoder-only transformer that a ModelConfig describes, under the paths of Hugging Face
// checkpoints: model.embed_tokens, model.layers.N (decoder_layer.h), model.norm, lm_head.
//
// Letters: T tokens, C hidden size, V vocabulary, N selected rows.
#ifndef LORICA_NN_DECODER_H_
#define LORICA_NN_DECODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lorica/nn/decoder_layer.h"
#include "lorica/nn/embedding.h"
#include "lorica/nn/kv_cache.h"
#include "lorica/nn/linear.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/rms_norm.h"

namespace lorica {
namespace nn {

// Embeddings (scaled), blocks, final norm.
class Decoder : public Module {
 public:
  Decoder(const ModelConfig& config, DType compute);
  // ids [T] -> [T, C] after the final norm.
  Tensor Forward(absl::Span<const int32_t> ids, const ForwardContext& context);
  void Visit(ModuleVisitor& visitor) override;

  Embedding& embed_tokens() { return embed_tokens_; }
  // The residual stream after `blocks` blocks, before the final norm: for tests and inspection.
  Tensor Residual(absl::Span<const int32_t> ids, const ForwardContext& context, int blocks);

 private:
  Embedding embed_tokens_;
  double embedding_scale_;  // a value of the compute type
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  RmsNorm norm_;
};

}  // namespace nn

// A language model: decoder and head. Built with declared parameters; a loader (model_loader.h) or
// an initialiser (init.h) gives them values. One thread at a time.
class CausalLm : public Module {
 public:
  // `config` must have passed CheckModelConfig; else throws Error.
  CausalLm(const ModelConfig& config, DType compute);

  const ModelConfig& config() const { return config_; }
  DType compute_dtype() const { return compute_; }

  // ids [T] in [0, V), T = context.tokens() -> [T, C] after the final norm. With a cache in the
  // context nothing is recorded for a backward pass, and the cache grows by T tokens.
  Tensor Hidden(absl::Span<const int32_t> ids, const ForwardContext& context);

  // Rows of Hidden -> [rows, V], scaled and capped. `context` is that of those rows
  // (ForwardContext::Select for some of them).
  Tensor Logits(const Tensor& hidden, const ForwardContext& context);
  // The same for rows `rows` (ascending) of Hidden, in the accumulator type (f32 for bf16) as Loss
  // sees them: [N, V]. Without gradient.
  Tensor LogitsOfRows(const Tensor& hidden, absl::Span<const int32_t> rows,
                      const ForwardContext& context);

  // -log p(targets[t] | ids[0..t]) for every row with targets[t] >= 0, else exactly 0: [T] in the
  // accumulator type. targets[t] is the token that follows ids[t] (already shifted).
  Tensor Loss(absl::Span<const int32_t> ids, absl::Span<const int32_t> targets,
              const ForwardContext& context);

  // What a cache of this model is made from.
  KvCacheConfig CacheConfig() const;

  void Visit(ModuleVisitor& visitor) override;
  nn::Decoder& model() { return model_; }
  nn::Linear& lm_head() { return lm_head_; }

 private:
  // What the head multiplies: its logits come out divided by logit_divisor.
  Tensor HeadInput(const Tensor& hidden) const;

  ModelConfig config_;
  DType compute_;
  nn::Decoder model_;
  nn::Linear lm_head_;
};

}  // namespace lorica

#endif  // LORICA_NN_DECODER_H_
