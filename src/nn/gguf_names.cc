// Names of GGUF files for the paths of a model.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/model_loader.h"

namespace lorica {
namespace {

struct Rename {
  absl::string_view module;
  absl::string_view gguf;
};

constexpr Rename kTop[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};

constexpr absl::string_view kQuery = "self_attn.q_proj";
constexpr absl::string_view kKey = "self_attn.k_proj";
constexpr absl::string_view kSecondNorm = "post_attention_layernorm";

// Behind "model.layers.N." and "blk.N.".
constexpr Rename kInLayer[] = {
    {kQuery, "attn_q"},
    {kKey, "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {kSecondNorm, "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

}  // namespace

GgufPlace PlaceInGguf(absl::string_view path, const ModelConfig& config) {
  const size_t dot = path.rfind('.');
  if (dot == absl::string_view::npos) return {};
  absl::string_view module = path.substr(0, dot);
  const absl::string_view parameter = path.substr(dot);  // ".weight", ".bias"
  // llama.cpp multiplies by what it finds.
  const double added = config.norm_offset && absl::EndsWith(module, "norm") ? 1 : 0;
  for (const Rename& rename : kTop) {
    if (module == rename.module) return {absl::StrCat(rename.gguf, parameter), 0, added};
  }
  constexpr absl::string_view kLayers = "model.layers.";
  if (!absl::StartsWith(module, kLayers)) return {};
  module.remove_prefix(kLayers.size());
  const size_t end = module.find('.');
  if (end == absl::string_view::npos) return {};
  const absl::string_view number = module.substr(0, end);
  module.remove_prefix(end + 1);
  for (const Rename& rename : kInLayer) {
    if (module != rename.module) continue;
    // The norm of that name stands before the feed-forward where there is none behind attention.
    const bool before = module == kSecondNorm && config.norms == NormPlacement::kBefore;
    GgufPlace place{absl::StrCat("blk.", number, ".", before ? "ffn_norm" : rename.gguf, parameter),
                    0, added};
    const internal::Family* family = internal::FindFamily(config.family);
    if (family != nullptr && family->gguf_interleaves_rotation) {
      if (module == kQuery) place.interleaved_heads = config.heads;
      if (module == kKey) place.interleaved_heads = config.kv_heads;
    }
    return place;
  }
  return {};
}

}  // namespace lorica
