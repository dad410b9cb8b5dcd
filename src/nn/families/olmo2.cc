// OLMo 2: a Llama block with norms behind attention and feed-forward, and of the whole projected
// queries and keys. Team OLMo, "2 OLMo 2 Furious", 2024.
#include <nlohmann/json.hpp>

#include "lorica/nn/families/family.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {"attention_bias"};

void Shape(ModelConfig& config) {
  config.norms = NormPlacement::kAfter;
  config.qk_norm = QkNorm::kProjection;
}

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  return absl::OkStatus();
}

void WriteJson(const ModelConfig& config, OrderedJson& json) {
  json["attention_bias"] = config.qkv_bias;
}

}  // namespace

const Family& Olmo2Family() {
  static constexpr Family kFamily = {.name = "olmo2",
                                     .architecture = "Olmo2ForCausalLM",
                                     .gguf = "olmo2",
                                     .shape = Shape,
                                     .defaults = R"({"rms_norm_eps": 1e-5})",
                                     .keys = kKeys,
                                     .read_json = ReadJson,
                                     .write_json = WriteJson};
  return kFamily;
}

}  // namespace lorica::internal
