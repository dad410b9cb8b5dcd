// Qwen2 and Qwen2.5: a Llama block with biases on q, k and v; Qwen3: norms of queries and keys
// instead. Both may give their last layers a window. A. Yang et al., "Qwen2 technical report",
// 2024; "Qwen3 technical report", 2025.
#include <nlohmann/json.hpp>

#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kQwen2Keys[] = {"layer_types", "max_window_layers", "sliding_window",
                                            "use_sliding_window"};
constexpr absl::string_view kQwen3Keys[] = {"attention_bias", "layer_types", "max_window_layers",
                                            "sliding_window", "use_sliding_window"};

// Layers from max_window_layers on have the window where use_sliding_window is true; layer_types
// says so layer by layer and wins.
absl::Status ReadWindows(const JsonObject& json, ModelConfig& config) {
  // Absent it means 32 to transformers, whatever the number of heads: too odd to go by.
  if (!json.json().contains("num_key_value_heads")) {
    return json.WrongType("num_key_value_heads", "an integer");
  }
  LORICA_ASSIGN_OR_RETURN(const bool uses, json.BoolOr("use_sliding_window", false));
  LORICA_ASSIGN_OR_RETURN(const int64_t first, json.IntOr("max_window_layers", 28));
  int64_t window = 0;
  if (uses) {
    LORICA_ASSIGN_OR_RETURN(window, ReadWindow(json));
  }
  LORICA_ASSIGN_OR_RETURN(std::vector<bool> sliding, ReadSlidingLayers(json, config));
  if (sliding.empty() && window > 0) {
    for (int64_t i = 0; i < config.layers; ++i) sliding.push_back(i >= first);
  }
  return SetWindows(json, sliding, window, config);
}

void WriteWindows(const ModelConfig& config, OrderedJson& json) {
  int64_t first = 0;
  while (first < config.layers && config.Layer(static_cast<int>(first)).window == 0) ++first;
  json["use_sliding_window"] = first < config.layers;
  WriteWindow(config, json);
  json["max_window_layers"] = first;
  if (first < config.layers) WriteLayerTypes(config, json);
}

absl::Status ReadQwen2(const JsonObject& json, ModelConfig& config) {
  config.qkv_bias = true;
  return ReadWindows(json, config);
}

// No released file has windows, so which layers a window is meant for must be said.
absl::Status ReadGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  return ReadGgufWindows(file, prefix, -1, config);
}

void ShapeQwen3(ModelConfig& config) { config.qk_norm = QkNorm::kHead; }

absl::Status ReadQwen3(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  return ReadWindows(json, config);
}

void WriteQwen3(const ModelConfig& config, OrderedJson& json) {
  json["attention_bias"] = config.qkv_bias;
  WriteWindows(config, json);
}

}  // namespace

const Family& Qwen2Family() {
  static constexpr Family kFamily = {.name = "qwen2",
                                     .architecture = "Qwen2ForCausalLM",
                                     .gguf = "qwen2",
                                     .defaults = R"({"sliding_window": 4096})",
                                     .keys = kQwen2Keys,
                                     .read_json = ReadQwen2,
                                     .write_json = WriteWindows,
                                     .gguf_keys = kGgufWindowKeys,
                                     .read_gguf = ReadGguf};
  return kFamily;
}

const Family& Qwen3Family() {
  static constexpr Family kFamily = {.name = "qwen3",
                                     .architecture = "Qwen3ForCausalLM",
                                     .gguf = "qwen3",
                                     .shape = ShapeQwen3,
                                     .defaults = R"({"head_dim": 128, "sliding_window": 4096})",
                                     .keys = kQwen3Keys,
                                     .read_json = ReadQwen3,
                                     .write_json = WriteQwen3,
                                     .gguf_keys = kGgufWindowKeys,
                                     .read_gguf = ReadGguf};
  return kFamily;
}

}  // namespace lorica::internal
