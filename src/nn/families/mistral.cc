// Mistral: a Llama block whose tokens see a window. A. Jiang et al., "Mistral 7B", 2023.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {"layer_types", "sliding_window"};

absl::Status ReadJson(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(json));
  // The class in transformers goes by sliding_window alone.
  LORICA_ASSIGN_OR_RETURN(const std::vector<bool> sliding, ReadSlidingLayers(json, config));
  for (size_t i = 0; i < sliding.size(); ++i) {
    if (sliding[i] == (window > 0)) continue;
    return json.Wrong("layer_types",
                      absl::StrCat("layer ", i, " is \"", sliding[i] ? "sliding" : "full",
                                   "_attention\", but sliding_window is ",
                                   window > 0 ? absl::StrCat(window) : "null",
                                   " for all layers of a mistral model"));
  }
  if (window == 0) return absl::OkStatus();
  return SetWindows(json, AllButEach(0, config.layers), window, config);
}

void WriteJson(const ModelConfig& config, OrderedJson& json) { WriteWindow(config, json); }

}  // namespace

const Family& MistralFamily() {
  static constexpr Family kFamily = {
      .name = "mistral",
      .architecture = "MistralForCausalLM",
      .gguf = "llama",
      .defaults = R"({"num_key_value_heads": 8, "sliding_window": 4096})",
      .keys = kKeys,
      .read_json = ReadJson,
      .write_json = WriteJson,
      .gguf_interleaves_rotation = true};
  return kFamily;
}

}  // namespace lorica::internal
