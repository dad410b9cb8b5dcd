// nn::DeltaNet: linear attention by the gated delta rule, as Qwen3-Next and Qwen3.5 have it.
//   [q; k; v] = silu(conv(x W_qkvᵀ))    beta = sigmoid(x W_bᵀ)    g = -exp(A) softplus(x W_aᵀ + dt)
//   y = delta_rule(q / |q| / sqrt(K), k / |k|, v, g, beta)        out = (norm(y) silu(x W_zᵀ)) W_oᵀ
// conv is causal, over the last taps of each channel by itself. S. Yang et al., "Gated delta
// networks: improving Mamba2 with delta rule", 2024.
//
// Letters: T tokens, C hidden size, G key heads, K channels of a key head, H value heads, V
// channels of a value head.
#ifndef LORICA_NN_DELTA_NET_H_
#define LORICA_NN_DELTA_NET_H_

#include <cstdint>

#include "lorica/nn/linear.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/rms_norm.h"
#include "lorica/nn/sublayer.h"

namespace lorica::nn {

class DeltaNet : public Sublayer {
 public:
  // `layer`: which part of a KvCache is its own.
  DeltaNet(const DeltaSizes& sizes, int layer, int64_t hidden, double norm_eps, DType compute);

  // No token sees another sequence. With a cache each sequence goes on where it was, and the
  // result is the same bit for bit however its tokens were cut into passes.
  Tensor Forward(const Tensor& x, const ForwardContext& context) override;

  // in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, conv1d, dt_bias, A_log, norm, out_proj.
  void Visit(ModuleVisitor& visitor) override;

 private:
  // One filter per channel, listed as conv1d.weight [channels, 1, taps].
  class Filter : public Module {
   public:
    Filter(int64_t channels, int64_t taps, DType compute)
        : weight_(Parameter::Declare({channels, 1, taps}, compute)) {}
    // Rows to be picked: x [tokens, channels] and behind it what lies before each sequence's first
    // row, `tail` [sequences, taps - 1, channels].
    static Tensor Table(const Tensor& x, const Tensor& tail);
    // y[t] = silu(sum over taps j of weight[taps - 1 - j] x[t - j]), within each sequence.
    Tensor Forward(const Tensor& x, const Tensor& table, const Sequences& sequences);
    // The tail for the rows that follow x.
    Tensor NextTail(const Tensor& table, const Sequences& sequences) const;
    void Visit(ModuleVisitor& visitor) override { visitor.OnParameter("weight", weight_); }

   private:
    // Where in the table the row `index` of a sequence lies, which may be -1 ... 1 - taps.
    int32_t Place(const Sequences& sequences, int sequence, int64_t index) const;

    Parameter weight_;
  };

  // x / |x| times `factor` over the last axis, in the accumulator type.
  Tensor Normalised(const Tensor& x, double factor) const;

  DeltaSizes sizes_;
  int layer_;
  Linear qkv_, z_, b_, a_;
  Filter conv_;
  Parameter dt_bias_, a_log_;
  RmsNorm norm_;
  Linear out_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_DELTA_NET_H_
