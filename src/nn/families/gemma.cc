// Gemma 2 and the text model of Gemma 3: norms before and behind, embeddings scaled, layers with a
// window and without in turn; Gemma 2 caps scores and logits, Gemma 3 norms queries and keys and
// rotates layers with a window by a base of their own. Gemma team, "Gemma 2", 2024; "Gemma 3
// technical report", 2025.
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kGemma2Keys[] = {"attention_bias",          "attn_logit_softcapping",
                                             "final_logit_softcapping", "layer_types",
                                             "query_pre_attn_scalar",   "sliding_window"};
constexpr absl::string_view kGemma3Keys[] = {
    "_sliding_window_pattern", "attention_bias", "attn_logit_softcapping",
    "final_logit_softcapping", "layer_types",    "query_pre_attn_scalar",
    "rope_local_base_freq",    "sliding_window", "sliding_window_pattern"};
constexpr absl::string_view kGemma2GgufKeys[] = {"attention.scale", "attention.sliding_window",
                                                 "attn_logit_softcapping",
                                                 "final_logit_softcapping"};
constexpr absl::string_view kGemma3GgufKeys[] = {"attention.scale", "attention.sliding_window",
                                                 "attention.sliding_window_pattern",
                                                 "final_logit_softcapping", "rope.freq_base_swa"};

constexpr int64_t kGemma2Period = 2, kGemma3Period = 6;

void Shape(ModelConfig& config) {
  config.norms = NormPlacement::kBoth;
  config.norm_offset = true;
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
}

void ShapeGemma3(ModelConfig& config) {
  Shape(config);
  config.qk_norm = QkNorm::kHead;
}

absl::StatusOr<double> ReadCap(const JsonObject& json, absl::string_view key) {
  if (!json.Has(key)) return 0;
  LORICA_ASSIGN_OR_RETURN(const double cap, json.Double(key));
  if (!(cap > 0)) {
    return json.Wrong(key, absl::StrCat("expected a positive number or null, found ", cap));
  }
  return cap;
}

absl::Status ReadShared(const JsonObject& json, int64_t period, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.qkv_bias, json.BoolOr("attention_bias", false));
  config.o_bias = config.qkv_bias;
  LORICA_ASSIGN_OR_RETURN(const double scalar, json.Double("query_pre_attn_scalar"));
  if (!(scalar > 0)) {
    return json.Wrong("query_pre_attn_scalar",
                      absl::StrCat("expected a positive number, found ", scalar));
  }
  config.attention_scale = 1 / std::sqrt(scalar);
  LORICA_ASSIGN_OR_RETURN(config.logit_softcap, ReadCap(json, "final_logit_softcapping"));
  LORICA_ASSIGN_OR_RETURN(std::vector<bool> sliding, ReadSlidingLayers(json, config));
  if (sliding.empty()) sliding = AllButEach(period, config.layers);
  LORICA_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(json));
  return SetWindows(json, sliding, window, config);
}

absl::Status ReadGemma2(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.attention_softcap, ReadCap(json, "attn_logit_softcapping"));
  return ReadShared(json, kGemma2Period, config);
}

// Layers with a window rotate by local_rope.
void RotateLocally(ModelConfig& config) {
  std::vector<LayerConfig> layers = LayersOf(config);
  for (LayerConfig& layer : layers) {
    if (layer.window > 0) layer.rope = LayerConfig::Rope::kLocal;
  }
  SetLayers(std::move(layers), config);
}

absl::Status ReadGemma3(const JsonObject& json, ModelConfig& config) {
  // The class carries the field, but its attention leaves it out.
  if (json.Has("attn_logit_softcapping")) {
    LORICA_ASSIGN_OR_RETURN(const double cap, json.Double("attn_logit_softcapping"));
    config.notes.push_back(absl::StrCat(json.where(), ": attn_logit_softcapping ", cap,
                                        " has no effect in a gemma3_text model"));
  }
  LORICA_ASSIGN_OR_RETURN(const int64_t period,
                          json.IntOr("sliding_window_pattern", kGemma3Period));
  if (period < 1) {
    return json.Wrong("sliding_window_pattern",
                      absl::StrCat("expected a positive number, found ", period));
  }
  LORICA_RETURN_IF_ERROR(ReadShared(json, period, config));
  RotateLocally(config);
  return absl::OkStatus();
}

OrderedJson NumberOrNull(double value) {
  return value > 0 ? OrderedJson(value) : OrderedJson(nullptr);
}

void WriteShared(const ModelConfig& config, OrderedJson& json) {
  json["attention_bias"] = config.qkv_bias;
  const double scale = config.attention_scale;
  // Whole numbers in all files; the root and its inverse may have moved the last bit.
  double scalar = scale > 0 ? 1 / (scale * scale) : static_cast<double>(config.head_dim);
  if (1 / std::sqrt(std::round(scalar)) == scale) scalar = std::round(scalar);
  json["query_pre_attn_scalar"] = scalar;
  json["attn_logit_softcapping"] = NumberOrNull(config.attention_softcap);
  json["final_logit_softcapping"] = NumberOrNull(config.logit_softcap);
  WriteWindow(config, json);
  WriteLayerTypes(config, json);
}

