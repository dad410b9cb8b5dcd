// Phi-3 and Phi-4-mini: a Llama block with fused projections. M. Abdin et al., "Phi-3 technical
// report", 2024.
#include <nlohmann/json.hpp>

#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

// The biases stand in published files, but the class has none.
constexpr absl::string_view kKeys[] = {"attention_bias", "mlp_bias", "sliding_window"};
constexpr absl::string_view kGgufKeys[] = {"attention.sliding_window"};

void Shape(ModelConfig& config) { config.fused_projections = true; }

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(json));
  if (window == 0) return absl::OkStatus();
  return SetWindows(json, AllButEach(0, config.layers), window, config);
}

void WriteJson(const ModelConfig& config, OrderedJson& json) {
  WriteWindow(config, json);
  // The class reads it from here, whatever the scaling says.
  json["original_max_position_embeddings"] = config.rope.kind == RopeConfig::Kind::kDefault
                                                 ? json["max_position_embeddings"]
                                                 : OrderedJson(config.rope.original_positions);
}

absl::Status ReadGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  return ReadGgufWindows(file, prefix, 0, config);
}

}  // namespace

const Family& Phi3Family() {
  static constexpr Family kFamily = {
      .name = "phi3",
      .architecture = "Phi3ForCausalLM",
      .gguf = "phi3",
      .shape = Shape,
      .defaults = R"({"rms_norm_eps": 1e-5, "original_max_position_embeddings": 4096})",
      .keys = kKeys,
      .read_json = ReadJson,
      .write_json = WriteJson,
      .gguf_keys = kGgufKeys,
      .read_gguf = ReadGguf};
  return kFamily;
}

}  // namespace lorica::internal
