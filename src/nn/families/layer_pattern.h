// Which layers of a model have a window, and the fields that say so. Internal to src/nn.
#ifndef LORICA_NN_FAMILIES_LAYER_PATTERN_H_
#define LORICA_NN_FAMILIES_LAYER_PATTERN_H_

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/io/gguf.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// One flag per layer from `layer_types` ("sliding_attention" or "full_attention"); empty where the
// field is absent.
absl::StatusOr<std::vector<bool>> ReadSlidingLayers(const JsonObject& json,
                                                    const ModelConfig& config);
// `layer_types` of the configuration.
void WriteLayerTypes(const ModelConfig& config, OrderedJson& json);

// sliding_window, 0 where it is null; an error below 1.
absl::StatusOr<int64_t> ReadWindow(const JsonObject& json);
// The window of the layers that have one, null without one.
void WriteWindow(const ModelConfig& config, OrderedJson& json);

// Gives the layers of `sliding` the window.
absl::Status SetWindows(const JsonObject& json, const std::vector<bool>& sliding, int64_t window,
                        ModelConfig& config);
// The same for every layer but each `period`-th, which sees all; period 0: every layer.
std::vector<bool> AllButEach(int64_t period, int64_t layers);

// Of GGUF files.
inline constexpr absl::string_view kGgufWindowKeys[] = {"attention.sliding_window",
                                                        "attention.sliding_window_pattern"};
// attention.sliding_window, and which layers have it by attention.sliding_window_pattern: a flag
// per layer, or a period of which the last layer sees all. `period` is meant where the key is
// absent; below 0 it must be there.
absl::Status ReadGgufWindows(const GgufFile& file, const std::string& prefix, int64_t period,
                             ModelConfig& config);

// layer_configs as a list of its own, and back: a list that says nothing becomes empty, so that
// equal models have equal configurations.
std::vector<LayerConfig> LayersOf(const ModelConfig& config);
void SetLayers(std::vector<LayerConfig> layers, ModelConfig& config);

}  // namespace lorica::internal

#endif  // LORICA_NN_FAMILIES_LAYER_PATTERN_H_
