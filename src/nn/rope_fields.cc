#include "lorica/nn/rope_fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

using Kind = RopeConfig::Kind;

constexpr absl::string_view kFull = "full_attention", kSliding = "sliding_attention";

constexpr absl::string_view kRopeKeys[] = {"original_max_position_embeddings",
                                           "partial_rotary_factor", "rope_parameters",
                                           "rope_scaling", "rope_theta"};

// A type, and the fields beside rope_theta and partial_rotary_factor that have a say with it.
struct KindFields {
  absl::string_view name;
  Kind kind;
  std::vector<absl::string_view> keys;
};

const std::vector<KindFields>& Kinds() {
  static const std::vector<KindFields> kinds = {
      {"default", Kind::kDefault, {}},
      {"linear", Kind::kLinear, {"factor"}},
      {"dynamic", Kind::kDynamic, {"factor"}},
      {"llama3", Kind::kLlama3, {"factor", "low_freq_factor", "high_freq_factor"}},
      {"yarn",
       Kind::kYarn,
       {"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
        "truncate"}},
      {"longrope", Kind::kLongRope, {"factor", "attention_factor", "short_factor", "long_factor"}},
      // Its name in early files of Phi-3.
      {"su", Kind::kLongRope, {"factor", "attention_factor", "short_factor", "long_factor"}},
  };
  return kinds;
}

absl::StatusOr<const KindFields*> KindOf(const JsonObject& rope) {
  LORICA_ASSIGN_OR_RETURN(const std::string old_type, rope.StringOr("type", "default"));
  LORICA_ASSIGN_OR_RETURN(const std::string type, rope.StringOr("rope_type", old_type));
  std::string known;
  for (const KindFields& kind : Kinds()) {
    if (kind.name == type) return &kind;
    absl::StrAppend(&known, known.empty() ? "" : ", ", Quoted(kind.name));
  }
  return rope.Wrong(rope.Has("rope_type") ? "rope_type" : "type",
                    absl::StrCat("expected one of ", known, ", found ", Quoted(type)));
}

absl::Status CheckKeys(const JsonObject& rope, const KindFields& kind) {
  const bool scales = std::find(kind.keys.begin(), kind.keys.end(), "factor") != kind.keys.end();
  for (const auto& member : rope.json().items()) {
    const std::string& key = member.key();
    const Json& value = member.value();
    if (key == "type" || key == "rope_type" || key == "rope_theta" || value.is_null()) continue;
    if (key == "partial_rotary_factor" || key == "original_max_position_embeddings") continue;
    if (std::find(kind.keys.begin(), kind.keys.end(), key) != kind.keys.end()) continue;
    if (key == "factor" && !scales && value == 1) continue;
    return rope.Wrong(key, absl::StrCat("expected no such field beside the type ",
                                        Quoted(kind.name), ", found ", value.type_name()));
  }
  return absl::OkStatus();
}

// What stands outside of the object and counts where it doesn't say otherwise.
struct Outer {
  double theta = 10000;
  double partial = 1;
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  std::optional<int64_t> original_positions;  // wins over that inside
};

// How far softmax sharpens with a context `factor` times as long. B. Peng et al., "YaRN", 2023.
double YarnScale(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

absl::Status ReadYarn(const JsonObject& rope, RopeConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const double fast, rope.DoubleOr("beta_fast", 0));
  LORICA_ASSIGN_OR_RETURN(const double slow, rope.DoubleOr("beta_slow", 0));
  if (fast != 0) config.beta_fast = fast;
  if (slow != 0) config.beta_slow = slow;
  LORICA_ASSIGN_OR_RETURN(config.truncate, rope.BoolOr("truncate", true));
  LORICA_ASSIGN_OR_RETURN(const double mscale, rope.DoubleOr("mscale", 0));
  LORICA_ASSIGN_OR_RETURN(const double all_dim, rope.DoubleOr("mscale_all_dim", 0));
  config.mscale_all_dim = all_dim;
  const double inferred = mscale != 0 && all_dim != 0
                              ? YarnScale(config.factor, mscale) / YarnScale(config.factor, all_dim)
                              : YarnScale(config.factor, 1);
  LORICA_ASSIGN_OR_RETURN(config.attention_factor, rope.DoubleOr("attention_factor", inferred));
  return absl::OkStatus();
}

absl::Status ReadLongRope(const JsonObject& rope, RopeConfig& config) {
  for (auto [key, factors] : {std::pair(absl::string_view("short_factor"), &config.short_factors),
                              std::pair(absl::string_view("long_factor"), &config.long_factors)}) {
    LORICA_ASSIGN_OR_RETURN(*factors, rope.Doubles(key));
    if (static_cast<int64_t>(factors->size()) != config.channels / 2) {
      return rope.Wrong(
          key, absl::StrCat("expected ", config.channels / 2, " numbers, found ", factors->size()));
    }
  }
  const double positions = static_cast<double>(config.original_positions);
  const double inferred =
      config.factor <= 1 ? 1 : std::sqrt(1 + std::log(config.factor) / std::log(positions));
  LORICA_ASSIGN_OR_RETURN(config.attention_factor, rope.DoubleOr("attention_factor", inferred));
  return absl::OkStatus();
}

