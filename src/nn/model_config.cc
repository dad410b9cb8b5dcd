#include "lorica/nn/model_config.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/nn/config_fields.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Several times the largest model of today each, and small enough that no product of two of them
// times the layers overflows 63 bits.
constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostChannels = int64_t{1} << 20;
constexpr int64_t kMostVocabulary = int64_t{1} << 24;
// Positions are 32-bit numbers.
constexpr int64_t kMostPositions = int64_t{1} << 31;

struct Bound {
  absl::string_view name;
  int64_t value;
  int64_t most;
};

// All of a list of bounds, which `where` begins the text of.
template <size_t kCount>
absl::Status CheckBounds(const Bound (&bounds)[kCount], absl::string_view where) {
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.most) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", bound.name,
                                                     ": expected a number from 1 to ", bound.most,
                                                     ", found ", bound.value));
    }
  }
  return absl::OkStatus();
}

bool IsPositive(double value) { return value > 0 && std::isfinite(value); }

absl::Status CheckRope(const RopeConfig& rope, int64_t head_dim, absl::string_view where) {
  using Kind = RopeConfig::Kind;
  const auto bad = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", parts...));
  };
  if (rope.channels < 2 || rope.channels % 2 != 0 || rope.channels > head_dim) {
    return bad("partial_rotary_factor: expected an even number of rotated channels from 2 to ",
               "head_dim ", head_dim, ", found ", rope.channels);
  }
  if (!IsPositive(rope.theta)) {
    return bad("rope_theta: expected a positive number, found ", rope.theta);
  }
  if (rope.kind == Kind::kDefault) return absl::OkStatus();
  if (!IsPositive(rope.factor) || !IsPositive(rope.attention_factor)) {
    return bad("rope_scaling.factor: expected positive numbers as factor and attention_factor, ",
               "found ", rope.factor, " and ", rope.attention_factor);
  }
  if (rope.kind == Kind::kLinear) return absl::OkStatus();
  if (rope.original_positions < 1 || rope.original_positions > kMostPositions) {
    return bad("rope_scaling.original_max_position_embeddings: expected a number from 1 to ",
               kMostPositions, ", found ", rope.original_positions);
  }
  if (rope.kind == Kind::kDynamic && rope.channels < 4) {
    return bad("rope_scaling.rope_type: \"dynamic\" needs 4 rotated channels or more, found ",
               rope.channels);
  }
  const double low = rope.low_frequency_factor, high = rope.high_frequency_factor;
  if (rope.kind == Kind::kLlama3 && !(IsPositive(low) && IsPositive(high) && low < high)) {
    return bad("rope_scaling.high_freq_factor: expected a number above low_freq_factor ", low,
               ", found ", high);
  }
  if (rope.kind == Kind::kYarn &&
      !(IsPositive(rope.beta_fast) && IsPositive(rope.beta_slow) && rope.theta != 1)) {
    return bad("rope_scaling.beta_fast: expected positive numbers as beta_fast and beta_slow and ",
               "a rope_theta other than 1, found ", rope.beta_fast, ", ", rope.beta_slow, " and ",
               rope.theta);
  }
  if (rope.kind != Kind::kLongRope) return absl::OkStatus();
  for (const std::vector<double>& factors : {rope.short_factors, rope.long_factors}) {
    if (static_cast<int64_t>(factors.size()) != rope.channels / 2 ||
        !std::all_of(factors.begin(), factors.end(), IsPositive)) {
      return bad("rope_scaling.short_factor: expected ", rope.channels / 2, " positive numbers ",
                 "here and as long_factor, found others");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIndex(const ModelConfig& config, absl::string_view where) {
  const IndexerSizes& index = config.indexer;
  const bool sparse = index.top_k != 0;
  for (size_t i = 0; i < config.layer_configs.size(); ++i) {
    if (!config.layer_configs[i].shares_choice || (sparse && i > 0)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": indexer_types: layer ", i,
                     " shares the keys of the layer before, which has none"));
  }
  if (!sparse) return absl::OkStatus();
  LORICA_RETURN_IF_ERROR(CheckBounds(
      {{"index_topk", index.top_k, kMostPositions},
       {"index_n_heads", index.heads, kMostChannels},
       {"index_head_dim", index.head_dim, kMostChannels / std::max<int64_t>(index.heads, 1)}},
      where));
  if (index.head_dim < config.latent.qk_rope_head_dim) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": index_head_dim: expected at least qk_rope_head_dim ",
                     config.latent.qk_rope_head_dim, ", which rotate, found ", index.head_dim));
  }
  if (config.latent.q_lora_rank < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": q_lora_rank: expected a positive number, as an indexer reads the latent of ",
        "queries, found ", config.latent.q_lora_rank));
  }
  return absl::OkStatus();
}

