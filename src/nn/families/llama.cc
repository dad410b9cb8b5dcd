// Llama and what shares its model type: Llama 2 and 3, TinyLlama, SmolLM2. H. Touvron et al.,
// "LLaMA: open and efficient foundation language models", 2023.
#include <nlohmann/json.hpp>

#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {"attention_bias", "mlp_bias"};
constexpr absl::string_view kGgufKeys[] = {"attention.sliding_window"};

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

// Mistral has no architecture of its own in GGUF files.
absl::Status ReadGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  const std::string key = prefix + "attention.sliding_window";
  if (!file.Has(key)) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(const int64_t window, file.GetI64(key));
  if (window == 0) return absl::OkStatus();
  config.family = std::string(MistralFamily().name);
  std::vector<LayerConfig> layers = LayersOf(config);
  for (LayerConfig& layer : layers) layer.window = window;
  SetLayers(std::move(layers), config);
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
                                     .gguf_keys = kGgufKeys,
                                     .read_gguf = ReadGguf,
                                     .gguf_interleaves_rotation = true};
  return kFamily;
}

}  // namespace lorica::internal
