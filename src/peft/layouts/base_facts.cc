#include "lorica/peft/layouts/base_facts.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/io/gguf.h"
#include "lorica/io/json_file.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
// No configuration means more; keeps products of two from overflowing.
constexpr int64_t kMaxCount = int64_t{1} << 31;

struct TypeRow {
  absl::string_view model_type;
  absl::string_view architecture;
  ExpertForm form;
};

constexpr ExpertForm kPlain{};
constexpr ExpertForm kNumbered{.numbered_names = true};
constexpr TypeRow kTypes[] = {
    {"llama", "llama", kPlain},
    {"mistral", "llama", kPlain},
    {"mixtral", "llama", kNumbered},
    {"qwen2", "qwen2", kPlain},
    {"qwen2_moe", "qwen2moe", kPlain},
    {"qwen3", "qwen3", kPlain},
    {"qwen3_moe", "qwen3moe", kPlain},
    {"qwen3_5_moe_text", "qwen35moe", kPlain},
    {"olmo2", "olmo2", kPlain},
    {"olmoe", "olmoe", kPlain},
    {"phi3", "phi3", kPlain},
    {"smollm3", "smollm3", kPlain},
    {"granite", "granite", kPlain},
    {"gemma2", "gemma2", kPlain},
    {"gemma3_text", "gemma3", kPlain},
    {"deepseek_v2", "deepseek2", kPlain},
    {"deepseek_v3", "deepseek2", kPlain},
    {"deepseek_v32", "", kPlain},
    {"glm4_moe", "glm4moe", kPlain},
    {"glm4_moe_lite", "deepseek2", kPlain},
    {"glm_moe_dsa", "glm-dsa", kPlain},
    {"gpt_oss", "gpt-oss", {.interleaved = true, .transposed = true}},
    {"llama4_text", "llama4", {.transposed = true}},
    {"minimax", "", kNumbered},
    {"minimax_m2", "minimax-m2", kNumbered},
};

// What follows from the model's type; nothing where that is unknown.
void SetByType(BaseFacts& facts) {
  for (const TypeRow& row : kTypes) {
    if (facts.model_type != row.model_type) continue;
    facts.architecture = std::string(row.architecture);
    facts.form = row.form;
  }
  facts.form.in_model = facts.experts > 0;
}

absl::StatusOr<int64_t> FirstCount(const JsonObject& config,
                                   std::initializer_list<absl::string_view> keys) {
  for (const absl::string_view key : keys) {
    if (!config.Has(key)) continue;
    LORICA_ASSIGN_OR_RETURN(const int64_t value, config.Int(key));
    if (value < 0 || value > kMaxCount) {
      return config.Wrong(key, absl::StrCat(": expected a count, found ", value));
    }
    return value;
  }
  return int64_t{0};
}

absl::StatusOr<BaseFacts> FromConfig(const std::string& path, FileSystem& files) {
  std::string text;
  LORICA_ASSIGN_OR_RETURN(text, files.Read(path, kMaxConfigBytes));
  Json json;
  LORICA_ASSIGN_OR_RETURN(json, ParseJson(text, path));
  LORICA_ASSIGN_OR_RETURN(JsonObject config, JsonObject::Of(json, path));
  if (config.Has("text_config") && !config.Has("hidden_size")) {
    LORICA_ASSIGN_OR_RETURN(config, config.Object("text_config"));
  }
  BaseFacts facts;
  LORICA_ASSIGN_OR_RETURN(facts.model_type, config.String("model_type"));
  LORICA_ASSIGN_OR_RETURN(facts.hidden, FirstCount(config, {"moe_latent_size", "hidden_size"}));
  LORICA_ASSIGN_OR_RETURN(
      facts.experts, FirstCount(config, {"num_experts", "num_local_experts", "n_routed_experts"}));
  LORICA_ASSIGN_OR_RETURN(facts.expert_width,
                          FirstCount(config, {"moe_intermediate_size", "intermediate_size"}));
  LORICA_ASSIGN_OR_RETURN(facts.heads, FirstCount(config, {"num_attention_heads"}));
  LORICA_ASSIGN_OR_RETURN(facts.kv_heads,
                          FirstCount(config, {"num_key_value_heads", "num_attention_heads"}));
  SetByType(facts);
  return facts;
}

// A model that can't be run here, by its architecture and what most have under the same keys.
absl::StatusOr<BaseFacts> FromKeys(const GgufFile& file) {
  BaseFacts facts;
  LORICA_ASSIGN_OR_RETURN(facts.architecture, file.GetString("general.architecture"));
  const auto count = [&](absl::string_view name, int64_t& out) -> absl::Status {
    const std::string key = absl::StrCat(facts.architecture, ".", name);
    LORICA_ASSIGN_OR_RETURN(const uint64_t value, file.GetU64Or(key, 0));
    if (value > static_cast<uint64_t>(kMaxCount)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.where(), ": ", key, ": expected a count, found ", value));
    }
    out = static_cast<int64_t>(value);
    return absl::OkStatus();
  };
  LORICA_RETURN_IF_ERROR(count("embedding_length", facts.hidden));
  LORICA_RETURN_IF_ERROR(count("expert_count", facts.experts));
  LORICA_RETURN_IF_ERROR(count("expert_feed_forward_length", facts.expert_width));
  LORICA_RETURN_IF_ERROR(count("attention.head_count", facts.heads));
  LORICA_RETURN_IF_ERROR(count("attention.head_count_kv", facts.kv_heads));
  if (facts.kv_heads == 0) facts.kv_heads = facts.heads;
  const std::string architecture = facts.architecture;
  facts.model_type = architecture;
  if (architecture == "llama" && facts.experts > 0) {
    facts.model_type = "mixtral";
  } else {
    // The first of several types with that architecture.
    for (const TypeRow& row : kTypes) {
      if (row.architecture != architecture) continue;
      facts.model_type = std::string(row.model_type);
      break;
    }
  }
  SetByType(facts);
  facts.architecture = architecture;
  return facts;
}

absl::StatusOr<BaseFacts> FromGguf(const std::string& path, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path, files));
  const absl::StatusOr<ModelConfig> config = ModelConfigFromGguf(file);
  absl::StatusOr<BaseFacts> facts = config.ok() ? BaseFactsOf(*config) : FromKeys(file);
  LORICA_RETURN_IF_ERROR(facts.status());
  for (const GgufTensor& tensor : file.tensors()) facts->gguf_tensors[tensor.name] = tensor.shape;
  return facts;
}

}  // namespace

absl::StatusOr<BaseFacts> ReadBaseFacts(const std::string& path, FileSystem& files) {
  return IsGgufPath(path) ? FromGguf(path, files)
                          : FromConfig(JoinPath(path, "config.json"), files);
}

BaseFacts BaseFactsOf(const ModelConfig& config) {
  BaseFacts facts;
  facts.model_type = config.family;
  facts.hidden = config.hidden_size;
  facts.experts = config.moe.experts;
  facts.expert_width = config.moe.expert_width;
  facts.heads = config.heads;
  facts.kv_heads = config.kv_heads;
  SetByType(facts);
  return facts;
}

}  // namespace lorica
