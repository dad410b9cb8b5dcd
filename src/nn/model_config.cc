#include "lorica/nn/model_config.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Several times the largest model of today each, and small enough that no product of two of them
// times the layers overflows 63 bits.
constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostChannels = int64_t{1} << 20;
constexpr int64_t kMostVocabulary = int64_t{1} << 24;

struct Bound {
  absl::string_view name;
  int64_t value;
  int64_t most;
};

}  // namespace

absl::Status CheckModelConfig(const ModelConfig& config, absl::string_view where) {
  const auto bad = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", parts...));
  };
  const Bound bounds[] = {
      {"vocab_size", config.vocab_size, kMostVocabulary},
      {"hidden_size", config.hidden_size, kMostChannels},
      {"intermediate_size", config.intermediate_size, kMostChannels},
      {"num_hidden_layers", config.layers, kMostLayers},
      {"num_attention_heads", config.heads, kMostChannels},
      {"num_key_value_heads", config.kv_heads, kMostChannels},
      {"head_dim", config.head_dim, kMostChannels},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.most) {
      return bad(bound.name, ": expected a number from 1 to ", bound.most, ", found ", bound.value);
    }
  }
  if (config.heads % config.kv_heads != 0) {
    return bad("num_attention_heads: expected a multiple of num_key_value_heads ", config.kv_heads,
               ", found ", config.heads);
  }
  if (config.heads * config.head_dim > kMostChannels) {
    return bad("head_dim: expected ", config.heads, " heads of at most ", kMostChannels,
               " channels together, found ", config.head_dim, " each");
  }
  if (config.head_dim % 2 != 0 || config.rope.channels != config.head_dim) {
    return bad("head_dim: expected an even number of channels that all rotate, found ",
               config.head_dim, " of which ", config.rope.channels, " rotate");
  }
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps < 1)) {
    return bad("rms_norm_eps: expected a number between 0 and 1, found ", config.rms_norm_eps);
  }
  if (!(config.rope.theta > 0) || !std::isfinite(config.rope.theta)) {
    return bad("rope_theta: expected a positive number, found ", config.rope.theta);
  }
  if (config.max_positions < 0) {
    return bad("max_position_embeddings: expected a positive number, found ", config.max_positions);
  }
  if (!(config.initializer_range >= 0) || !std::isfinite(config.initializer_range)) {
    return bad("initializer_range: expected a number from 0 on, found ", config.initializer_range);
  }
  return absl::OkStatus();
}

int64_t CountParameters(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, mlp = config.intermediate_size;
  const int64_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  int64_t layer = 2 * hidden;          // norms
  layer += hidden * (2 * q + 2 * kv);  // q, o, k, v
  layer += 3 * hidden * mlp;           // gate, up, down
  if (config.qkv_bias) layer += q + 2 * kv;
  if (config.o_bias) layer += hidden;
  if (config.mlp_bias) layer += 2 * mlp + hidden;
  const int64_t tables = config.tied ? 1 : 2;
  return config.layers * layer + hidden + tables * config.vocab_size * hidden;
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
