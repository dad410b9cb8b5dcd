// Llama and what shares its model type: Llama 2, TinyLlama, SmolLM2. H. Touvron et al., "LLaMA:
// open and efficient foundation language models", 2023.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/family.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {"attention_bias", "mlp_bias"};

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  LORICA_ASSIGN_OR_RETURN(config.mlp_bias, json.BoolOr("mlp_bias", false));
  return absl::OkStatus();
}

absl::Status WriteJson(const ModelConfig& config, OrderedJson& json) {
  if (config.qkv_bias != config.o_bias) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json of a llama model has one attention_bias, but this model has ",
                     config.qkv_bias ? "" : "no ", "bias on q, k, v and ",
                     config.o_bias ? "" : "no ", "bias on o"));
  }
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  return absl::OkStatus();
}

}  // namespace

const Family& LlamaFamily() {
  static constexpr Family kFamily = {.name = "llama",
                                     .architecture = "LlamaForCausalLM",
                                     .keys = kKeys,
                                     .read_json = ReadJson,
                                     .write_json = WriteJson,
                                     .gguf_interleaves_rotation = true};
  return kFamily;
}

}  // namespace lorica::internal
