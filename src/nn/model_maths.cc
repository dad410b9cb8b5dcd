// What a configuration makes: a line that tells models apart, and numbers of parameters.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/nn/decoder.h"
#include "lorica/nn/model_config.h"

namespace lorica {
namespace {

std::string TextOf(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) absl::StrAppend(&text, absl::StrFormat(" %.17g", value));
  return text;
}

// What goes beyond the fields of the default kind.
std::string ScalingText(const RopeConfig& r) {
  using Kind = RopeConfig::Kind;
  if (r.kind == Kind::kDefault) return "";
  std::string text = absl::StrCat(" scaling ", static_cast<int>(r.kind), TextOf({r.factor}));
  if (r.kind == Kind::kLinear) return text;
  absl::StrAppend(&text, " ", r.original_positions);
  if (r.kind == Kind::kLlama3) {
    absl::StrAppend(&text, TextOf({r.low_frequency_factor, r.high_frequency_factor}));
  }
  if (r.kind == Kind::kYarn) {
    absl::StrAppend(&text, TextOf({r.attention_factor, r.beta_fast, r.beta_slow}), " ", r.truncate);
    if (r.mscale_all_dim != 0) absl::StrAppend(&text, TextOf({r.mscale_all_dim}));
  }
  if (r.kind == Kind::kLongRope) {
    absl::StrAppend(&text, TextOf({r.attention_factor}), TextOf(r.short_factors),
                    TextOf(r.long_factors));
  }
  return text;
}

// Runs of equal layers: " layers 2x(1,512)".
std::string LayersText(const ModelConfig& c) {
  std::string text;
  for (size_t i = 0, run = 0; i < c.layer_configs.size(); i += run) {
    const LayerConfig& layer = c.layer_configs[i];
    for (run = 1; i + run < c.layer_configs.size() && c.layer_configs[i + run] == layer;) ++run;
    absl::StrAppend(&text, text.empty() ? " layers " : ",", run, "x(", static_cast<int>(layer.rope),
                    ",", layer.window, layer.experts ? ",experts" : "", layer.delta ? ",delta" : "",
                    layer.shares_choice ? ",shares" : "", ")");
  }
  return text;
}

std::string LatentText(const LatentSizes& latent) {
  if (latent.kv_lora_rank == 0) return "";
  return absl::StrCat(" latent ", latent.q_lora_rank, " ", latent.kv_lora_rank, " ",
                      latent.qk_nope_head_dim, " ", latent.qk_rope_head_dim, " ",
                      latent.v_head_dim);
}

std::string IndexText(const IndexerSizes& index) {
  if (index.top_k == 0) return "";
  return absl::StrCat(" index ", index.heads, " ", index.head_dim, " ", index.top_k, " ",
                      index.interleaved);
}

std::string ExpertsText(const nn::MoeConfig& moe) {
  if (moe.experts == 0) return "";
  const RouterOptions& router = moe.router;
  const GatedActivation& activation = moe.activation;
  return absl::StrCat(" experts ", moe.experts, " ", moe.expert_width, " ", router.top_k, " ",
                      static_cast<int>(router.score), router.softmax_after_topk, " ", router.groups,
                      " ", router.top_groups, " ", static_cast<int>(router.group_score),
                      static_cast<int>(router.closed_group), router.bias_in_weights,
                      router.normalize, TextOf({router.scale}), " ", moe.router_bias,
                      moe.correction_bias, moe.expert_bias, " ", static_cast<int>(activation.kind),
                      activation.interleaved,
                      TextOf({activation.slope, activation.offset, activation.limit}), " ",
                      moe.shared_width, " ", moe.shared_gate, " ", moe.latent);
}

bool HasLocalRope(const ModelConfig& c) {
  for (const LayerConfig& layer : c.layer_configs) {
    if (layer.rope == LayerConfig::Rope::kLocal) return true;
  }
  return false;
}

}  // namespace

// The first line stands in fingerprints that are already written; what came later is silent where
// it says nothing.
std::string MathsText(const ModelConfig& c) {
  std::string text = absl::StrCat(
      c.family, " ", c.vocab_size, " ", c.hidden_size, " ", c.intermediate_size, " ", c.layers, " ",
      c.heads, " ", c.kv_heads, " ", c.head_dim, " ",
      absl::StrFormat("%.17g %.17g", c.rms_norm_eps, c.rope.theta), " ", c.rope.channels, " ",
      c.rope.interleaved, " ", c.qkv_bias, " ", c.o_bias, " ", c.mlp_bias, " ", c.tied);
  absl::StrAppend(&text, ScalingText(c.rope), LayersText(c));
  if (HasLocalRope(c)) {
    absl::StrAppend(&text, " local", TextOf({c.local_rope.theta}), " ", c.local_rope.channels,
                    ScalingText(c.local_rope));
  }
  absl::StrAppend(&text, LatentText(c.latent), IndexText(c.indexer), ExpertsText(c.moe));
  const auto number = [&](absl::string_view name, double value, double silent) {
    if (value != silent) absl::StrAppend(&text, " ", name, TextOf({value}));
  };
  number("norms", static_cast<int>(c.norms), 0);
  number("norm_offset", c.norm_offset, 0);
  number("qk_norm", static_cast<int>(c.qk_norm), 0);
  number("activation", static_cast<int>(c.activation), 0);
  number("fused", c.fused_projections, 0);
  number("embedding_scale", c.embedding_scale, 1);
  number("residual_scale", c.residual_scale, 1);
  number("attention_scale", c.attention_scale, 0);
  number("attention_softcap", c.attention_softcap, 0);
  number("logit_divisor", c.logit_divisor, 1);
  number("logit_softcap", c.logit_softcap, 0);
  if (c.delta.key_heads > 0) {
    const DeltaSizes& d = c.delta;
    absl::StrAppend(&text, " delta ", d.key_heads, " ", d.key_head_dim, " ", d.value_heads, " ",
                    d.value_head_dim, " ", d.taps);
  }
  number("gate", c.attention_gate, 0);
  number("sinks", c.attention_sinks, 0);
  number("clip_qkv", c.qkv_clip, 0);
  return text;
}

int64_t CountParameters(const ModelConfig& config) {
  CausalLm model(config, DType::kF32);  // declares, and takes no memory
  return CountParameters(model);
}

}  // namespace lorica