absl::Status ReadFactor(const JsonObject& rope, const KindFields& kind, const Outer& outer,
                        RopeConfig& config) {
  const bool inferred = kind.kind == Kind::kYarn || kind.kind == Kind::kLongRope;
  if (inferred && !rope.Has("factor")) {
    config.factor =
        static_cast<double>(outer.max_positions) / static_cast<double>(config.original_positions);
  } else {
    LORICA_ASSIGN_OR_RETURN(config.factor, rope.Double("factor"));
  }
  if (config.factor > 0) return absl::OkStatus();
  return rope.Wrong("factor", absl::StrCat("expected a positive number, found ", config.factor));
}

absl::Status ReadScaling(const JsonObject& rope, const KindFields& kind, const Outer& outer,
                         RopeConfig& config) {
  if (kind.kind == Kind::kLinear) return ReadFactor(rope, kind, outer, config);
  // Absent it means what the model was trained for; dynamic scaling looks at nothing else.
  config.original_positions = outer.max_positions;
  if (kind.kind != Kind::kDynamic) {
    LORICA_ASSIGN_OR_RETURN(
        config.original_positions,
        rope.IntOr("original_max_position_embeddings", config.original_positions));
    config.original_positions = outer.original_positions.value_or(config.original_positions);
  }
  if (config.original_positions < 1) {
    return rope.Wrong("original_max_position_embeddings",
                      absl::StrCat("expected a positive number here or in ",
                                   "max_position_embeddings, found ", config.original_positions));
  }
  LORICA_RETURN_IF_ERROR(ReadFactor(rope, kind, outer, config));
  if (kind.kind == Kind::kLlama3) {
    LORICA_ASSIGN_OR_RETURN(config.low_frequency_factor, rope.Double("low_freq_factor"));
    LORICA_ASSIGN_OR_RETURN(config.high_frequency_factor, rope.Double("high_freq_factor"));
  }
  if (kind.kind == Kind::kYarn) return ReadYarn(rope, config);
  if (kind.kind == Kind::kLongRope) return ReadLongRope(rope, config);
  return absl::OkStatus();
}

absl::Status ReadRope(const JsonObject& rope, const Outer& outer, RopeConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const KindFields* kind, KindOf(rope));
  LORICA_RETURN_IF_ERROR(CheckKeys(rope, *kind));
  LORICA_ASSIGN_OR_RETURN(config.theta, rope.DoubleOr("rope_theta", outer.theta));
  LORICA_ASSIGN_OR_RETURN(const double partial,
                          rope.DoubleOr("partial_rotary_factor", outer.partial));
  if (!(partial > 0 && partial <= 1)) {
    return rope.Wrong("partial_rotary_factor",
                      absl::StrCat("expected a number above 0 and at most 1, found ", partial));
  }
  config.kind = kind->kind;
  config.channels = static_cast<int64_t>(static_cast<double>(outer.head_dim) * partial);
  if (kind->kind == Kind::kDefault) return absl::OkStatus();
  return ReadScaling(rope, *kind, outer, config);
}

// The one object that describes the rotation: rope_scaling or rope_parameters, null where neither
// is there.
absl::StatusOr<std::optional<JsonObject>> RopeObject(const JsonObject& json) {
  std::optional<JsonObject> found;
  for (absl::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!json.Has(key)) continue;
    LORICA_ASSIGN_OR_RETURN(JsonObject rope, json.Object(key));
    if (found.has_value() && found->json() != rope.json()) {
      return json.Wrong(key, "expected what rope_scaling says, found something else");
    }
    found.emplace(std::move(rope));
  }
  return found;
}

absl::StatusOr<Outer> ReadOuter(const JsonObject& json, const Family& family,
                                const ModelConfig& config) {
  Outer outer;
  outer.head_dim = config.head_dim;
  outer.max_positions = config.max_positions;
  LORICA_ASSIGN_OR_RETURN(outer.theta, json.DoubleOr("rope_theta", family.rope_theta));
  LORICA_ASSIGN_OR_RETURN(outer.partial,
                          json.DoubleOr("partial_rotary_factor", family.partial_rotary));
  if (json.Has("original_max_position_embeddings")) {
    LORICA_ASSIGN_OR_RETURN(outer.original_positions, json.Int("original_max_position_embeddings"));
  }
  return outer;
}

