#include "lorica/nn/rope_gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

using Kind = RopeConfig::Kind;

constexpr absl::string_view kKeys[] = {
    "rope.dimension_count",       "rope.freq_base",
    "rope.scale_linear",          "rope.scaling.attn_factor",
    "rope.scaling.factor",        "rope.scaling.original_context_length",
    "rope.scaling.type",          "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow"};

constexpr absl::string_view kDivisors = "rope_freqs.weight";
constexpr absl::string_view kShort = "rope_factors_short.weight";
constexpr absl::string_view kLong = "rope_factors_long.weight";

absl::Status Bad(const GgufFile& file, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(file.where(), ": ", message));
}

// Values of an F32 vector; empty without the tensor.
absl::StatusOr<std::vector<double>> Vector(const GgufFile& file, absl::string_view name,
                                           int64_t count) {
  std::vector<double> values;
  const GgufTensor* tensor = file.Find(name);
  if (tensor == nullptr) return values;
  const absl::Span<const uint8_t> bytes = file.Bytes(*tensor);
  if (tensor->type != StoredType::kF32 || tensor->shape != std::vector<int64_t>{count} ||
      bytes.size() != static_cast<size_t>(count) * sizeof(float)) {
    return Bad(file, absl::StrCat(name, ": expected F32 ", ShapeText({count}), ", found ",
                                  Name(tensor->type), " ", ShapeText(tensor->shape)));
  }
  for (int64_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + static_cast<size_t>(i) * sizeof(float), sizeof(float));
    values.push_back(value);
  }
  return values;
}

absl::StatusOr<int64_t> PositionsOr(const GgufFile& file, const std::string& key,
                                    int64_t fallback) {
  if (!file.Has(key)) return fallback;
  LORICA_ASSIGN_OR_RETURN(const int64_t positions, file.GetI64(key));
  return positions > 0 ? positions : fallback;
}

// Divisors win over a type: llama.cpp divides by them whatever it says.
absl::Status ReadDivisors(const GgufFile& file, RopeConfig& rope) {
  const int64_t half = rope.channels / 2;
  LORICA_ASSIGN_OR_RETURN(const std::vector<double> all, Vector(file, kDivisors, half));
  LORICA_ASSIGN_OR_RETURN(rope.short_factors, Vector(file, kShort, half));
  LORICA_ASSIGN_OR_RETURN(rope.long_factors, Vector(file, kLong, half));
  const bool by_length = !rope.short_factors.empty() && !rope.long_factors.empty();
  if (rope.short_factors.empty() != rope.long_factors.empty() || (by_length && !all.empty())) {
    return Bad(file, absl::StrCat("expected the tensor ", Quoted(kDivisors), " or both of ",
                                  Quoted(kShort), " and ", Quoted(kLong), ", found others"));
  }
  if (!all.empty()) rope.short_factors = rope.long_factors = all;
  if (all.empty() && !by_length) return absl::OkStatus();
  if (rope.kind != Kind::kDefault && rope.kind != Kind::kLongRope) {
    return Bad(file, absl::StrCat("divisors of rotary frequencies beside a scaling of another ",
                                  "kind are not supported"));
  }
  rope.kind = Kind::kLongRope;
  return absl::OkStatus();
}

}  // namespace

absl::Span<const absl::string_view> GgufRopeKeys() { return kKeys; }

bool IsGgufRopeTensor(absl::string_view name) {
  return name == kDivisors || name == kShort || name == kLong;
}

absl::Status ReadGgufRope(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.channels = config.head_dim;
  if (file.Has(prefix + "rope.dimension_count")) {
    LORICA_ASSIGN_OR_RETURN(rope.channels, file.GetI64(prefix + "rope.dimension_count"));
  }
  if (rope.channels < 2 || rope.channels > config.head_dim) {
    return Bad(file, absl::StrCat(prefix, "rope.dimension_count: expected a number from 2 to the ",
                                  "key_length ", config.head_dim, ", found ", rope.channels));
  }
  LORICA_ASSIGN_OR_RETURN(rope.theta, file.GetF64Or(prefix + "rope.freq_base", 10000));
  LORICA_ASSIGN_OR_RETURN(const double old_factor, file.GetF64Or(prefix + "rope.scale_linear", 1));
  LORICA_ASSIGN_OR_RETURN(double factor, file.GetF64Or(prefix + "rope.scaling.factor", old_factor));
  if (factor == 0) factor = 1;  // says nothing
  // A factor without a type divides positions.
  LORICA_ASSIGN_OR_RETURN(
      const std::string type,
      file.GetStringOr(prefix + "rope.scaling.type", factor == 1 ? "none" : "linear"));
  LORICA_ASSIGN_OR_RETURN(
      rope.original_positions,
      PositionsOr(file, prefix + "rope.scaling.original_context_length", config.max_positions));
  LORICA_ASSIGN_OR_RETURN(const double attention,
                          file.GetF64Or(prefix + "rope.scaling.attn_factor", 1));
  if (type == "linear") {
    rope.kind = factor == 1 ? Kind::kDefault : Kind::kLinear;
  } else if (type == "yarn") {
    rope.kind = Kind::kYarn;
    LORICA_ASSIGN_OR_RETURN(rope.beta_fast,
                            file.GetF64Or(prefix + "rope.scaling.yarn_beta_fast", 32));
    LORICA_ASSIGN_OR_RETURN(rope.beta_slow,
                            file.GetF64Or(prefix + "rope.scaling.yarn_beta_slow", 1));
    rope.attention_factor = attention * (factor <= 1 ? 1 : 0.1 * std::log(factor) + 1);
  } else if (type == "longrope") {
    rope.kind = Kind::kLongRope;
    rope.attention_factor = attention;
  } else if (type != "none") {
    return Bad(file, absl::StrCat(prefix, "rope.scaling.type: expected \"none\", \"linear\", ",
                                  "\"yarn\" or \"longrope\", found ", Quoted(type)));
  }
  if (rope.kind == Kind::kLinear || rope.kind == Kind::kYarn) rope.factor = factor;
  LORICA_RETURN_IF_ERROR(ReadDivisors(file, rope));
  if (rope.kind == Kind::kLongRope) {
    rope.attention_factor = attention;
    // Where one list serves all lengths the limit means nothing, but it must be there.
    rope.original_positions = std::max<int64_t>(rope.original_positions, 1);
  }
  const bool scales_attention = rope.kind == Kind::kYarn || rope.kind == Kind::kLongRope;
  if (!scales_attention && attention != 1) {
    return Bad(file, absl::StrCat(prefix, "rope.scaling.attn_factor: ", attention,
                                  " changes the maths and isn't supported beside the type ",
                                  Quoted(type)));
  }
  return absl::OkStatus();
}

}  // namespace lorica::internal
