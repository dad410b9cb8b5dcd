#include "lorica/peft/peft_config.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Keys that change what an adapter computes or where it sits, and aren't supported: each must be
// absent, null, false, empty, or the value given here.
struct NeutralKey {
  const char* key;
  const char* neutral;  // a string that is neutral too, or null
};
constexpr NeutralKey kNeutralKeys[] = {
    {"alora_invocation_tokens", nullptr},
    {"arrow_config", nullptr},
    {"bias", "none"},
    {"corda_config", nullptr},
    {"eva_config", nullptr},
    {"fan_in_fan_out", nullptr},
    {"kasa_config", nullptr},
    {"layer_replication", nullptr},
    {"loftq_config", nullptr},
    {"lora_bias", nullptr},
    {"lora_ga_config", nullptr},
    {"megatron_config", nullptr},
    {"monteclora_config", nullptr},
    {"target_parameters", nullptr},
    {"trainable_token_indices", nullptr},
    {"use_bdlora", nullptr},
    {"use_dora", nullptr},
    {"use_qalora", nullptr},
    {"velora_config", nullptr},
};

// Starts that leave the base weights alone; others (pissa, olora, ...) change the base, so their
// factors fit another one.
constexpr absl::string_view kPlainStarts[] = {"gaussian", "eva", "orthogonal"};

bool IsNeutral(const Json& value, const char* neutral) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return neutral != nullptr && value.get<std::string>() == neutral;
  if (value.is_array() || value.is_object()) return value.empty();
  return false;
}

