// config.json.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/config_fields.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/model_config.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

using internal::Family;

// A config.json has some kilobytes; a long list of class labels may add to that.
constexpr JsonOptions kJsonOptions = {
    .max_bytes = size_t{4} << 20, .max_depth = 32, .max_values = 200'000};

// What ReadFields and ReadRope look at.
constexpr absl::string_view kSharedKeys[] = {
    "architectures",       "attention_dropout",
    "bos_token_id",        "dtype",
    "eos_token_id",        "head_dim",
    "hidden_act",          "hidden_activation",
    "hidden_size",         "initializer_range",
    "intermediate_size",   "max_position_embeddings",
    "model_type",          "num_attention_heads",
    "num_hidden_layers",   "num_key_value_heads",
    "rms_norm_eps",        "rope_parameters",
    "rope_scaling",        "rope_theta",
    "tie_word_embeddings", "torch_dtype",
    "vocab_size",
};

// The type of scaling in `rope_scaling` or `rope_parameters`, and that nothing else in it has a
// say.
absl::Status CheckRopeObject(const JsonObject& rope) {
  LORICA_ASSIGN_OR_RETURN(const std::string old_type, rope.StringOr("type", "default"));
  LORICA_ASSIGN_OR_RETURN(const std::string type, rope.StringOr("rope_type", old_type));
  if (type != "default") {
    return rope.Wrong(rope.Has("rope_type") ? "rope_type" : "type",
                      absl::StrCat("expected \"default\", the only scaling of rotary positions ",
                                   "that is supported, found ", Quoted(type)));
  }
  for (const auto& member : rope.json().items()) {
    const std::string& key = member.key();
    const Json& value = member.value();
    if (key == "type" || key == "rope_type" || key == "rope_theta" || value.is_null()) continue;
    const bool neutral = (key == "factor" || key == "partial_rotary_factor") && value == 1;
    if (!neutral) {
      return rope.Wrong(key, absl::StrCat("expected no such field beside the type \"default\", ",
                                          "found ", value.type_name()));
    }
  }
  return absl::OkStatus();
}

// Both spellings: rope_theta with rope_scaling, or rope_parameters with the base inside.
absl::Status ReadRope(const JsonObject& json, ModelConfig& config) {
  config.rope.channels = config.head_dim;
  double outer = 0, inner = 0;
  if (json.Has("rope_theta")) {
    LORICA_ASSIGN_OR_RETURN(outer, json.Double("rope_theta"));
  }
  for (absl::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!json.Has(key)) continue;
    LORICA_ASSIGN_OR_RETURN(const JsonObject rope, json.Object(key));
    LORICA_RETURN_IF_ERROR(CheckRopeObject(rope));
    if (rope.Has("rope_theta")) {
      LORICA_ASSIGN_OR_RETURN(inner, rope.Double("rope_theta"));
    }
  }
  if (outer != 0 && inner != 0 && outer != inner) {
    return json.Wrong("rope_theta",
                      absl::StrCat("expected one base of rotary positions, found ", outer,
                                   " here and ", inner, " in rope_parameters"));
  }
  const bool stated = outer != 0 || inner != 0 || json.Has("rope_theta");
  if (stated) config.rope.theta = inner != 0 ? inner : outer;
  return absl::OkStatus();
}

absl::Status ReadTokenIds(const JsonObject& json, ModelConfig& config) {
  if (const Json* eos = json.Find("eos_token_id"); eos != nullptr) {
    if (eos->is_array()) {
      LORICA_ASSIGN_OR_RETURN(config.eos_token_ids, json.Ints("eos_token_id"));
    } else {
      LORICA_ASSIGN_OR_RETURN(const int64_t id, json.Int("eos_token_id"));
      config.eos_token_ids = {id};
    }
  }
  if (json.Has("bos_token_id") && !json.Find("bos_token_id")->is_array()) {
    LORICA_ASSIGN_OR_RETURN(config.bos_token_id, json.Int("bos_token_id"));
  }
  return absl::OkStatus();
}

