// nn::Attention: causal self-attention whose key and value heads may be fewer than its query heads.
// J. Ainslie et al., "GQA: training generalized multi-query transformer models", 2023.
#ifndef LORICA_NN_ATTENTION_H_
#define LORICA_NN_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lorica/nn/linear.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/rms_norm.h"
#include "lorica/nn/rope.h"
#include "lorica/nn/sublayer.h"

namespace lorica::nn {

struct AttentionConfig {
  int layer = 0;  // which part of a KvCache is its own
  int64_t hidden = 0;
  int64_t heads = 0, kv_heads = 0;  // heads is a multiple of kv_heads
  int64_t head_dim = 0;
  bool qkv_bias = false, o_bias = false;
  bool fused = false;  // one linear gives q, k and v, in this order
  double scale = 0;    // of q kᵀ
  double softcap = 0;  // AttentionOptions
  int64_t window = 0;  // a token sees that many, itself included; 0: all before it
  double clip = 0;     // q, k and v, normed but not rotated, stay within +-clip; 0: free
  bool gate = false;   // q_proj gives [query | gate] per head; the result is times sigmoid(gate)
  bool sinks = false;  // a parameter "sinks" [H]: AttentionOptions
  QkNorm qk_norm = QkNorm::kNone;
  double norm_eps = 1e-6;
  bool norm_offset = false;
};

class Attention : public Sublayer {
 public:
  // `rotary` is shared by the layers of a model; null: no rotation.
  Attention(const AttentionConfig& config, std::shared_ptr<Rotary> rotary, DType compute);

  // No token sees another sequence.
  Tensor Forward(const Tensor& x, const ForwardContext& context) override;

  // q_proj, k_proj and v_proj, or qkv_proj; o_proj; q_norm, k_norm and sinks where there are such.
  void Visit(ModuleVisitor& visitor) override;

 private:
  struct Heads {
    Tensor q, k, v;  // [T, H, D], [T, G, D], [T, G, D]
    Tensor gate;     // [T, H D] or undefined
  };
  Heads Project(const Tensor& x, const ForwardContext& context);
  Tensor Normed(const Tensor& projected, std::optional<RmsNorm>& norm, int64_t heads,
                const ForwardContext& context) const;

  AttentionConfig config_;
  std::shared_ptr<Rotary> rotary_;
  std::vector<Linear> inputs_;  // one: qkv; three: q, k, v
  Linear o_;
  std::optional<RmsNorm> q_norm_, k_norm_;
  Parameter sinks_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_ATTENTION_H_
