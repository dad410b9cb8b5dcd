// nn::MlaAttention: multi-head latent attention. Keys and values of all heads are made from one
// short vector a token, which is all that a cache keeps.
//   c_q = norm(x W_qaᵀ)            q = [q_nope; rope(q_rope)] = c_q W_qbᵀ   (or x W_qᵀ)
//   [c; k_rope] = x W_kvaᵀ         [k_nope; v] = norm(c) W_kvbᵀ             k = [k_nope;
//   rope(k_rope)]
// DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1. With an indexer it is sparse: a query sees the
// keys that were chosen for it.
//
// Letters: T tokens, C hidden size, H heads, L kv_lora_rank, N qk_nope_head_dim, P
// qk_rope_head_dim, V v_head_dim.
#ifndef LORICA_NN_MLA_H_
#define LORICA_NN_MLA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lorica/nn/indexer.h"
#include "lorica/nn/kv_cache.h"
#include "lorica/nn/linear.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/rms_norm.h"
#include "lorica/nn/rope.h"
#include "lorica/nn/sublayer.h"

namespace lorica::nn {

struct MlaConfig {
  int layer = 0;  // which part of a KvCache is its own
  int64_t hidden = 0, heads = 0;
  int64_t q_lora_rank = 0;  // 0: q_proj in place of q_a_proj and q_b_proj
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  bool bias = false;       // of q_a_proj, kv_a_proj_with_mqa and o_proj
  double norm_eps = 1e-6;  // of q_a_layernorm and kv_a_layernorm
  double scale = 0;        // of q kᵀ
  IndexerSizes indexer;
  bool shares_choice = false;  // no indexer of its own
};

// The keys that the last indexer of a pass chose, for the layers after it that have none. The
// layers of a model share it; one pass at a time.
struct KeyChoice {
  Tensor words;  // AttentionOptions::chosen
};

// Sizes and biases of a model's layers; layer, scale and shares_choice are left.
MlaConfig MlaConfigOf(const ModelConfig& config);

// A cache entry is one key [c; rope(k_rope)] a token, shared by all heads; its first L channels are
// the value. With sparse attention the indexer's key stands behind it, zeros where there is none.
KvCacheConfig MlaCacheConfig(const MlaConfig& config, int layers, DType compute);

class MlaAttention : public Sublayer {
 public:
  // `rotary` rotates P channels; the layers of a model share it, and `choice` where attention is
  // sparse.
  MlaAttention(const MlaConfig& config, std::shared_ptr<Rotary> rotary, DType compute,
               std::shared_ptr<KeyChoice> choice = nullptr);

  // No token sees another sequence. With a cache in the context the compressed
  // form runs: kv_b_proj is absorbed into the query and the output, its adapter included, so keys
  // and values of single heads are never made. Both forms agree within rounding. Where no sequence
  // is longer than the indexer's top_k the indexer doesn't run (a cache gets its keys all the
  // same).
  Tensor Forward(const Tensor& x, const ForwardContext& context) override;

  // q_proj or q_a_proj, q_a_layernorm and q_b_proj; kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj,
  // o_proj; indexer where there is one.
  void Visit(ModuleVisitor& visitor) override;

 private:
  // The latent c [T, L], normed, and rope(k_rope) [T, 1, P].
  struct Latent {
    Tensor c, k_rope;
  };
  // What the layer's parts get.
  struct Input {
    const Tensor& x;
    const Tensor& q_latent;  // c_q, or x
    const RotaryRows& rotary;
    const ForwardContext& context;
  };
  Latent Compress(const Input& in);
  // The keys that queries are left; undefined: all. `keys` are the indexer's, undefined those of x.
  Tensor Chosen(const Input& in, const std::vector<AttentionSpan>& spans, const Tensor& keys);
  // q [T, H (N + P)], not rotated.
  Tensor Expanded(const Input& in, const Tensor& q, const Latent& latent);
  Tensor Absorbed(const Input& in, const Tensor& q, const Latent& latent);

  MlaConfig config_;
  std::shared_ptr<Rotary> rotary_;
  std::shared_ptr<KeyChoice> choice_;
  std::optional<Indexer> indexer_;
  std::optional<Linear> q_, q_a_, q_b_;
  std::optional<RmsNorm> q_norm_;
  Linear kv_a_;
  RmsNorm kv_norm_;
  Linear kv_b_, o_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_MLA_H_