void WriteGemma3(const ModelConfig& config, OrderedJson& json) {
  WriteShared(config, json);
  // What versions before layer_types go by, where it can say the same.
  for (int64_t period = 1; period <= config.layers; ++period) {
    const std::vector<bool> sliding = AllButEach(period, config.layers);
    bool same = true;
    for (int i = 0; i < static_cast<int>(config.layers); ++i) {
      same = same && sliding[static_cast<size_t>(i)] == (config.Layer(i).window > 0);
    }
    if (!same) continue;
    json["sliding_window_pattern"] = period;
    return;
  }
}

// Most files don't say it: by the number of layers llama.cpp knows the model that divides by the
// width of its heads in the embedding instead of head_dim.
absl::Status ReadGgufScale(const GgufFile& file, const std::string& prefix, int64_t odd_layers,
                           ModelConfig& config) {
  const double divisor = config.layers == odd_layers ? static_cast<double>(config.hidden_size) /
                                                           static_cast<double>(config.heads)
                                                     : static_cast<double>(config.head_dim);
  LORICA_ASSIGN_OR_RETURN(const double stated, file.GetF64Or(prefix + "attention.scale", 0));
  config.attention_scale = stated != 0 ? stated : 1 / std::sqrt(divisor);
  return absl::OkStatus();
}

absl::Status ReadGgufLayers(const GgufFile& file, const std::string& prefix, int64_t period,
                            ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const uint64_t window,
                          file.GetU64Or(prefix + "attention.sliding_window", 4096));
  const std::string key = prefix + "attention.sliding_window_pattern";
  if (file.Has(key)) {
    LORICA_ASSIGN_OR_RETURN(period, file.GetI64(key));
  }
  if (period < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.where(), ": ", key, ": expected a positive number, found ", period));
  }
  const std::vector<bool> sliding = AllButEach(period, config.layers);
  std::vector<LayerConfig> layers = LayersOf(config);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (sliding[i]) layers[i].window = static_cast<int64_t>(window);
  }
  SetLayers(std::move(layers), config);
  return absl::OkStatus();
}

absl::Status ReadGemma2Gguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  constexpr int64_t kLayersOf27B = 46;
  LORICA_RETURN_IF_ERROR(ReadGgufScale(file, prefix, kLayersOf27B, config));
  LORICA_ASSIGN_OR_RETURN(config.attention_softcap,
                          file.GetF64Or(prefix + "attn_logit_softcapping", 50));
  LORICA_ASSIGN_OR_RETURN(config.logit_softcap,
                          file.GetF64Or(prefix + "final_logit_softcapping", 30));
  return ReadGgufLayers(file, prefix, kGemma2Period, config);
}

absl::Status ReadGemma3Gguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  constexpr int64_t kLayersOf27B = 62;
  LORICA_RETURN_IF_ERROR(ReadGgufScale(file, prefix, kLayersOf27B, config));
  LORICA_ASSIGN_OR_RETURN(config.logit_softcap,
                          file.GetF64Or(prefix + "final_logit_softcapping", 0));
  config.local_rope.channels = config.head_dim;
  LORICA_ASSIGN_OR_RETURN(config.local_rope.theta,
                          file.GetF64Or(prefix + "rope.freq_base_swa", 10000));
  LORICA_RETURN_IF_ERROR(ReadGgufLayers(file, prefix, kGemma3Period, config));
  RotateLocally(config);
  return absl::OkStatus();
}

}  // namespace

const Family& Gemma2Family() {
  static constexpr Family kFamily = {
      .name = "gemma2",
      .architecture = "Gemma2ForCausalLM",
      .gguf = "gemma2",
      .shape = Shape,
      .defaults = R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                      "tie_word_embeddings": true, "sliding_window": 4096,
                      "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50,
                      "final_logit_softcapping": 30})",
      .names_hidden_activation = true,
      .keys = kGemma2Keys,
      .read_json = ReadGemma2,
      .write_json = WriteShared,
      .gguf_keys = kGemma2GgufKeys,
      .read_gguf = ReadGemma2Gguf};
  return kFamily;
}

const Family& Gemma3Family() {
  static constexpr Family kFamily = {
      .name = "gemma3_text",
      .architecture = "Gemma3ForCausalLM",
      .gguf = "gemma3",
      .shape = ShapeGemma3,
      .defaults = R"({"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
                      "head_dim": 256, "tie_word_embeddings": true, "sliding_window": 4096,
                      "query_pre_attn_scalar": 256})",
      .rope_theta = 1e6,
      .local_rope = true,
      .names_hidden_activation = true,
      .keys = kGemma3Keys,
      .read_json = ReadGemma3,
      .write_json = WriteGemma3,
      .gguf_keys = kGemma3GgufKeys,
      .read_gguf = ReadGemma3Gguf};
  return kFamily;
}

}  // namespace lorica::internal
