// GLM-4.5: partly rotated heads, leading dense blocks, then mixtures with shared experts and the
// router of DeepSeek-V3. GLM-4.5 team, "GLM-4.5", 2025.
#include <nlohmann/json.hpp>

#include "lorica/nn/families/expert_fields.h"
#include "lorica/nn/families/expert_gguf.h"
#include "lorica/nn/families/family.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {"attention_bias",
                                       "first_k_dense_replace",
                                       "moe_intermediate_size",
                                       "n_group",
                                       "n_routed_experts",
                                       "n_shared_experts",
                                       "norm_topk_prob",
                                       "num_experts",
                                       "num_experts_per_tok",
                                       "num_local_experts",
                                       "num_mtp_layers",
                                       "num_nextn_predict_layers",
                                       "output_router_logits",
                                       "routed_scaling_factor",
                                       "topk_group",
                                       "use_qk_norm"};

constexpr absl::string_view kGgufKeys[] = {"nextn_predict_layers"};

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  LORICA_ASSIGN_OR_RETURN(const bool norms, json.BoolOr("use_qk_norm", false));
  if (norms) config.qk_norm = QkNorm::kHead;
  LORICA_RETURN_IF_ERROR(ReadExperts(json, "moe_intermediate_size", config));
  LORICA_RETURN_IF_ERROR(ReadCorrectedRouter(json, config));
  LORICA_ASSIGN_OR_RETURN(const std::vector<bool> sparse, ReadSparseBehindDense(json, config));
  SetSparse(sparse, config);
  return ReadSkippedLayers(json, config);
}

absl::Status ReadGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  if (HasBlockTensor(file, "attn_q_norm.weight")) config.qk_norm = QkNorm::kHead;
  SetCorrectedRouter(config);
  return ReadGgufExperts(
      file, prefix,
      {.gating = GgufGating::kSigmoid, .groups = true, .shared = GgufExpertRules::Shared::kCount},
      config);
}

void WriteJson(const ModelConfig& config, OrderedJson& json) {
  json["attention_bias"] = config.qkv_bias;
  json["use_qk_norm"] = config.qk_norm == QkNorm::kHead;
  WriteExperts(config, "n_routed_experts", "moe_intermediate_size", json);
  WriteDeepseekRouter(config, json);
  WriteFirstDense(config, json);
  json["num_nextn_predict_layers"] = 0;  // they aren't written
}

}  // namespace

const Family& Glm4MoeFamily() {
  static constexpr Family kFamily = {
      .name = "glm4_moe",
      .architecture = "Glm4MoeForCausalLM",
      .gguf = "glm4moe",
      .defaults = R"({"first_k_dense_replace": 1, "n_shared_experts": 1})",
      .partial_rotary = 0.5,
      .keys = kKeys,
      .read_json = ReadJson,
      .write_json = WriteJson,
      .gguf_keys = kGgufKeys,
      .read_gguf = ReadGguf,
      .gguf_experts = true,
      .gguf_post_attention_norm = true};
  return kFamily;
}

}  // namespace lorica::internal
