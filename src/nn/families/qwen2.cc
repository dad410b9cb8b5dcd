// Qwen2 and Qwen2.5: a Llama block with biases on q, k and v. A. Yang et al., "Qwen2 technical
// report", 2024.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/family.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {"use_sliding_window", "sliding_window", "max_window_layers"};

// transformers slides layers from max_window_layers on, where use_sliding_window is true;
// layer_types, which is checked for all families, says so layer by layer and wins.
absl::Status CheckWindow(const JsonObject& json, const ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const bool uses, json.BoolOr("use_sliding_window", false));
  LORICA_ASSIGN_OR_RETURN(const int64_t window, json.IntOr("sliding_window", 4096));
  LORICA_ASSIGN_OR_RETURN(const int64_t first, json.IntOr("max_window_layers", 28));
  const bool null_window = json.json().contains("sliding_window") && !json.Has("sliding_window");
  if (!uses || null_window || json.Has("layer_types") || first >= config.layers) {
    return absl::OkStatus();
  }
  return json.Wrong("use_sliding_window",
                    absl::StrCat("expected false, found true with sliding_window ", window,
                                 " from layer ", first, " on; sliding windows are not supported"));
}

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  // Absent it means 32 to transformers, whatever the number of heads: too odd to go by.
  if (!json.json().contains("num_key_value_heads")) {
    return json.WrongType("num_key_value_heads", "an integer");
  }
  config.qkv_bias = true;
  return CheckWindow(json, config);
}

absl::Status WriteJson(const ModelConfig& config, OrderedJson& json) {
  if (!config.qkv_bias || config.o_bias || config.mlp_bias) {
    return absl::InvalidArgumentError(
        "config.json of a qwen2 model can't say other biases than those on q, k and v");
  }
  json["use_sliding_window"] = false;
  return absl::OkStatus();
}

}  // namespace

const Family& Qwen2Family() {
  static constexpr Family kFamily = {.name = "qwen2",
                                     .architecture = "Qwen2ForCausalLM",
                                     .keys = kKeys,
                                     .read_json = ReadJson,
                                     .write_json = WriteJson,
                                     .gguf_interleaves_rotation = false};
  return kFamily;
}

}  // namespace lorica::internal