// A base inside and another one outside: which one counts has changed between versions.
absl::Status CheckOneBase(const JsonObject& json, const JsonObject& rope) {
  for (absl::string_view key : {"rope_theta", "partial_rotary_factor"}) {
    if (!json.Has(key) || !rope.Has(key)) continue;
    LORICA_ASSIGN_OR_RETURN(const double outer, json.Double(key));
    LORICA_ASSIGN_OR_RETURN(const double inner, rope.Double(key));
    if (outer != inner) {
      return json.Wrong(key, absl::StrCat("expected one number, found ", outer, " here and ", inner,
                                          " in ", rope.where()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const absl::string_view> RopeKeys() { return kRopeKeys; }

absl::Status ReadRopes(const JsonObject& json, const Family& family, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const Outer outer, ReadOuter(json, family, config));
  LORICA_ASSIGN_OR_RETURN(const std::optional<JsonObject> rope, RopeObject(json));
  const Json empty = Json::object();
  LORICA_ASSIGN_OR_RETURN(const JsonObject nothing, JsonObject::Of(empty, json.where()));
  const bool nested =
      family.local_rope && rope.has_value() && (rope->Has(kFull) || rope->Has(kSliding));
  if (!nested) {
    if (rope.has_value()) LORICA_RETURN_IF_ERROR(CheckOneBase(json, *rope));
    if (family.local_rope && json.Has("rope_parameters") && !rope->json().empty()) {
      return json.Wrong("rope_parameters",
                        "expected full_attention and sliding_attention in it, found neither");
    }
    LORICA_RETURN_IF_ERROR(ReadRope(rope.value_or(nothing), outer, config.rope));
    if (!family.local_rope) return absl::OkStatus();
    Outer local = outer;
    LORICA_ASSIGN_OR_RETURN(local.theta, json.DoubleOr("rope_local_base_freq", 10000));
    return ReadRope(nothing, local, config.local_rope);
  }
  for (const auto& member : rope->json().items()) {
    if (member.key() != kFull && member.key() != kSliding) {
      return rope->Wrong(member.key(), "expected full_attention and sliding_attention only");
    }
  }
  for (const bool local : {false, true}) {
    const absl::string_view key = local ? kSliding : kFull;
    Outer inner = outer;
    if (local) {
      LORICA_ASSIGN_OR_RETURN(inner.theta, json.DoubleOr("rope_local_base_freq", 10000));
    }
    JsonObject part = nothing;
    if (rope->Has(key)) {
      LORICA_ASSIGN_OR_RETURN(part, rope->Object(key));
    }
    LORICA_RETURN_IF_ERROR(ReadRope(part, inner, local ? config.local_rope : config.rope));
  }
  return absl::OkStatus();
}

namespace {

// Of a kind other than default.
OrderedJson ScalingJson(const RopeConfig& rope) {
  OrderedJson json;
  for (const KindFields& kind : Kinds()) {
    if (kind.kind != rope.kind) continue;
    json["rope_type"] = std::string(kind.name);
    break;
  }
  json["factor"] = rope.factor;
  if (rope.kind == Kind::kLinear || rope.kind == Kind::kDynamic) return json;
  json["original_max_position_embeddings"] = rope.original_positions;
  if (rope.kind == Kind::kLlama3) {
    json["low_freq_factor"] = rope.low_frequency_factor;
    json["high_freq_factor"] = rope.high_frequency_factor;
    return json;
  }
  json["attention_factor"] = rope.attention_factor;
  if (rope.kind == Kind::kLongRope) {
    json["short_factor"] = rope.short_factors;
    json["long_factor"] = rope.long_factors;
    return json;
  }
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  json["truncate"] = rope.truncate;
  if (rope.mscale_all_dim != 0) json["mscale_all_dim"] = rope.mscale_all_dim;
  return json;
}

}  // namespace

void WriteRopes(const ModelConfig& config, const Family& family, OrderedJson& json) {
  const bool plain_local = config.local_rope.kind == Kind::kDefault;
  if (family.local_rope && !plain_local) {
    for (const bool local : {false, true}) {
      const RopeConfig& rope = local ? config.local_rope : config.rope;
      OrderedJson part = {{"rope_type", "default"}};
      if (rope.kind != Kind::kDefault) part = ScalingJson(rope);
      part["rope_theta"] = rope.theta;
      json["rope_parameters"][std::string(local ? kSliding : kFull)] = std::move(part);
    }
    return;
  }
  json["rope_theta"] = config.rope.theta;
  json["rope_scaling"] =
      config.rope.kind == Kind::kDefault ? OrderedJson(nullptr) : ScalingJson(config.rope);
  if (family.local_rope) json["rope_local_base_freq"] = config.local_rope.theta;
  // Latent attention rotates a part of its own.
  const int64_t whole =
      config.latent.kv_lora_rank > 0 ? config.latent.qk_rope_head_dim : config.head_dim;
  if (config.rope.channels != whole || family.partial_rotary != 1) {
    // Readers cut the product to a whole number, so it must not fall short of it.
    double partial = static_cast<double>(config.rope.channels) / static_cast<double>(whole);
    if (partial * static_cast<double>(whole) < static_cast<double>(config.rope.channels)) {
      partial = std::nextafter(partial, 1);
    }
    json["partial_rotary_factor"] = partial;
  }
}

}  // namespace lorica::internal
