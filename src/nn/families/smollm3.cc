// SmolLM3: a Llama block, of which some don't rotate positions. E. Bakouch et al., "SmolLM3", 2025;
// B. Yang et al., "RoPE to NoPE and back again", 2025.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

// pretraining_tp and max_window_layers stand in published files, but nothing in the class looks at
// them.
constexpr absl::string_view kKeys[] = {
    "attention_bias",         "layer_types",    "max_window_layers", "mlp_bias",
    "no_rope_layer_interval", "no_rope_layers", "pretraining_tp",    "sliding_window",
    "use_sliding_window"};

// What GGUF files, which don't say it, mean.
constexpr int64_t kGgufInterval = 4;

void SetRotation(const std::vector<bool>& rotates, ModelConfig& config) {
  std::vector<LayerConfig> layers = LayersOf(config);
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].rope = rotates[i] ? LayerConfig::Rope::kMain : LayerConfig::Rope::kNone;
  }
  SetLayers(std::move(layers), config);
}

// Despite the field's name 1 means that a layer rotates.
absl::StatusOr<std::vector<bool>> ReadRotation(const JsonObject& json, const ModelConfig& config) {
  std::vector<bool> rotates;
  if (!json.Has("no_rope_layers")) {
    LORICA_ASSIGN_OR_RETURN(const int64_t interval, json.Int("no_rope_layer_interval"));
    if (interval < 1) {
      return json.Wrong("no_rope_layer_interval",
                        absl::StrCat("expected a positive number, found ", interval));
    }
    return AllButEach(interval, config.layers);
  }
  LORICA_ASSIGN_OR_RETURN(const std::vector<int64_t> flags, json.Ints("no_rope_layers"));
  if (static_cast<int64_t>(flags.size()) < config.layers) {
    return json.Wrong("no_rope_layers",
                      absl::StrCat("expected a number for each of ", config.layers,
                                   " layers, found ", flags.size()));
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    if (flags[i] != 0 && flags[i] != 1) {
      return json.Wrong("no_rope_layers", absl::StrCat("layer ", i, ": expected 1 (it rotates) or ",
                                                       "0, found ", flags[i]));
    }
    rotates.push_back(flags[i] == 1);
  }
  return rotates;
}

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  LORICA_ASSIGN_OR_RETURN(config.mlp_bias, json.BoolOr("mlp_bias", false));
  LORICA_ASSIGN_OR_RETURN(const std::vector<bool> rotates, ReadRotation(json, config));
  SetRotation(rotates, config);
  LORICA_ASSIGN_OR_RETURN(const bool uses, json.BoolOr("use_sliding_window", false));
  int64_t window = 0;
  if (uses) {
    LORICA_ASSIGN_OR_RETURN(window, ReadWindow(json));
  }
  LORICA_ASSIGN_OR_RETURN(std::vector<bool> sliding, ReadSlidingLayers(json, config));
  if (sliding.empty() && window > 0) {
    for (const bool rotated : rotates) sliding.push_back(!rotated);
  }
  return SetWindows(json, sliding, window, config);
}

void WriteJson(const ModelConfig& config, OrderedJson& json) {
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  OrderedJson rotates = OrderedJson::array();
  bool windows = false;
  for (int i = 0; i < static_cast<int>(config.layers); ++i) {
    rotates.push_back(config.Layer(i).rope == LayerConfig::Rope::kNone ? 0 : 1);
    windows = windows || config.Layer(i).window > 0;
  }
  json["no_rope_layers"] = std::move(rotates);
  json["use_sliding_window"] = windows;
  WriteWindow(config, json);
  WriteLayerTypes(config, json);
}

absl::Status ReadGguf(const GgufFile&, const std::string&, ModelConfig& config) {
  SetRotation(AllButEach(kGgufInterval, config.layers), config);
  return absl::OkStatus();
}

}  // namespace

const Family& SmolLm3Family() {
  static constexpr Family kFamily = {
      .name = "smollm3",
      .architecture = "SmolLM3ForCausalLM",
      .gguf = "smollm3",
      .defaults = R"({"num_key_value_heads": 4, "no_rope_layer_interval": 4,
                      "tie_word_embeddings": true})",
      .rope_theta = 2e6,
      .keys = kKeys,
      .read_json = ReadJson,
      .write_json = WriteJson,
      .read_gguf = ReadGguf,
      .gguf_interleaves_rotation = true};
  return kFamily;
}

}  // namespace lorica::internal
