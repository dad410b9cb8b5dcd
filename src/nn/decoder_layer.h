// nn::DecoderLayer: one block of a decoder, in the shapes that a ModelConfig can ask for.
#ifndef LORICA_NN_DECODER_LAYER_H_
#define LORICA_NN_DECODER_LAYER_H_

#include <memory>
#include <optional>

#include "lorica/nn/mla.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/rms_norm.h"
#include "lorica/nn/rope.h"
#include "lorica/nn/sublayer.h"

namespace lorica::nn {

// x += s after(attention(before(x))); x += s after(feed_forward(before(x))), where each norm is
// present or not (NormPlacement) and s is the configuration's residual_scale.
//
// Paths, those of Hugging Face: self_attn (linear_attn for the delta rule) and mlp; the norms
// before and after attention are input_layernorm and post_attention_layernorm, those around the
// feed-forward pre_feedforward_layernorm and post_feedforward_layernorm. Where all norms stand
// before, the second is called post_attention_layernorm.
class DecoderLayer : public Module {
 public:
  // `rotary` null: positions aren't rotated. The layers of a model share `choice`.
  DecoderLayer(const ModelConfig& config, int index, std::shared_ptr<Rotary> rotary,
               std::shared_ptr<KeyChoice> choice, DType compute);
  // x [T, C] -> [T, C], both of the compute type or its accumulator type.
  Tensor Forward(const Tensor& x, const ForwardContext& context);
  void Visit(ModuleVisitor& visitor) override;

 private:
  struct Branch {
    std::unique_ptr<Sublayer> body;
    std::optional<RmsNorm> before, after;
  };
  Tensor Added(const Tensor& x, Branch& branch, const ForwardContext& context) const;

  const char* attention_name_;
  NormPlacement norms_;
  double residual_scale_;
  DType compute_;
  Branch attention_, feed_forward_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_DECODER_LAYER_H_
