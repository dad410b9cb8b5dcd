#include "lorica/peft/layouts/peft_layout_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
// A name that no module has, for configurations that name parameters only.
constexpr char kNoModule[] = "no module";

OrderedJson Number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

std::optional<std::pair<int, int>> ParseVersion(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  int major = 0, minor = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &major) ||
      !absl::SimpleAtoi(parts[1], &minor)) {
    return std::nullopt;
  }
  return std::pair(major, minor);
}

absl::Status ReadRecord(const JsonObject& record, PeftLayoutConfig& config) {
  config.by_lorica = true;
  LORICA_ASSIGN_OR_RETURN(config.expert_kind, record.StringOr("experts", ""));
  LORICA_ASSIGN_OR_RETURN(config.orientation, record.StringOr("expert_orientation", ""));
  LORICA_ASSIGN_OR_RETURN(config.init, record.StringOr("init", ""));
  if (record.Has("dropout")) {
    LORICA_ASSIGN_OR_RETURN(config.trained_dropout, record.Double("dropout"));
  }
  if (record.Has("gate_up_rows")) {
    LORICA_ASSIGN_OR_RETURN(const std::string rows, record.String("gate_up_rows"));
    if (rows != "interleaved" && rows != "concatenated") {
      return record.WrongType("gate_up_rows", "\"interleaved\" or \"concatenated\"");
    }
    config.interleaved = rows == "interleaved";
  }
  return absl::OkStatus();
}

}  // namespace

bool PeftLayoutConfig::NamesParameter(absl::string_view path) const {
  return std::any_of(target_parameters.begin(), target_parameters.end(),
                     [&](const std::string& name) { return IsOrEnds(path, name); });
}

bool PeftLayoutConfig::Names(absl::string_view path) const {
  return peft.Adapts(path) || NamesParameter(absl::StrCat(path, ".weight"));
}

std::string PeftLayoutConfig::PatternPath(absl::string_view path) const {
  const std::string weight = absl::StrCat(path, ".weight");
  return NamesParameter(weight) ? weight : std::string(path);
}

int64_t PeftLayoutConfig::RankOf(absl::string_view path) const {
  return peft.RankOf(PatternPath(path));
}

double PeftLayoutConfig::AlphaOf(absl::string_view path) const {
  return peft.AlphaOf(PatternPath(path));
}

absl::StatusOr<PeftLayoutConfig> PeftLayoutConfig::Read(const std::string& path,
                                                        FileSystem& files) {
  std::string text;
  LORICA_ASSIGN_OR_RETURN(text, files.Read(path, kMaxConfigBytes));
  OrderedJson json;
  LORICA_ASSIGN_OR_RETURN(json, ParseOrderedJson(text, path));
  const Json sorted = Json::parse(json.dump());
  LORICA_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Of(sorted, path));
  PeftLayoutConfig config;
  if (object.Has("target_parameters")) {
    LORICA_ASSIGN_OR_RETURN(config.target_parameters, object.Strings("target_parameters"));
  }
  LORICA_ASSIGN_OR_RETURN(config.task_type, object.StringOr("task_type", "CAUSAL_LM"));
  LORICA_ASSIGN_OR_RETURN(const std::string version, object.StringOr("peft_version", ""));
  config.version = ParseVersion(version);
  if (object.Has("lorica")) {
    LORICA_ASSIGN_OR_RETURN(const JsonObject record, object.Object("lorica"));
    LORICA_RETURN_IF_ERROR(ReadRecord(record, config));
  }
  // PeftConfig is about modules: parameters are read here, and where they alone are named it gets a
  // name that nothing has.
  json.erase("target_parameters");
  const Json* modules = object.Find("target_modules");
  if ((modules == nullptr || modules->empty()) && !config.target_parameters.empty()) {
    json["target_modules"] = OrderedJson::array({kNoModule});
  }
  LORICA_ASSIGN_OR_RETURN(config.peft, ParsePeftConfig(json.dump(), path));
  return config;
}

void PeftConfigText::SetPattern(const std::string& pattern, int64_t own_rank, double own_alpha) {
  if (own_rank != rank) rank_pattern[pattern] = own_rank;
  if (own_alpha != alpha) alpha_pattern[pattern] = own_alpha;
}

std::string PeftConfigText::Format(const StoredAdapter& adapter) const {
  OrderedJson ranks = OrderedJson::object(), alphas = OrderedJson::object();
  for (const auto& [pattern, value] : rank_pattern) ranks[pattern] = value;
  for (const auto& [pattern, value] : alpha_pattern) alphas[pattern] = Number(value);
  OrderedJson record = {{"layout", std::string(layout)}, {"dropout", adapter.dropout}};
  if (!adapter.init.empty()) record["init"] = adapter.init;
  const absl::string_view kind = ExpertKindName(adapter);
  if (!kind.empty()) {
    record["experts"] = std::string(kind);
    record["expert_axis"] = "rank-major";
    record["gate_up_rows"] = adapter.form.interleaved ? "interleaved" : "concatenated";
  }
  if (!orientation.empty()) record["expert_orientation"] = orientation;
  OrderedJson json = {
      {"peft_type", "LORA"},
      {"task_type", adapter.task_type},
      {"base_model_name_or_path", adapter.base_model},
      {"inference_mode", true},
      {"r", rank},
      {"lora_alpha", Number(alpha)},
      // PEFT takes no dropout where it wraps parameters, and it has no effect after training.
      {"lora_dropout", target_parameters.empty() ? adapter.dropout : 0.0},
      {"use_rslora", rslora},
      {"use_dora", false},
      {"lora_bias", false},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"init_lora_weights", true},
      {"target_modules", target_modules},
      {"rank_pattern", ranks},
      {"alpha_pattern", alphas},
      {"modules_to_save",
       modules_to_save.empty() ? OrderedJson(nullptr) : OrderedJson(modules_to_save)},
  };
  if (!target_parameters.empty()) json["target_parameters"] = target_parameters;
  if (!peft_version.empty()) json["peft_version"] = peft_version;
  json["lorica"] = record;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace lorica::layouts
