// nn::Attention: causal self-attention whose key and value heads may be fewer than its query heads.
// J. Ainslie et al., "GQA: training generalized multi-query transformer models", 2023.
#ifndef LORICA_NN_ATTENTION_H_
#define LORICA_NN_ATTENTION_H_

#include <cstdint>
#include <memory>

#include "lorica/nn/linear.h"
#include "lorica/nn/rope.h"

namespace lorica::nn {

struct AttentionConfig {
  int layer = 0;  // which part of a KvCache is its own
  int64_t hidden = 0;
  int64_t heads = 0, kv_heads = 0;  // heads is a multiple of kv_heads
  int64_t head_dim = 0;
  bool qkv_bias = false, o_bias = false;
  double scale = 0;    // of q kᵀ
  int64_t window = 0;  // a token sees that many, itself included; 0: all before it
};

class Attention : public Module {
 public:
  // `rotary` is shared by the layers of a model.
  Attention(const AttentionConfig& config, std::shared_ptr<Rotary> rotary, DType compute);

  // x [T, C] -> [T, C]; no token sees another sequence.
  Tensor Forward(const Tensor& x, const ForwardContext& context);

  // q_proj, k_proj, v_proj, o_proj.
  void Visit(ModuleVisitor& visitor) override;

 private:
  AttentionConfig config_;
  std::shared_ptr<Rotary> rotary_;
  Linear q_, k_, v_, o_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_ATTENTION_H_