absl::Status CheckNeutral(const OrderedJson& json, absl::string_view where) {
  for (const NeutralKey& entry : kNeutralKeys) {
    const auto it = json.find(entry.key);
    if (it == json.end()) continue;
    // Re-parsed as sorted JSON: the check needs no order.
    if (!IsNeutral(Json::parse(it->dump()), entry.neutral)) {
      std::string value = it->dump();
      if (value.size() > 60) value = value.substr(0, 57) + "...";
      return absl::UnimplementedError(
          absl::StrCat(where, ": ", entry.key, " is ", value, ", which isn't supported"));
    }
  }
  const auto init = json.find("init_lora_weights");
  if (init != json.end() && init->is_string()) {
    const std::string name = init->get<std::string>();
    if (std::find(std::begin(kPlainStarts), std::end(kPlainStarts), name) ==
        std::end(kPlainStarts)) {
      return absl::UnimplementedError(
          absl::StrCat(where, ": init_lora_weights is ", Quoted(name),
                       ", which changes the base weights and isn't supported"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PeftModuleNames> ParseNames(const OrderedJson& json, const char* key,
                                           absl::string_view where) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return PeftModuleNames();
  const std::string place = absl::StrCat(where, ": ", key);
  if (it->is_string()) return PeftModuleNames::OfRegex(it->get<std::string>(), place);
  std::vector<std::string> names;
  if (it->is_array()) {
    for (const auto& name : *it) {
      if (!name.is_string()) {
        return absl::InvalidArgumentError(absl::StrCat(
            place, ": expected a list of strings, found ", name.type_name(), " in it"));
      }
      names.push_back(name.get<std::string>());
    }
    return PeftModuleNames::OfList(std::move(names));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": expected a list of strings or a string, found ", it->type_name()));
}

absl::StatusOr<std::vector<std::pair<PathRegex, double>>> ParsePattern(const OrderedJson& json,
                                                                       const char* key,
                                                                       absl::string_view where) {
  std::vector<std::pair<PathRegex, double>> entries;
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return entries;
  const std::string place = absl::StrCat(where, ": ", key);
  if (!it->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": expected an object, found ", it->type_name()));
  }
  for (const auto& [pattern, value] : it->items()) {
    if (!value.is_number()) {
      return absl::InvalidArgumentError(absl::StrCat(
          place, ": expected a number for ", Quoted(pattern), ", found ", value.type_name()));
    }
    PathRegex regex;
    // PEFT's own form of the search: the key must end the path, after a dot or at its start.
    LORICA_ASSIGN_OR_RETURN(
        regex, PathRegex::Compile(absl::StrCat("(?:.*\\.)?(?:", pattern, ")$"), place));
    entries.emplace_back(std::move(regex), value.get<double>());
  }
  return entries;
}

template <typename Value>
Value FirstMatch(const std::vector<std::pair<PathRegex, Value>>& patterns, absl::string_view path,
                 Value fallback) {
  for (const auto& [regex, value] : patterns) {
    if (regex.FullMatch(path)) return value;
  }
  return fallback;
}

absl::Status CheckRank(double rank, absl::string_view where) {
  if (rank >= 1 && rank <= static_cast<double>(kMaxLoraRank) &&
      rank == static_cast<int64_t>(rank)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected a rank in [1, ", kMaxLoraRank, "], found ", rank));
}

// A list of whole numbers or strings, or one of them alone.
absl::StatusOr<std::vector<int64_t>> IntOrInts(const JsonObject& json, absl::string_view key) {
  if (!json.Has(key)) return std::vector<int64_t>();
  if (json.Find(key)->is_array()) return json.Ints(key);
  LORICA_ASSIGN_OR_RETURN(const int64_t number, json.Int(key));
  return std::vector<int64_t>{number};
}

absl::StatusOr<std::vector<std::string>> StringOrStrings(const JsonObject& json,
                                                         absl::string_view key) {
  if (!json.Has(key)) return std::vector<std::string>();
  if (json.Find(key)->is_array()) return json.Strings(key);
  LORICA_ASSIGN_OR_RETURN(std::string text, json.String(key));
  if (text.empty()) return std::vector<std::string>();
  return std::vector<std::string>{std::move(text)};
}

absl::Status ReadLayers(const JsonObject& json, PeftModuleNames& targets) {
  constexpr absl::string_view kLayers = "layers_to_transform";
  constexpr absl::string_view kPattern = "layers_pattern";
  LORICA_ASSIGN_OR_RETURN(std::vector<int64_t> layers, IntOrInts(json, kLayers));
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, StringOrStrings(json, kPattern));
  if (layers.empty() && names.empty()) return absl::OkStatus();
  if (layers.empty()) return json.Wrong(kPattern, "expected layers_to_transform beside it");
  if (targets.is_regex() || targets.all_linear()) {
    return json.Wrong(kLayers, "expected a list of names as target_modules beside it");
  }
  std::vector<PathRegex> patterns;
  for (const std::string& name : names) {
    // PEFT's own form: the pattern, then the number of the layer, wherever they stand in a path.
    LORICA_ASSIGN_OR_RETURN(
        PathRegex regex,
        PathRegex::Compile(absl::StrCat("(?:^|.*?\\.)", name, "\\.(?P<idx>\\d+)\\..*"),
                           absl::StrCat(json.where(), ": ", kPattern)));
    patterns.push_back(std::move(regex));
  }
  targets.RestrictLayers(std::move(layers), std::move(patterns));
  return absl::OkStatus();
}

absl::Status ReadSavedModules(const JsonObject& json, PeftConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.saved_modules, StringOrStrings(json, "modules_to_save"));
  for (const std::string& name : config.saved_modules) {
    if (name.empty()) return json.Wrong("modules_to_save", "expected names, found an empty text");
  }
  // With adapters it would say that the head's factors are the embedding's.
  LORICA_ASSIGN_OR_RETURN(config.ties_saved, json.BoolOr("ensure_weight_tying", false));
  if (config.ties_saved && config.saved_modules.empty()) {
    return absl::UnimplementedError(
        json.Wrong("ensure_weight_tying", "true isn't supported without modules_to_save")
            .message());
  }
  return absl::OkStatus();
}

}  // namespace

int64_t PeftConfig::RankOf(absl::string_view path) const {
  return FirstMatch(rank_pattern, path, rank);
}

double PeftConfig::AlphaOf(absl::string_view path) const {
  return FirstMatch(alpha_pattern, path, alpha);
}

