// Names of GGUF files for the paths of a model.
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/model_loader.h"

namespace lorica {
namespace {

struct Rename {
  absl::string_view ours;
  absl::string_view gguf;
};

constexpr Rename kTop[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};

constexpr absl::string_view kLayers = "model.layers.";
constexpr absl::string_view kQuery = "self_attn.q_proj";
constexpr absl::string_view kKey = "self_attn.k_proj";
constexpr absl::string_view kSecondNorm = "post_attention_layernorm";

// Modules behind "model.layers.N." and "blk.N.". No model has two of one name.
constexpr Rename kModules[] = {
    {kQuery, "attn_q"},
    {kKey, "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"self_attn.indexer.wq_b", "indexer.attn_q_b"},
    {"self_attn.indexer.wk", "indexer.attn_k"},
    {"self_attn.indexer.weights_proj", "indexer.proj"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"input_layernorm", "attn_norm"},
    {kSecondNorm, "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

// Parameters that aren't `weight` or `bias` of a module.
constexpr Rename kParameters[] = {
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_up_exps.bias"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
};

}  // namespace

std::vector<absl::string_view> GgufLayerModules() {
  std::vector<absl::string_view> modules;
  for (const Rename& rename : kModules) modules.push_back(rename.ours);
  return modules;
}

GgufPlace PlaceInGguf(absl::string_view path, const ModelConfig& config) {
  const size_t dot = path.rfind('.');
  if (dot == absl::string_view::npos) return {};
  absl::string_view module = path.substr(0, dot);
  const absl::string_view parameter = path.substr(dot);  // ".weight", ".bias"
  // llama.cpp multiplies by what it finds.
  const double added = config.norm_offset && absl::EndsWith(module, "norm") ? 1 : 0;
  for (const Rename& rename : kTop) {
    if (module == rename.ours) return {absl::StrCat(rename.gguf, parameter), 0, added};
  }
  if (!absl::ConsumePrefix(&module, kLayers)) return {};
  const size_t end = module.find('.');
  if (end == absl::string_view::npos) return {};
  const std::string block = absl::StrCat("blk.", module.substr(0, end), ".");
  const absl::string_view in_layer = path.substr(kLayers.size() + end + 1);
  for (const Rename& rename : kParameters) {
    if (in_layer == rename.ours) return {absl::StrCat(block, rename.gguf)};
  }
  module.remove_prefix(end + 1);
  const internal::Family* family = internal::FindFamily(config.family);
  for (const Rename& rename : kModules) {
    if (module != rename.ours) continue;
    // The norm of that name stands before the feed-forward where there is none behind attention.
    const bool before = module == kSecondNorm && config.norms == NormPlacement::kBefore &&
                        !(family != nullptr && family->gguf_post_attention_norm);
    GgufPlace place{absl::StrCat(block, before ? "ffn_norm" : rename.gguf, parameter), 0, added};
    if (family != nullptr && family->gguf_interleaves_rotation) {
      if (module == kQuery) place.interleaved_heads = config.heads;
      if (module == kKey) place.interleaved_heads = config.kv_heads;
    }
    return place;
  }
  return {};
}

}  // namespace lorica
