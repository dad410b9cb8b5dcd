// Mixtral, OLMoE and MiniMax-M2: ordinary attention and a mixture of experts in every block.
// A. Jiang et al., "Mixtral of experts", 2024; N. Muennighoff et al., "OLMoE", 2024.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/expert_fields.h"
#include "lorica/nn/families/expert_gguf.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kMixtralKeys[] = {
    "num_local_experts",    "num_experts",         "num_experts_per_tok", "output_router_logits",
    "router_aux_loss_coef", "router_jitter_noise", "sliding_window"};
constexpr absl::string_view kOlmoeKeys[] = {
    "attention_bias",      "clip_qkv",       "num_local_experts",    "num_experts",
    "num_experts_per_tok", "norm_topk_prob", "output_router_logits", "router_aux_loss_coef"};
constexpr absl::string_view kOlmoeGgufKeys[] = {"attention.clamp_kqv"};
constexpr absl::string_view kMiniMaxKeys[] = {
    "num_local_experts",    "num_experts",         "num_experts_per_tok", "output_router_logits",
    "router_aux_loss_coef", "router_jitter_noise", "use_qk_norm",         "qk_norm_type",
    "scoring_func",         "use_routing_bias",    "rotary_dim"};

void SetAllSparse(ModelConfig& config) {
  SetSparse(std::vector<bool>(static_cast<size_t>(config.layers), true), config);
}

absl::Status ReadMixtral(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadExperts(json, "intermediate_size", config));
  config.moe.router.normalize = true;
  LORICA_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(json));
  if (window > 0) {
    LORICA_RETURN_IF_ERROR(SetWindows(json, AllButEach(0, config.layers), window, config));
  }
  SetAllSparse(config);
  return absl::OkStatus();
}

void WriteMixtral(const ModelConfig& config, OrderedJson& json) {
  WriteExperts(config, "num_local_experts", "intermediate_size", json);
  WriteWindow(config, json);
}

void ShapeWholeNorms(ModelConfig& config) { config.qk_norm = QkNorm::kProjection; }

absl::Status ReadOlmoe(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadExperts(json, "intermediate_size", config));
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  LORICA_ASSIGN_OR_RETURN(config.moe.router.normalize, json.BoolOr("norm_topk_prob", false));
  LORICA_ASSIGN_OR_RETURN(config.qkv_clip, json.DoubleOr("clip_qkv", 0));
  SetAllSparse(config);
  return absl::OkStatus();
}

absl::Status ReadOlmoeGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadGgufExperts(file, prefix, {}, config));
  config.intermediate_size = config.moe.expert_width;
  LORICA_ASSIGN_OR_RETURN(config.qkv_clip, file.GetF64Or(prefix + "attention.clamp_kqv", 0));
  return absl::OkStatus();
}

void WriteOlmoe(const ModelConfig& config, OrderedJson& json) {
  WriteExperts(config, "num_experts", "intermediate_size", json);
  json["attention_bias"] = config.qkv_bias;
  json["norm_topk_prob"] = config.moe.router.normalize;
  json["clip_qkv"] = config.qkv_clip > 0 ? OrderedJson(config.qkv_clip) : OrderedJson(nullptr);
}

absl::Status ReadMiniMax(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadExperts(json, "intermediate_size", config));
  LORICA_ASSIGN_OR_RETURN(const std::string score, json.StringOr("scoring_func", "sigmoid"));
  LORICA_ASSIGN_OR_RETURN(const std::string norm, json.StringOr("qk_norm_type", "per_layer"));
  LORICA_ASSIGN_OR_RETURN(const bool norms, json.BoolOr("use_qk_norm", true));
  LORICA_ASSIGN_OR_RETURN(const bool bias, json.BoolOr("use_routing_bias", true));
  LORICA_ASSIGN_OR_RETURN(const int64_t rotated, json.IntOr("rotary_dim", config.rope.channels));
  if (score != "sigmoid") return json.Wrong("scoring_func", "expected \"sigmoid\"");
  if (norm != "per_layer") return json.Wrong("qk_norm_type", "expected \"per_layer\"");
  if (!norms) return json.Wrong("use_qk_norm", "expected true");
  if (!bias) return json.Wrong("use_routing_bias", "expected true");
  // Files of the first release name the rotated channels themselves.
  config.rope.channels = rotated;
  config.moe.router.score = ScoreFunction::kSigmoid;
  config.moe.router.normalize = true;
  config.moe.correction_bias = true;
  SetAllSparse(config);
  return absl::OkStatus();
}

absl::Status ReadMiniMaxGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(
      ReadGgufExperts(file, prefix, {.gating = GgufGating::kSigmoid, .normalize = true}, config));
  config.intermediate_size = config.moe.expert_width;
  config.moe.correction_bias = true;
  return absl::OkStatus();
}

void WriteMiniMax(const ModelConfig& config, OrderedJson& json) {
  WriteExperts(config, "num_local_experts", "intermediate_size", json);
}

}  // namespace

const Family& MixtralFamily() {
  static constexpr Family kFamily = {.name = "mixtral",
                                     .architecture = "MixtralForCausalLM",
                                     .gguf = "llama",
                                     .rope_theta = 1000000,
                                     .keys = kMixtralKeys,
                                     .read_json = ReadMixtral,
                                     .write_json = WriteMixtral,
                                     .gguf_interleaves_rotation = true};
  return kFamily;
}

const Family& OlmoeFamily() {
  static constexpr Family kFamily = {.name = "olmoe",
                                     .architecture = "OlmoeForCausalLM",
                                     .gguf = "olmoe",
                                     .shape = ShapeWholeNorms,
                                     .keys = kOlmoeKeys,
                                     .read_json = ReadOlmoe,
                                     .write_json = WriteOlmoe,
                                     .gguf_keys = kOlmoeGgufKeys,
                                     .read_gguf = ReadOlmoeGguf,
                                     .gguf_experts = true};
  return kFamily;
}

const Family& MiniMaxM2Family() {
  static constexpr Family kFamily = {.name = "minimax_m2",
                                     .architecture = "MiniMaxM2ForCausalLM",
                                     .gguf = "minimax-m2",
                                     .shape = ShapeWholeNorms,
                                     .rope_theta = 5000000,
                                     .keys = kMiniMaxKeys,
                                     .read_json = ReadMiniMax,
                                     .write_json = WriteMiniMax,
                                     .read_gguf = ReadMiniMaxGguf,
                                     .gguf_experts = true};
  return kFamily;
}

}  // namespace lorica::internal
