#include "lorica/nn/decoder_layer.h"

#include <cmath>
#include <utility>

#include "lorica/autograd/ops.h"
#include "lorica/nn/attention.h"
#include "lorica/nn/delta_net.h"
#include "lorica/nn/mla.h"
#include "lorica/nn/mlp.h"
#include "lorica/nn/moe.h"

namespace lorica::nn {
namespace {

// The two places where a kind of layer is chosen by its configuration.

// Softmax gets sharper with the stretched context. DeepSeek-AI, "DeepSeek-V3", 2024.
double LatentScale(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  double scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  if (rope.kind == RopeConfig::Kind::kYarn && rope.mscale_all_dim != 0 && rope.factor > 1) {
    const double sharpness = 0.1 * rope.mscale_all_dim * std::log(rope.factor) + 1;
    scale *= sharpness * sharpness;
  }
  return scale;
}

std::unique_ptr<Sublayer> MakeLatentAttention(const ModelConfig& config, int index,
                                              std::shared_ptr<Rotary> rotary,
                                              std::shared_ptr<KeyChoice> choice, DType compute) {
  MlaConfig mla = MlaConfigOf(config);
  mla.layer = index;
  mla.scale = LatentScale(config);
  mla.shares_choice = config.Layer(index).shares_choice;
  return std::make_unique<MlaAttention>(mla, std::move(rotary), compute, std::move(choice));
}

std::unique_ptr<Sublayer> MakeAttention(const ModelConfig& config, int index,
                                        std::shared_ptr<Rotary> rotary,
                                        std::shared_ptr<KeyChoice> choice, DType compute) {
  if (config.Layer(index).delta) {
    return std::make_unique<DeltaNet>(config.delta, index, config.hidden_size, config.rms_norm_eps,
                                      compute);
  }
  if (config.latent.kv_lora_rank > 0) {
    return MakeLatentAttention(config, index, std::move(rotary), std::move(choice), compute);
  }
  AttentionConfig attention;
  attention.layer = index;
  attention.hidden = config.hidden_size;
  attention.heads = config.heads;
  attention.kv_heads = config.kv_heads;
  attention.head_dim = config.head_dim;
  attention.qkv_bias = config.qkv_bias;
  attention.o_bias = config.o_bias;
  attention.fused = config.fused_projections;
  attention.scale = config.attention_scale != 0
                        ? config.attention_scale
                        : 1 / std::sqrt(static_cast<double>(config.head_dim));
  attention.softcap = config.attention_softcap;
  attention.window = config.Layer(index).window;
  attention.clip = config.qkv_clip;
  attention.gate = config.attention_gate;
  attention.sinks = config.attention_sinks;
  attention.qk_norm = config.qk_norm;
  attention.norm_eps = config.rms_norm_eps;
  attention.norm_offset = config.norm_offset;
  return std::make_unique<Attention>(attention, std::move(rotary), compute);
}

std::unique_ptr<Sublayer> MakeFeedForward(const ModelConfig& config, int index, DType compute) {
  if (config.Layer(index).experts) return std::make_unique<Moe>(config.moe, compute);
  MlpConfig mlp;
  mlp.hidden = config.hidden_size;
  mlp.intermediate = config.intermediate_size;
  mlp.bias = config.mlp_bias;
  mlp.activation = config.activation;
  mlp.fused = config.fused_projections;
  return std::make_unique<Mlp>(mlp, compute);
}

}  // namespace

DecoderLayer::DecoderLayer(const ModelConfig& config, int index, std::shared_ptr<Rotary> rotary,
                           std::shared_ptr<KeyChoice> choice, DType compute)
    : attention_name_(config.Layer(index).delta ? "linear_attn" : "self_attn"),
      norms_(config.norms),
      residual_scale_(config.residual_scale),
      compute_(compute) {
  attention_.body = MakeAttention(config, index, std::move(rotary), std::move(choice), compute);
  feed_forward_.body = MakeFeedForward(config, index, compute);
  for (Branch* branch : {&attention_, &feed_forward_}) {
    const auto norm = [&] {
      return RmsNorm::Declare(config.hidden_size, config.rms_norm_eps, compute, config.norm_offset);
    };
    if (norms_ != NormPlacement::kAfter) branch->before.emplace(norm());
    if (norms_ != NormPlacement::kBefore) branch->after.emplace(norm());
  }
}

Tensor DecoderLayer::Added(const Tensor& x, Branch& branch, const ForwardContext& context) const {
  // The residual stream may be wider than the compute type; a norm narrows it.
  Tensor y = branch.before.has_value() ? branch.before->Forward(x, context) : Cast(x, compute_);
  y = branch.body->Forward(y, context);
  if (branch.after.has_value()) y = branch.after->Forward(y, context);
  if (residual_scale_ != 1) y = Affine(y, residual_scale_);
  return Add(x, y);
}

Tensor DecoderLayer::Forward(const Tensor& x, const ForwardContext& context) {
  return Added(Added(x, attention_, context), feed_forward_, context);
}

void DecoderLayer::Visit(ModuleVisitor& visitor) {
  visitor.OnChild(attention_name_, *attention_.body);
  visitor.OnChild("mlp", *feed_forward_.body);
  const auto norm = [&](absl::string_view name, std::optional<RmsNorm>& module) {
    if (module.has_value()) visitor.OnChild(name, *module);
  };
  norm("input_layernorm", attention_.before);
  norm("post_attention_layernorm", attention_.after);
  norm(norms_ == NormPlacement::kBefore ? "post_attention_layernorm" : "pre_feedforward_layernorm",
       feed_forward_.before);
  norm("post_feedforward_layernorm", feed_forward_.after);
}

}  // namespace lorica::nn
