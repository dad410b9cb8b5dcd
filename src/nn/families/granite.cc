// Granite 3: a Llama block with four multipliers. Granite team, IBM, "Granite 3.0 language models",
// 2024; G. Yang et al., "Tensor programs V", 2022.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/family.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

struct Multiplier {
  absl::string_view json, gguf;
  double ModelConfig::*field;
};
constexpr Multiplier kMultipliers[] = {
    {"attention_multiplier", "attention.scale", &ModelConfig::attention_scale},
    {"embedding_multiplier", "embedding_scale", &ModelConfig::embedding_scale},
    {"logits_scaling", "logit_scale", &ModelConfig::logit_divisor},
    {"residual_multiplier", "residual_scale", &ModelConfig::residual_scale},
};
constexpr absl::string_view kKeys[] = {"attention_bias",       "mlp_bias",
                                       "attention_multiplier", "embedding_multiplier",
                                       "logits_scaling",       "residual_multiplier"};
constexpr absl::string_view kGgufKeys[] = {"attention.scale", "embedding_scale", "logit_scale",
                                           "residual_scale"};

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  LORICA_ASSIGN_OR_RETURN(config.mlp_bias, json.BoolOr("mlp_bias", false));
  for (const Multiplier& one : kMultipliers) {
    LORICA_ASSIGN_OR_RETURN(config.*one.field, json.DoubleOr(one.json, 1));
    if (!(config.*one.field > 0)) {
      return json.Wrong(one.json,
                        absl::StrCat("expected a positive number, found ", config.*one.field));
    }
  }
  return absl::OkStatus();
}

void WriteJson(const ModelConfig& config, OrderedJson& json) {
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  for (const Multiplier& one : kMultipliers) json[std::string(one.json)] = config.*one.field;
}

// 0 says nothing, as absence does.
absl::Status ReadGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  for (const Multiplier& one : kMultipliers) {
    LORICA_ASSIGN_OR_RETURN(const double value, file.GetF64Or(absl::StrCat(prefix, one.gguf), 0));
    if (value != 0) config.*one.field = value;
  }
  return absl::OkStatus();
}

}  // namespace

const Family& GraniteFamily() {
  static constexpr Family kFamily = {.name = "granite",
                                     .architecture = "GraniteForCausalLM",
                                     .gguf = "granite",
                                     .keys = kKeys,
                                     .read_json = ReadJson,
                                     .write_json = WriteJson,
                                     .gguf_keys = kGgufKeys,
                                     .read_gguf = ReadGguf,
                                     .gguf_interleaves_rotation = true};
  return kFamily;
}

}  // namespace lorica::internal