absl::Status CheckLayers(const ModelConfig& config, absl::string_view where) {
  const size_t count = config.layer_configs.size();
  if (count != 0 && static_cast<int64_t>(count) != config.layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": layer_types: expected ", config.layers, " layers, found ", count));
  }
  for (const LayerConfig& layer : config.layer_configs) {
    if (layer.experts && config.moe.experts < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": num_experts: expected a positive number, found none"));
    }
    if (layer.window < 0 || layer.window > kMostPositions) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": sliding_window: expected a number from 1 to ", kMostPositions,
                       ", found ", layer.window));
    }
    if (layer.rope == LayerConfig::Rope::kLocal) {
      LORICA_RETURN_IF_ERROR(CheckRope(config.local_rope, config.head_dim, where));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScales(const ModelConfig& config, absl::string_view where) {
  struct Scale {
    absl::string_view name;
    double value;
    bool may_be_zero;
  };
  const Scale scales[] = {
      {"attention_multiplier", config.attention_scale, true},
      {"attn_logit_softcapping", config.attention_softcap, true},
      {"clip_qkv", config.qkv_clip, true},
      {"embedding_multiplier", config.embedding_scale, false},
      {"final_logit_softcapping", config.logit_softcap, true},
      {"logits_scaling", config.logit_divisor, false},
      {"residual_multiplier", config.residual_scale, false},
      {"routed_scaling_factor", config.moe.router.scale, false},
  };
  for (const Scale& scale : scales) {
    if (!IsPositive(scale.value) && !(scale.may_be_zero && scale.value == 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": ", scale.name, ": expected a positive number, found ", scale.value));
    }
  }
  return absl::OkStatus();
}

}  // namespace

namespace internal {

absl::Status CheckSizes(const ModelConfig& config, absl::string_view where) {
  return CheckBounds({{"vocab_size", config.vocab_size, kMostVocabulary},
                      {"hidden_size", config.hidden_size, kMostChannels},
                      {"intermediate_size", config.intermediate_size, kMostChannels},
                      {"num_hidden_layers", config.layers, kMostLayers},
                      {"num_attention_heads", config.heads, kMostChannels},
                      {"num_key_value_heads", config.kv_heads, kMostChannels},
                      {"head_dim", config.head_dim, kMostChannels}},
                     where);
}

absl::Status CheckLatentSizes(const LatentSizes& latent, int64_t heads, absl::string_view where) {
  // The widest projection has that many channels.
  const int64_t most = kMostChannels / std::max<int64_t>(heads, 1);
  LORICA_RETURN_IF_ERROR(CheckBounds({{"kv_lora_rank", latent.kv_lora_rank, kMostChannels},
                                      {"qk_nope_head_dim", latent.qk_nope_head_dim, most},
                                      {"qk_rope_head_dim", latent.qk_rope_head_dim, most},
                                      {"v_head_dim", latent.v_head_dim, most}},
                                     where));
  if (latent.q_lora_rank < 0 || latent.q_lora_rank > kMostChannels) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": q_lora_rank: expected a number from 1 to ", kMostChannels,
                     " or null, found ", latent.q_lora_rank));
  }
  return absl::OkStatus();
}

}  // namespace internal

absl::Status CheckModelConfig(const ModelConfig& config, absl::string_view where) {
  const auto bad = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", parts...));
  };
  LORICA_RETURN_IF_ERROR(internal::CheckSizes(config, where));
  if (config.heads % config.kv_heads != 0) {
    return bad("num_attention_heads: expected a multiple of num_key_value_heads ", config.kv_heads,
               ", found ", config.heads);
  }
  if (config.heads * config.head_dim > kMostChannels) {
    return bad("head_dim: expected ", config.heads, " heads of at most ", kMostChannels,
               " channels together, found ", config.head_dim, " each");
  }
  if (config.latent.kv_lora_rank > 0) {
    LORICA_RETURN_IF_ERROR(internal::CheckLatentSizes(config.latent, config.heads, where));
  }
  if (config.head_dim % 2 != 0 && config.latent.kv_lora_rank == 0) {
    return bad("head_dim: expected an even number, found ", config.head_dim);
  }
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps < 1)) {
    return bad("rms_norm_eps: expected a number between 0 and 1, found ", config.rms_norm_eps);
  }
  if (config.skipped_layers < 0 || config.skipped_layers > kMostLayers) {
    return bad("num_nextn_predict_layers: expected a number from 0 to ", kMostLayers, ", found ",
               config.skipped_layers);
  }
  if (config.max_positions < 0) {
    return bad("max_position_embeddings: expected a positive number, found ", config.max_positions);
  }
  if (!(config.initializer_range >= 0) || !std::isfinite(config.initializer_range)) {
    return bad("initializer_range: expected a number from 0 on, found ", config.initializer_range);
  }
  LORICA_RETURN_IF_ERROR(CheckRope(config.rope, config.head_dim, where));
  if (config.latent.kv_lora_rank > 0 && config.rope.channels != config.latent.qk_rope_head_dim) {
    return bad("partial_rotary_factor: expected 1, as latent attention rotates all of ",
               "qk_rope_head_dim ", config.latent.qk_rope_head_dim, ", found ",
               config.rope.channels, " rotated channels");
  }
  LORICA_RETURN_IF_ERROR(CheckLayers(config, where));
  LORICA_RETURN_IF_ERROR(CheckIndex(config, where));
  return CheckScales(config, where);
}

bool IsGgufPath(const std::string& path) {
  if (absl::EndsWith(path, ".gguf")) return true;
  const absl::StatusOr<FileInfo> info = PosixFiles().Stat(path);
  if (!info.ok() || !info->is_regular) return false;
  const absl::StatusOr<MappedFile> file = PosixFiles().Map(path);
  if (!file.ok() || file->bytes().size() < 4) return false;
  const auto bytes = file->bytes();
  return bytes[0] == 'G' && bytes[1] == 'G' && bytes[2] == 'U' && bytes[3] == 'F';
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path) {
  if (!IsGgufPath(path)) return ReadModelConfigFile(JoinPath(path, "config.json"));
  LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  return ModelConfigFromGguf(file);
}

}  // namespace lorica
