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

// Behind "model.layers.N." and "blk.N.".
constexpr Rename kInLayer[] = {
    {kQuery, "attn_q"},
    {kKey, "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
};

}  // namespace

GgufPlace PlaceInGguf(absl::string_view path, const ModelConfig& config) {
  const size_t dot = path.rfind('.');
  if (dot == absl::string_view::npos) return {};
  absl::string_view module = path.substr(0, dot);
  const absl::string_view parameter = path.substr(dot);  // ".weight", ".bias"
  for (const Rename& rename : kTop) {
    if (module == rename.module) return {absl::StrCat(rename.gguf, parameter), 0};
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
    GgufPlace place{absl::StrCat("blk.", number, ".", rename.gguf, parameter), 0};
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
