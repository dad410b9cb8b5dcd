#include "lorica/nn/families/layer_pattern.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/families/gguf_fields.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kFull = "full_attention", kSliding = "sliding_attention";

int64_t WindowOf(const ModelConfig& config) {
  for (const LayerConfig& layer : config.layer_configs) {
    if (layer.window > 0) return layer.window;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::vector<bool>> ReadSlidingLayers(const JsonObject& json,
                                                    const ModelConfig& config) {
  std::vector<bool> sliding;
  if (!json.Has("layer_types")) return sliding;
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> types, json.Strings("layer_types"));
  if (static_cast<int64_t>(types.size()) != config.layers) {
    return json.Wrong("layer_types", absl::StrCat("expected a word for each of ", config.layers,
                                                  " layers, found ", types.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != kFull && types[i] != kSliding) {
      return json.Wrong("layer_types", absl::StrCat("layer ", i, " is ", Quoted(types[i]),
                                                    ", only \"full_attention\" and ",
                                                    "\"sliding_attention\" are supported"));
    }
    sliding.push_back(types[i] == kSliding);
  }
  return sliding;
}

void WriteLayerTypes(const ModelConfig& config, OrderedJson& json) {
  OrderedJson types = OrderedJson::array();
  for (int i = 0; i < static_cast<int>(config.layers); ++i) {
    types.push_back(std::string(config.Layer(i).window > 0 ? kSliding : kFull));
  }
  json["layer_types"] = std::move(types);
}

absl::StatusOr<int64_t> ReadWindow(const JsonObject& json) {
  if (!json.Has("sliding_window")) return 0;
  LORICA_ASSIGN_OR_RETURN(const int64_t window, json.Int("sliding_window"));
  if (window < 1) {
    return json.Wrong("sliding_window",
                      absl::StrCat("expected a positive number or null, found ", window));
  }
  return window;
}

void WriteWindow(const ModelConfig& config, OrderedJson& json) {
  const int64_t window = WindowOf(config);
  json["sliding_window"] = window > 0 ? OrderedJson(window) : OrderedJson(nullptr);
}

absl::Status SetWindows(const JsonObject& json, const std::vector<bool>& sliding, int64_t window,
                        ModelConfig& config) {
  std::vector<LayerConfig> layers = LayersOf(config);
  for (size_t i = 0; i < sliding.size() && i < layers.size(); ++i) {
    if (!sliding[i]) continue;
    if (window == 0) {
      return json.Wrong("layer_types", absl::StrCat("layer ", i, " is \"sliding_attention\", but ",
                                                    "no sliding_window is in use"));
    }
    layers[i].window = window;
  }
  SetLayers(std::move(layers), config);
  return absl::OkStatus();
}

std::vector<bool> AllButEach(int64_t period, int64_t layers) {
  std::vector<bool> sliding;
  for (int64_t i = 0; i < layers; ++i) sliding.push_back(period == 0 || (i + 1) % period != 0);
  return sliding;
}

std::vector<LayerConfig> LayersOf(const ModelConfig& config) {
  std::vector<LayerConfig> layers = config.layer_configs;
  layers.resize(static_cast<size_t>(config.layers));
  return layers;
}

void SetLayers(std::vector<LayerConfig> layers, ModelConfig& config) {
  const bool plain = std::all_of(layers.begin(), layers.end(),
                                 [](const LayerConfig& layer) { return layer == LayerConfig(); });
  config.layer_configs = plain ? std::vector<LayerConfig>() : std::move(layers);
}

absl::Status ReadGgufWindows(const GgufFile& file, const std::string& prefix, int64_t period,
                             ModelConfig& config) {
  const std::string window_key = prefix + "attention.sliding_window";
  const std::string pattern_key = prefix + "attention.sliding_window_pattern";
  LORICA_ASSIGN_OR_RETURN(const int64_t window, BoundedOrZero(file, window_key, int64_t{1} << 31));
  if (window == 0) return absl::OkStatus();
  std::vector<bool> sliding;
  const absl::StatusOr<std::vector<int64_t>> flags = file.GetInts(pattern_key);
  if (flags.ok()) {
    if (static_cast<int64_t>(flags->size()) != config.layers) {
      return Wrong(file, pattern_key, "expected a flag for each of ", config.layers,
                   " layers, found ", flags->size());
    }
    for (const int64_t flag : *flags) sliding.push_back(flag != 0);
  } else {
    if (file.Has(pattern_key)) {
      LORICA_ASSIGN_OR_RETURN(period, BoundedOrZero(file, pattern_key, config.layers));
    } else if (period < 0) {
      return Wrong(file, window_key, "expected ", pattern_key,
                   " beside it, which says for which layers it is meant, found none");
    }
    sliding = AllButEach(period, config.layers);
  }
  std::vector<LayerConfig> layers = LayersOf(config);
  for (size_t i = 0; i < layers.size(); ++i) layers[i].window = sliding[i] ? window : 0;
  SetLayers(std::move(layers), config);
  return absl::OkStatus();
}

}  // namespace lorica::internal
