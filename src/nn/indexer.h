// nn::Indexer: what chooses the keys of sparse attention, a small attention of its own.
//   q = rope(c_q W_qᵀ) [T, I, D]     k = rope(layer_norm(x W_kᵀ)) [T, D]     w = x W_wᵀ [T, I]
//   score(t, s) = sum over i of w[t, i] max(q[t, i] · k[s], 0)
// where c_q is the latent of the attention's queries. The first channels of q and k rotate. A query
// is left the top_k keys of its sequence with the greatest scores (Backend::ChooseKeys). No
// gradient passes through a choice, so nothing here ever trains. DeepSeek-AI, "DeepSeek-V3.2",
// 2025; GLM team, "GLM-5", 2026.
//
// Its makers run it in 8 bits behind a Hadamard rotation of q and k, which changes no product of
// the two: both are left out here. So are the factors D^-1/2 and I^-1/2, which change no order.
//
// Letters: T tokens, C hidden size, L rank of the query's latent, I heads, D channels of a head.
#ifndef LORICA_NN_INDEXER_H_
#define LORICA_NN_INDEXER_H_

#include <cstdint>
#include <vector>

#include "lorica/nn/linear.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/rope.h"

namespace lorica::nn {

class Indexer : public Module {
 public:
  Indexer(const IndexerSizes& sizes, int64_t hidden, int64_t q_lora_rank, DType compute);

  // k of x [T, C]: [T, 1, D], rotated by the tables of the attention.
  Tensor Keys(const Tensor& x, const RotaryRows& rotary, const ForwardContext& context);
  // What AttentionOptions::chosen takes. x [T, C], q_latent [T, L]; `keys` [S, 1, D] lie as the
  // spans say.
  Tensor Choose(const Tensor& x, const Tensor& q_latent, const Tensor& keys,
                const std::vector<AttentionSpan>& spans, const RotaryRows& rotary,
                const ForwardContext& context);

  // wq_b, wk, k_norm, weights_proj.
  void Visit(ModuleVisitor& visitor) override;

 private:
  // A linear that LoRA's targets leave out. An adapter from a file works on it as on any other.
  class ChoosingLinear : public Linear {
   public:
    ChoosingLinear(int64_t out, int64_t in, DType compute)
        : Linear(Parameter::DeclareFrozen({out, in}, compute)) {}
    bool differentiable() const override { return false; }
  };
  // y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias.
  class KeyNorm : public Module {
   public:
    KeyNorm(int64_t channels, DType compute)
        : weight_(Parameter::DeclareFrozen({channels}, compute)),
          bias_(Parameter::DeclareFrozen({channels}, compute)) {}
    Tensor Forward(const Tensor& x) const;
    void Visit(ModuleVisitor& visitor) override {
      visitor.OnParameter("weight", weight_);
      visitor.OnParameter("bias", bias_);
    }

   private:
    Parameter weight_, bias_;
  };

  Tensor Rotated(const Tensor& x, const RotaryRows& rotary) const;

  IndexerSizes sizes_;
  ChoosingLinear q_, k_, weights_;
  KeyNorm k_norm_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_INDEXER_H_