absl::Status ReadFields(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.vocab_size, json.Int("vocab_size"));
  LORICA_ASSIGN_OR_RETURN(config.hidden_size, json.Int("hidden_size"));
  LORICA_ASSIGN_OR_RETURN(config.intermediate_size, json.Int("intermediate_size"));
  LORICA_ASSIGN_OR_RETURN(config.layers, json.Int("num_hidden_layers"));
  LORICA_ASSIGN_OR_RETURN(config.heads, json.Int("num_attention_heads"));
  LORICA_ASSIGN_OR_RETURN(config.kv_heads, json.IntOr("num_key_value_heads", config.heads));
  if (config.heads < 1) {
    return json.Wrong("num_attention_heads",
                      absl::StrCat("expected a positive number, found ", config.heads));
  }
  if (json.Has("head_dim")) {
    LORICA_ASSIGN_OR_RETURN(config.head_dim, json.Int("head_dim"));
  } else if (config.hidden_size % config.heads == 0) {
    config.head_dim = config.hidden_size / config.heads;
  } else {
    return json.Wrong("num_attention_heads",
                      absl::StrCat("expected a divisor of hidden_size ", config.hidden_size,
                                   " where head_dim is absent, found ", config.heads));
  }
  LORICA_ASSIGN_OR_RETURN(config.rms_norm_eps, json.DoubleOr("rms_norm_eps", 1e-6));
  LORICA_ASSIGN_OR_RETURN(config.tied, json.BoolOr("tie_word_embeddings", false));
  LORICA_ASSIGN_OR_RETURN(config.max_positions, json.IntOr("max_position_embeddings", 0));
  LORICA_ASSIGN_OR_RETURN(config.initializer_range, json.DoubleOr("initializer_range", 0.02));
  for (absl::string_view key : {"hidden_act", "hidden_activation"}) {
    LORICA_ASSIGN_OR_RETURN(const std::string activation, json.StringOr(key, "silu"));
    if (activation != "silu") {
      return json.Wrong(key, absl::StrCat("expected \"silu\", the only activation that is ",
                                          "supported, found ", Quoted(activation)));
    }
  }
  LORICA_ASSIGN_OR_RETURN(const std::string dtype, json.StringOr("torch_dtype", ""));
  LORICA_ASSIGN_OR_RETURN(config.stored_dtype, json.StringOr("dtype", dtype));
  LORICA_ASSIGN_OR_RETURN(const double dropout, json.DoubleOr("attention_dropout", 0));
  if (dropout != 0) {
    config.notes.push_back(absl::StrCat(json.where(), ": attention_dropout ", dropout,
                                        " is not applied, in training neither"));
  }
  LORICA_RETURN_IF_ERROR(ReadRope(json, config));
  return ReadTokenIds(json, config);
}

absl::Status NoteArchitectures(const JsonObject& json, const Family& family, ModelConfig& config) {
  if (!json.Has("architectures")) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, json.Strings("architectures"));
  if (names.empty() ||
      std::find(names.begin(), names.end(), std::string(family.architecture)) != names.end()) {
    return absl::OkStatus();
  }
  config.notes.push_back(absl::StrCat(json.where(), ": architectures names ", Quoted(names[0]),
                                      "; the model is read as ", family.architecture));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view text, absl::string_view where) {
  LORICA_ASSIGN_OR_RETURN(const Json document, ParseJson(text, where, kJsonOptions));
  LORICA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Of(document, where));
  LORICA_ASSIGN_OR_RETURN(const std::string type, json.String("model_type"));
  const Family* family = internal::FindFamily(type);
  if (family == nullptr) {
    return json.Wrong("model_type", absl::StrCat(Quoted(type), " is not supported, only ",
                                                 internal::FamilyNames(), " are"));
  }
  ModelConfig config;
  config.family = type;
  LORICA_RETURN_IF_ERROR(ReadFields(json, config));
  LORICA_RETURN_IF_ERROR(NoteArchitectures(json, *family, config));
  LORICA_RETURN_IF_ERROR(family->read_json(json, config));
  LORICA_RETURN_IF_ERROR(
      internal::CheckJsonFields(json, {kSharedKeys, family->keys}, config.notes));
  LORICA_RETURN_IF_ERROR(CheckModelConfig(config, where));
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfigFile(const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(const std::string text, PosixFiles().Read(path, kJsonOptions.max_bytes));
  return ParseModelConfig(text, path);
}

absl::StatusOr<std::string> ConfigJson(const ModelConfig& config, DType stored_dtype) {
  const Family* family = internal::FindFamily(config.family);
  LORICA_CHECK(family != nullptr, "[model_config] unknown family ", config.family);
  OrderedJson json;
  json["architectures"] = {std::string(family->architecture)};
  json["model_type"] = config.family;
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_dim;
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = config.rms_norm_eps;
  // The older spelling: transformers 5 reads it as well as 4.
  json["rope_theta"] = config.rope.theta;
  json["rope_scaling"] = nullptr;
  // transformers wants a number; this is its own default.
  json["max_position_embeddings"] = config.max_positions > 0 ? config.max_positions : 2048;
  json["tie_word_embeddings"] = config.tied;
  json["attention_dropout"] = 0.0;
  json["initializer_range"] = config.initializer_range;
  LORICA_RETURN_IF_ERROR(family->write_json(config, json));
  json["bos_token_id"] = config.bos_token_id >= 0 ? OrderedJson(config.bos_token_id) : nullptr;
  if (config.eos_token_ids.size() == 1) {
    json["eos_token_id"] = config.eos_token_ids[0];
  } else if (config.eos_token_ids.empty()) {
    json["eos_token_id"] = nullptr;
  } else {
    json["eos_token_id"] = config.eos_token_ids;
  }
  json["use_cache"] = true;
  json["torch_dtype"] = stored_dtype == DType::kF64    ? "float64"
                        : stored_dtype == DType::kBF16 ? "bfloat16"
                        : stored_dtype == DType::kF16  ? "float16"
                                                       : "float32";
  return json.dump(2) + "\n";
}

}  // namespace lorica
