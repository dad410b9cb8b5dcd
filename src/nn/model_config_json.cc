// config.json.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/config_fields.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/rope_fields.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

using internal::Family;

// A config.json has some kilobytes; a long list of class labels may add to that.
constexpr JsonOptions kJsonOptions = {
    .max_bytes = size_t{4} << 20, .max_depth = 32, .max_values = 200'000};

// What ReadFields looks at, besides RopeKeys().
constexpr absl::string_view kSharedKeys[] = {
    "architectures",       "attention_dropout",
    "bos_token_id",        "dtype",
    "eos_token_id",        "head_dim",
    "hidden_act",          "hidden_activation",
    "hidden_size",         "initializer_range",
    "intermediate_size",   "max_position_embeddings",
    "model_type",          "num_attention_heads",
    "num_hidden_layers",   "num_key_value_heads",
    "quantization_config", "rms_norm_eps",
    "tie_word_embeddings", "torch_dtype",
    "vocab_size",
};

struct ActivationName {
  absl::string_view name;
  Activation activation;
};
constexpr ActivationName kActivations[] = {
    {"silu", Activation::kSilu},         {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},         {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_new", Activation::kGeluTanh},
};

// One of two names, or both with one meaning; absent the family's own.
absl::Status ReadActivation(const JsonObject& json, ModelConfig& config) {
  bool found = false;
  for (absl::string_view key : {"hidden_act", "hidden_activation"}) {
    if (!json.Has(key)) continue;
    LORICA_ASSIGN_OR_RETURN(const std::string name, json.String(key));
    const auto* known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                     [&](const ActivationName& one) { return one.name == name; });
    if (known == std::end(kActivations)) {
      return json.Wrong(key, absl::StrCat("expected \"silu\", \"gelu\" or ",
                                          "\"gelu_pytorch_tanh\", found ", Quoted(name)));
    }
    if (found && known->activation != config.activation) {
      return json.Wrong(key, absl::StrCat("expected what hidden_act says, found ", Quoted(name)));
    }
    config.activation = known->activation;
    found = true;
  }
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

// Sizes of latent attention. What rotates is a part of its own of each head, so that is what
// head_dim means to the rotation; the head as a whole comes after it.
absl::Status ReadLatent(const JsonObject& json, ModelConfig& config) {
  LatentSizes& latent = config.latent;
  LORICA_ASSIGN_OR_RETURN(latent.q_lora_rank, json.IntOr("q_lora_rank", 0));
  LORICA_ASSIGN_OR_RETURN(latent.kv_lora_rank, json.Int("kv_lora_rank"));
  LORICA_ASSIGN_OR_RETURN(latent.qk_nope_head_dim, json.Int("qk_nope_head_dim"));
  LORICA_ASSIGN_OR_RETURN(latent.qk_rope_head_dim, json.Int("qk_rope_head_dim"));
  LORICA_ASSIGN_OR_RETURN(latent.v_head_dim, json.Int("v_head_dim"));
  LORICA_RETURN_IF_ERROR(internal::CheckLatentSizes(latent, config.heads, json.where()));
  config.kv_heads = config.heads;
  config.head_dim = latent.qk_rope_head_dim;
  return absl::OkStatus();
}

absl::Status ReadFields(const JsonObject& json, const Family& family, ModelConfig& config) {
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
  if (family.latent) {
    LORICA_RETURN_IF_ERROR(ReadLatent(json, config));
  } else if (json.Has("head_dim")) {
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
  LORICA_RETURN_IF_ERROR(internal::CheckSizes(config, json.where()));
  if (family.shape != nullptr) family.shape(config);
  LORICA_RETURN_IF_ERROR(ReadActivation(json, config));
  LORICA_ASSIGN_OR_RETURN(const std::string dtype, json.StringOr("torch_dtype", ""));
  LORICA_ASSIGN_OR_RETURN(config.stored_dtype, json.StringOr("dtype", dtype));
  LORICA_ASSIGN_OR_RETURN(const double dropout, json.DoubleOr("attention_dropout", 0));
  if (dropout != 0) {
    config.notes.push_back(absl::StrCat(json.where(), ": attention_dropout ", dropout,
                                        " is not applied, in training neither"));
  }
  LORICA_ASSIGN_OR_RETURN(config.quantization, ReadQuantizationConfig(json));
  LORICA_RETURN_IF_ERROR(internal::ReadRopes(json, family, config));
  if (family.latent) {
    config.head_dim = config.latent.qk_nope_head_dim + config.latent.qk_rope_head_dim;
  }
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

// Models that hold a text model beside others, with the text model's type.
constexpr std::pair<absl::string_view, absl::string_view> kWholeModels[] = {
    {"gemma3", "gemma3_text"},
};

// What a model says as a whole and not of its text model alone: where both say it, the whole
// counts.
constexpr absl::string_view kFieldsOfTheWhole[] = {"bos_token_id", "dtype",
                                                   "eos_token_id", "quantization_config",
                                                   "torch_dtype",  "tie_word_embeddings"};

// Puts the text model's fields in the place of the whole model's, where it is such a model.
absl::StatusOr<bool> TakeTextPart(Json& document, absl::string_view where) {
  LORICA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Of(document, where));
  LORICA_ASSIGN_OR_RETURN(const std::string type, json.String("model_type"));
  for (const auto& [whole, text] : kWholeModels) {
    if (type != whole) continue;
    LORICA_RETURN_IF_ERROR(json.Object("text_config").status());
    Json fields = *json.Find("text_config");
    for (const absl::string_view key : kFieldsOfTheWhole) {
      const Json* value = json.Find(key);
      if (value != nullptr && !value->is_null()) fields[std::string(key)] = *value;
    }
    if (!fields.contains("model_type")) fields["model_type"] = std::string(text);
    if (fields["model_type"] != Json(std::string(text))) {
      return absl::UnimplementedError(absl::StrCat(where, ": text_config: model_type: expected ",
                                                   Quoted(text), " in a ", type, " model, found ",
                                                   fields["model_type"].dump()));
    }
    document = std::move(fields);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view text, absl::string_view where) {
  LORICA_ASSIGN_OR_RETURN(Json document, ParseJson(text, where, kJsonOptions));
  LORICA_ASSIGN_OR_RETURN(const bool text_part, TakeTextPart(document, where));
  LORICA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Of(document, where));
  LORICA_ASSIGN_OR_RETURN(const std::string type, json.String("model_type"));
  const Family* family = internal::FindFamily(type);
  if (family == nullptr) {
    return json.Wrong("model_type", absl::StrCat(Quoted(type), " is not supported, only ",
                                                 internal::FamilyNames(), " are"));
  }
  // Fields that are absent, not null, count as the class in transformers has them.
  if (!family->defaults.empty()) {
    const Json defaults = Json::parse(family->defaults);
    for (const auto& member : defaults.items()) {
      if (!document.contains(member.key())) document[member.key()] = member.value();
    }
  }
  ModelConfig config;
  config.family = type;
  config.text_part = text_part;
  if (text_part) {
    config.notes.push_back(
        absl::StrCat(where, ": what takes pictures is left out; the model is its text model"));
  }
  LORICA_RETURN_IF_ERROR(ReadFields(json, *family, config));
  LORICA_RETURN_IF_ERROR(NoteArchitectures(json, *family, config));
  LORICA_RETURN_IF_ERROR(family->read_json(json, config));
  LORICA_RETURN_IF_ERROR(internal::CheckJsonFields(
      json, {kSharedKeys, internal::RopeKeys(), family->keys}, config.notes));
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
  for (const ActivationName& known : kActivations) {
    if (known.activation != config.activation || json.contains("hidden_act")) continue;
    json["hidden_act"] = std::string(known.name);
    if (family->names_hidden_activation) json["hidden_activation"] = std::string(known.name);
  }
  json["rms_norm_eps"] = config.rms_norm_eps;
  internal::WriteRopes(config, *family, json);
  // transformers wants a number; this is its own default.
  json["max_position_embeddings"] = config.max_positions > 0 ? config.max_positions : 2048;
  json["tie_word_embeddings"] = config.tied;
  json["attention_dropout"] = 0.0;
  json["initializer_range"] = config.initializer_range;
  family->write_json(config, json);
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
  std::string text = json.dump(2) + "\n";
  const absl::StatusOr<ModelConfig> again = ParseModelConfig(text, "config.json");
  if (!again.ok() || MathsText(*again) != MathsText(config)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json of a ", config.family, " model can't say what this configuration says: ",
        again.ok() ? absl::StrCat("expected ", MathsText(config), ", found ", MathsText(*again))
                   : std::string(again.status().message())));
  }
  return text;
}

}  // namespace lorica
