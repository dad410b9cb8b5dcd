// Llama and what shares its model type: Llama 2 and 3, TinyLlama, SmolLM2. H. Touvron et al.,
// "LLaMA: open and efficient foundation language models", 2023.
#include <nlohmann/json.hpp>

#include "lorica/nn/families/expert_gguf.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
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

void WriteJson(const ModelConfig& config, OrderedJson& json) {
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
}

// Mistral and Mixtral have no architecture of their own in GGUF files.
absl::Status ReadGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const uint64_t experts, file.GetU64Or(prefix + "expert_count", 0));
  if (experts > 0) {
    config.family = std::string(MixtralFamily().name);
    LORICA_RETURN_IF_ERROR(ReadGgufExperts(file, prefix, {.normalize = true}, config));
    config.intermediate_size = config.moe.expert_width;
  }
  LORICA_RETURN_IF_ERROR(ReadGgufWindows(file, prefix, 0, config));
  if (experts == 0 && !config.layer_configs.empty()) {
    config.family = std::string(MistralFamily().name);
  }
  return absl::OkStatus();
}

}  // namespace

const Family& LlamaFamily() {
  static constexpr Family kFamily = {.name = "llama",
                                     .architecture = "LlamaForCausalLM",
                                     .gguf = "llama",
                                     .keys = kKeys,
                                     .read_json = ReadJson,
                                     .write_json = WriteJson,
                                     .gguf_keys = kGgufWindowKeys,
                                     .read_gguf = ReadGguf,
                                     .gguf_experts = true,
                                     .gguf_interleaves_rotation = true};
  return kFamily;
}

}  // namespace lorica::internal
