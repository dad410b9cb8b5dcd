// Qwen3.5 and Qwen3.6 with experts, text alone: three blocks of the gated delta rule to each one of
// gated attention, mixtures with a shared expert behind a sigmoid gate. Qwen team, "Qwen3-Next",
// 2025.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/families/expert_fields.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {"attention_bias",
                                       "attn_output_gate",
                                       "full_attention_interval",
                                       "layer_types",
                                       "linear_conv_kernel_dim",
                                       "linear_key_head_dim",
                                       "linear_num_key_heads",
                                       "linear_num_value_heads",
                                       "linear_value_head_dim",
                                       "moe_intermediate_size",
                                       "norm_topk_prob",
                                       "num_experts",
                                       "num_experts_per_tok",
                                       "num_local_experts",
                                       "output_router_logits",
                                       "router_aux_loss_coef",
                                       "shared_expert_intermediate_size"};

constexpr absl::string_view kFull = "full_attention", kLinear = "linear_attention";

struct Size {
  absl::string_view key;
  int64_t DeltaSizes::*field;
};
constexpr Size kSizes[] = {{"linear_num_key_heads", &DeltaSizes::key_heads},
                           {"linear_key_head_dim", &DeltaSizes::key_head_dim},
                           {"linear_num_value_heads", &DeltaSizes::value_heads},
                           {"linear_value_head_dim", &DeltaSizes::value_head_dim},
                           {"linear_conv_kernel_dim", &DeltaSizes::taps}};

void Shape(ModelConfig& config) {
  config.qk_norm = QkNorm::kHead;
  config.norm_offset = true;
  config.attention_gate = true;
}

absl::Status ReadLayers(const JsonObject& json, ModelConfig& config) {
  std::vector<LayerConfig> layers = LayersOf(config);
  std::vector<std::string> types;
  if (json.Has("layer_types")) {
    LORICA_ASSIGN_OR_RETURN(types, json.Strings("layer_types"));
  } else {
    LORICA_ASSIGN_OR_RETURN(const int64_t interval, json.IntOr("full_attention_interval", 4));
    if (interval < 1) {
      return json.Wrong("full_attention_interval",
                        absl::StrCat("expected a positive number, found ", interval));
    }
    for (int64_t i = 0; i < config.layers; ++i) {
      types.emplace_back((i + 1) % interval == 0 ? kFull : kLinear);
    }
  }
  if (types.size() != layers.size()) {
    return json.Wrong("layer_types", absl::StrCat("expected a word for each of ", layers.size(),
                                                  " layers, found ", types.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != kFull && types[i] != kLinear) {
      return json.Wrong("layer_types", absl::StrCat("layer ", i, " is ", Quoted(types[i]),
                                                    ", only \"full_attention\" and ",
                                                    "\"linear_attention\" are supported"));
    }
    layers[i].delta = types[i] == kLinear;
    layers[i].experts = true;
  }
  SetLayers(std::move(layers), config);
  return absl::OkStatus();
}

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  LORICA_ASSIGN_OR_RETURN(const bool gate, json.BoolOr("attn_output_gate", true));
  if (!gate) return json.Wrong("attn_output_gate", "expected true, found false");
  LORICA_RETURN_IF_ERROR(ReadExperts(json, "moe_intermediate_size", config));
  LORICA_ASSIGN_OR_RETURN(config.moe.router.normalize, json.BoolOr("norm_topk_prob", true));
  if (!config.moe.router.normalize) return json.Wrong("norm_topk_prob", "expected true");
  LORICA_RETURN_IF_ERROR(ReadGatedSharedExpert(json, config));
  constexpr int64_t kMost = int64_t{1} << 16;
  for (const Size& size : kSizes) {
    LORICA_ASSIGN_OR_RETURN(config.delta.*size.field, json.Int(size.key));
    if (config.delta.*size.field < 1 || config.delta.*size.field > kMost) {
      return json.Wrong(size.key, absl::StrCat("expected a number from 1 to ", kMost, ", found ",
                                               config.delta.*size.field));
    }
  }
  if (config.delta.value_heads % config.delta.key_heads != 0) {
    return json.Wrong("linear_num_value_heads",
                      absl::StrCat("expected a multiple of linear_num_key_heads ",
                                   config.delta.key_heads, ", found ", config.delta.value_heads));
  }
  if (config.delta.channels() > (int64_t{1} << 20)) {
    return json.Wrong("linear_value_head_dim", "expected at most 1048576 channels of all heads");
  }
  return ReadLayers(json, config);
}

void WriteJson(const ModelConfig& config, OrderedJson& json) {
  json["attention_bias"] = config.qkv_bias;
  WriteExperts(config, "num_experts", "moe_intermediate_size", json);
  json["shared_expert_intermediate_size"] = config.moe.shared_width;
  for (const Size& size : kSizes) json[std::string(size.key)] = config.delta.*size.field;
  OrderedJson types = OrderedJson::array();
  for (int i = 0; i < static_cast<int>(config.layers); ++i) {
    types.push_back(std::string(config.Layer(i).delta ? kLinear : kFull));
  }
  json["layer_types"] = std::move(types);
}

}  // namespace

const Family& Qwen35MoeFamily() {
  // intermediate_size has no meaning here; a number keeps the shared check happy.
  static constexpr Family kFamily = {.name = "qwen3_5_moe_text",
                                     .architecture = "Qwen3_5MoeForCausalLM",
                                     .shape = Shape,
                                     .defaults = R"({"intermediate_size": 1})",
                                     .partial_rotary = 0.25,
                                     .keys = kKeys,
                                     .read_json = ReadJson,
                                     .write_json = WriteJson};
  return kFamily;
}

}  // namespace lorica::internal
