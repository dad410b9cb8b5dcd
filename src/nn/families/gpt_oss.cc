// gpt-oss: windows in every other block, a sink per head, biases everywhere, experts whose gate and
// up projections take turns and are clamped. OpenAI, "gpt-oss-120b & gpt-oss-20b model card", 2025.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/expert_fields.h"
#include "lorica/nn/families/expert_gguf.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {
    "attention_bias",       "experts_per_token",   "initial_context_length", "layer_types",
    "num_experts",          "num_experts_per_tok", "num_local_experts",      "output_router_logits",
    "router_aux_loss_coef", "sliding_window",      "swiglu_alpha",           "swiglu_limit"};

void Shape(ModelConfig& config) {
  config.qkv_bias = config.o_bias = true;
  config.attention_sinks = true;
  nn::MoeConfig& moe = config.moe;
  moe.router.softmax_after_topk = true;
  moe.router_bias = moe.expert_bias = true;
  moe.router_wide = false;
  moe.router_name = "router";
  moe.activation.interleaved = true;
  moe.activation.offset = 1;
  moe.activation.slope = 1.702;
  moe.activation.limit = 7;
}

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const bool bias, json.BoolOr("attention_bias", true));
  if (!bias) return json.Wrong("attention_bias", "expected true");
  LORICA_RETURN_IF_ERROR(ReadExperts(json, "intermediate_size", config));
  nn::MoeConfig& moe = config.moe;
  // The name of its makers, beside the one that transformers reads.
  LORICA_ASSIGN_OR_RETURN(const int64_t per_token,
                          json.IntOr("experts_per_token", moe.router.top_k));
  if (per_token != moe.router.top_k) {
    return json.Wrong("experts_per_token", absl::StrCat("expected num_experts_per_tok, ",
                                                        moe.router.top_k, ", found ", per_token));
  }
  LORICA_ASSIGN_OR_RETURN(moe.activation.slope,
                          json.DoubleOr("swiglu_alpha", moe.activation.slope));
  LORICA_ASSIGN_OR_RETURN(moe.activation.limit,
                          json.DoubleOr("swiglu_limit", moe.activation.limit));
  if (!(moe.activation.limit > 0)) {
    return json.Wrong("swiglu_limit",
                      absl::StrCat("expected a positive number, found ", moe.activation.limit));
  }
  LORICA_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(json));
  LORICA_ASSIGN_OR_RETURN(std::vector<bool> sliding, ReadSlidingLayers(json, config));
  if (sliding.empty()) sliding = AllButEach(2, config.layers);
  LORICA_RETURN_IF_ERROR(SetWindows(json, sliding, window, config));
  SetSparse(std::vector<bool>(static_cast<size_t>(config.layers), true), config);
  return absl::OkStatus();
}

absl::Status ReadGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(
      ReadGgufExperts(file, prefix, {.gating = GgufGating::kSoftmaxOfChosen}, config));
  config.intermediate_size = config.moe.expert_width;
  // No key says so; every released configuration does.
  config.rope.truncate = false;
  return ReadGgufWindows(file, prefix, 2, config);
}

void WriteJson(const ModelConfig& config, OrderedJson& json) {
  WriteExperts(config, "num_local_experts", "intermediate_size", json);
  json["attention_bias"] = true;
  json["swiglu_alpha"] = config.moe.activation.slope;
  json["swiglu_limit"] = config.moe.activation.limit;
  WriteWindow(config, json);
  WriteLayerTypes(config, json);
}

}  // namespace

const Family& GptOssFamily() {
  static constexpr Family kFamily = {.name = "gpt_oss",
                                     .architecture = "GptOssForCausalLM",
                                     .gguf = "gpt-oss",
                                     .shape = Shape,
                                     .defaults = R"({"sliding_window": 128})",
                                     .rope_theta = 150000,
                                     .keys = kKeys,
                                     .read_json = ReadJson,
                                     .write_json = WriteJson,
                                     .transposed_experts = true,
                                     .gguf_keys = kGgufWindowKeys,
                                     .read_gguf = ReadGguf,
                                     .gguf_experts = true,
                                     .gguf_post_attention_norm = true};
  return kFamily;
}

}  // namespace lorica::internal
