// Qwen2-MoE: Qwen2 with experts and a shared expert behind a sigmoid gate; Qwen3-MoE: Qwen3 with
// experts alone. A. Yang et al., "Qwen2 technical report", 2024; "Qwen3 technical report", 2025.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/expert_fields.h"
#include "lorica/nn/families/expert_gguf.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kQwen2Keys[] = {"decoder_sparse_step",
                                            "layer_types",
                                            "max_window_layers",
                                            "mlp_only_layers",
                                            "moe_intermediate_size",
                                            "norm_topk_prob",
                                            "num_experts",
                                            "num_experts_per_tok",
                                            "num_local_experts",
                                            "output_router_logits",
                                            "qkv_bias",
                                            "router_aux_loss_coef",
                                            "shared_expert_intermediate_size",
                                            "sliding_window",
                                            "use_sliding_window"};
constexpr absl::string_view kQwen3Keys[] = {
    "attention_bias",        "decoder_sparse_step",  "max_window_layers",    "mlp_only_layers",
    "moe_intermediate_size", "norm_topk_prob",       "num_experts",          "num_experts_per_tok",
    "num_local_experts",     "output_router_logits", "router_aux_loss_coef", "sliding_window",
    "use_sliding_window"};

// Windows are off in every released model; transformers ignores max_window_layers for Qwen3-MoE.
absl::Status CheckNoWindow(const JsonObject& json) {
  LORICA_ASSIGN_OR_RETURN(const bool uses, json.BoolOr("use_sliding_window", false));
  if (uses) {
    return json.Wrong("use_sliding_window", "true changes the maths and isn't supported here");
  }
  if (!json.Has("layer_types")) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> types, json.Strings("layer_types"));
  for (const std::string& type : types) {
    if (type != "full_attention") {
      return json.Wrong("layer_types", absl::StrCat(type, " is not supported here"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadMixture(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(CheckNoWindow(json));
  LORICA_RETURN_IF_ERROR(ReadExperts(json, "moe_intermediate_size", config));
  LORICA_ASSIGN_OR_RETURN(config.moe.router.normalize, json.BoolOr("norm_topk_prob", false));
  LORICA_ASSIGN_OR_RETURN(const std::vector<bool> sparse, ReadSparseBySteps(json, config));
  SetSparse(sparse, config);
  return absl::OkStatus();
}

absl::Status ReadQwen2(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadMixture(json, config));
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("qkv_bias", true));
  return ReadGatedSharedExpert(json, config);
}

// Whether weights are divided by their sum no key says: llama.cpp goes by the architecture.
absl::Status ReadQwen2Gguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  return ReadGgufExperts(file, prefix, {.shared = GgufExpertRules::Shared::kGated}, config);
}

absl::Status ReadQwen3Gguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  return ReadGgufExperts(file, prefix, {.normalize = true}, config);
}

void WriteMixture(const ModelConfig& config, OrderedJson& json) {
  WriteExperts(config, "num_experts", "moe_intermediate_size", json);
  json["norm_topk_prob"] = config.moe.router.normalize;
  WriteDenseLayers(config, json);
  json["use_sliding_window"] = false;
}

void WriteQwen2(const ModelConfig& config, OrderedJson& json) {
  WriteMixture(config, json);
  json["qkv_bias"] = config.qkv_bias;
  json["shared_expert_intermediate_size"] = config.moe.shared_width;
}

void ShapeQwen3(ModelConfig& config) { config.qk_norm = QkNorm::kHead; }

absl::Status ReadQwen3(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadMixture(json, config));
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  return absl::OkStatus();
}

void WriteQwen3(const ModelConfig& config, OrderedJson& json) {
  WriteMixture(config, json);
  json["attention_bias"] = config.qkv_bias;
}

}  // namespace

const Family& Qwen2MoeFamily() {
  static constexpr Family kFamily = {.name = "qwen2_moe",
                                     .architecture = "Qwen2MoeForCausalLM",
                                     .gguf = "qwen2moe",
                                     .keys = kQwen2Keys,
                                     .read_json = ReadQwen2,
                                     .write_json = WriteQwen2,
                                     .read_gguf = ReadQwen2Gguf,
                                     .gguf_experts = true};
  return kFamily;
}

const Family& Qwen3MoeFamily() {
  static constexpr Family kFamily = {.name = "qwen3_moe",
                                     .architecture = "Qwen3MoeForCausalLM",
                                     .gguf = "qwen3moe",
                                     .shape = ShapeQwen3,
                                     .keys = kQwen3Keys,
                                     .read_json = ReadQwen3,
                                     .write_json = WriteQwen3,
                                     .read_gguf = ReadQwen3Gguf,
                                     .gguf_experts = true};
  return kFamily;
}

}  // namespace lorica::internal