absl::StatusOr<PeftConfig> ParsePeftConfig(absl::string_view text, absl::string_view where) {
  OrderedJson json;
  LORICA_ASSIGN_OR_RETURN(json, ParseOrderedJson(text, where));
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected a JSON object, found ", json.type_name()));
  }
  const Json sorted = Json::parse(json.dump());
  JsonObject object = *JsonObject::Of(sorted, where);
  std::string type;
  LORICA_ASSIGN_OR_RETURN(type, object.String("peft_type"));
  if (type != "LORA") {
    return absl::UnimplementedError(
        absl::StrCat(where, ": peft_type is ", Quoted(type), ", expected \"LORA\""));
  }
  LORICA_RETURN_IF_ERROR(CheckNeutral(json, where));

  PeftConfig config;
  LORICA_ASSIGN_OR_RETURN(config.rank, object.IntOr("r", 8));
  LORICA_RETURN_IF_ERROR(CheckRank(static_cast<double>(config.rank), absl::StrCat(where, ": r")));
  LORICA_ASSIGN_OR_RETURN(config.alpha, object.DoubleOr("lora_alpha", 8));
  LORICA_ASSIGN_OR_RETURN(config.dropout, object.DoubleOr("lora_dropout", 0));
  bool rslora = false;
  LORICA_ASSIGN_OR_RETURN(rslora, object.BoolOr("use_rslora", false));
  config.scaling = rslora ? LoraScaling::kRsLora : LoraScaling::kStandard;
  LORICA_ASSIGN_OR_RETURN(config.base_model, object.StringOr("base_model_name_or_path", ""));
  LORICA_ASSIGN_OR_RETURN(config.targets, ParseNames(json, "target_modules", where));
  if (config.targets.empty() && !config.targets.all_linear()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": target_modules: expected a list of names or a pattern, found none"));
  }
  LORICA_ASSIGN_OR_RETURN(config.excludes, ParseNames(json, "exclude_modules", where));
  LORICA_RETURN_IF_ERROR(ReadLayers(object, config.targets));
  LORICA_RETURN_IF_ERROR(ReadSavedModules(object, config));
  std::vector<std::pair<PathRegex, double>> ranks;
  LORICA_ASSIGN_OR_RETURN(ranks, ParsePattern(json, "rank_pattern", where));
  for (auto& [regex, rank] : ranks) {
    LORICA_RETURN_IF_ERROR(CheckRank(rank, absl::StrCat(where, ": rank_pattern")));
    config.rank_pattern.emplace_back(regex, static_cast<int64_t>(rank));
  }
  LORICA_ASSIGN_OR_RETURN(config.alpha_pattern, ParsePattern(json, "alpha_pattern", where));
  return config;
}

absl::StatusOr<std::string> FormatPeftConfig(const PeftConfigFields& fields) {
  std::vector<std::string> targets;
  OrderedJson rank_pattern = OrderedJson::object(), alpha_pattern = OrderedJson::object();
  // Sorted, as PEFT would write them; full paths can't overlap, so the order means nothing.
  std::map<std::string, const PeftModuleEntry*> by_path;
  for (const PeftModuleEntry& module : fields.modules) by_path[module.path] = &module;
  for (const auto& [path, module] : by_path) {
    targets.push_back(path);
    if (module->rank != fields.rank) rank_pattern[path] = module->rank;
    if (module->alpha != fields.alpha) alpha_pattern[path] = module->alpha;
  }
  OrderedJson json = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", fields.base_model},
      {"inference_mode", true},
      {"r", fields.rank},
      {"lora_alpha", fields.alpha},
      {"lora_dropout", fields.dropout},
      {"use_rslora", fields.scaling == LoraScaling::kRsLora},
      {"use_dora", false},
      {"lora_bias", false},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"init_lora_weights", true},
      {"target_modules", targets},
      {"rank_pattern", rank_pattern},
      {"alpha_pattern", alpha_pattern},
      {"modules_to_save",
       fields.saved_modules.empty() ? OrderedJson(nullptr) : OrderedJson(fields.saved_modules)},
      {"lorica", {{"init", std::string(Name(fields.init))}}},
  };
  if (fields.ties_saved) json["ensure_weight_tying"] = true;
  if (fields.alpha == static_cast<int64_t>(fields.alpha)) {
    json["lora_alpha"] = static_cast<int64_t>(fields.alpha);
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace lorica
