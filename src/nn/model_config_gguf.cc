// Metadata of GGUF files.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/config_fields.h"
#include "lorica/nn/families/expert_gguf.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/model_config.h"
#include "lorica/nn/rope_gguf.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

absl::Status Bad(const GgufFile& file, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(file.where(), ": ", message));
}

// A count, as an int64 that CheckModelConfig can bound.
absl::StatusOr<int64_t> Count(const GgufFile& file, const std::string& key) {
  return file.GetI64(key);
}

absl::StatusOr<int64_t> CountOr(const GgufFile& file, const std::string& key, int64_t fallback) {
  return file.Has(key) ? file.GetI64(key) : absl::StatusOr<int64_t>(fallback);
}

absl::Status ReadHeads(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.heads, Count(file, prefix + "attention.head_count"));
  LORICA_ASSIGN_OR_RETURN(config.kv_heads,
                          CountOr(file, prefix + "attention.head_count_kv", config.heads));
  if (config.heads < 1) {
    return Bad(file, absl::StrCat(prefix, "attention.head_count: expected a positive number, ",
                                  "found ", config.heads));
  }
  const bool explicit_length = file.Has(prefix + "attention.key_length");
  if (!explicit_length && config.hidden_size % config.heads != 0) {
    return Bad(file,
               absl::StrCat(prefix, "attention.head_count: expected a divisor of ",
                            "embedding_length ", config.hidden_size, ", found ", config.heads));
  }
  LORICA_ASSIGN_OR_RETURN(config.head_dim, CountOr(file, prefix + "attention.key_length",
                                                   config.hidden_size / config.heads));
  LORICA_ASSIGN_OR_RETURN(const int64_t value_length,
                          CountOr(file, prefix + "attention.value_length", config.head_dim));
  if (value_length != config.head_dim) {
    return Bad(file, absl::StrCat(prefix, "attention.value_length: expected key_length ",
                                  config.head_dim, ", found ", value_length));
  }
  return absl::OkStatus();
}

constexpr absl::string_view kLatentKeys[] = {"attention.key_length_mla", "attention.kv_lora_rank",
                                             "attention.q_lora_rank", "attention.value_length_mla"};

// Sizes of latent attention. Files for absorbed decoding, which are those with keys that end in
// _mla, have the sizes of the compressed cache under the plain ones.
absl::Status ReadLatent(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  const std::string ending = file.Has(prefix + "attention.key_length_mla") ? "_mla" : "";
  const std::string key_length = absl::StrCat(prefix, "attention.key_length", ending);
  LatentSizes& latent = config.latent;
  LORICA_ASSIGN_OR_RETURN(config.heads, Count(file, prefix + "attention.head_count"));
  LORICA_ASSIGN_OR_RETURN(latent.q_lora_rank, CountOr(file, prefix + "attention.q_lora_rank", 0));
  LORICA_ASSIGN_OR_RETURN(latent.kv_lora_rank, Count(file, prefix + "attention.kv_lora_rank"));
  LORICA_ASSIGN_OR_RETURN(latent.qk_rope_head_dim, Count(file, prefix + "rope.dimension_count"));
  LORICA_ASSIGN_OR_RETURN(config.head_dim, Count(file, key_length));
  LORICA_ASSIGN_OR_RETURN(latent.v_head_dim,
                          Count(file, absl::StrCat(prefix, "attention.value_length", ending)));
  if (latent.qk_rope_head_dim < 1 || config.head_dim <= latent.qk_rope_head_dim) {
    return Bad(file, absl::StrCat(key_length, ": expected more than the ", latent.qk_rope_head_dim,
                                  " of rope.dimension_count, found ", config.head_dim));
  }
  latent.qk_nope_head_dim = config.head_dim - latent.qk_rope_head_dim;
  config.kv_heads = config.heads;
  return internal::CheckLatentSizes(latent, config.heads, file.where());
}

// Behind the last layer files may have layers that predict later tokens; they count as blocks.
absl::Status ReadLayers(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  const std::string skipped = prefix + "nextn_predict_layers";
  LORICA_ASSIGN_OR_RETURN(config.layers, Count(file, prefix + "block_count"));
  LORICA_ASSIGN_OR_RETURN(config.skipped_layers, CountOr(file, skipped, 0));
  if (config.skipped_layers < 0 || config.skipped_layers > std::max<int64_t>(config.layers, 0)) {
    return Bad(file, absl::StrCat(skipped, ": expected some of ", config.layers, " blocks, found ",
                                  config.skipped_layers));
  }
  config.layers -= config.skipped_layers;
  return absl::OkStatus();
}

// Where it is absent all layers have experts.
absl::StatusOr<int64_t> ReadIntermediateSize(const GgufFile& file, const std::string& prefix) {
  const std::string key = prefix + "feed_forward_length";
  const std::string of_experts = prefix + "expert_feed_forward_length";
  return Count(file, file.Has(key) || !file.Has(of_experts) ? key : of_experts);
}

absl::Status ReadVocabulary(const GgufFile& file, ModelConfig& config) {
  const GgufTensor* table = file.Find("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2) {
    return Bad(file, absl::StrCat("expected a tensor \"token_embd.weight\" of 2 dimensions, found ",
                                  table == nullptr ? "none" : ShapeText(table->shape)));
  }
  config.vocab_size = table->shape[0];
  // The end of a turn, where a file names it apart from the end of a text, ends a reply too.
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (!file.Has(key)) continue;
    LORICA_ASSIGN_OR_RETURN(const int64_t id, file.GetI64(key));
    if (config.eos_token_ids.empty() || config.eos_token_ids[0] != id) {
      config.eos_token_ids.push_back(id);
    }
  }
  LORICA_ASSIGN_OR_RETURN(config.bos_token_id, CountOr(file, "tokenizer.ggml.bos_token_id", -1));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file) {
  LORICA_ASSIGN_OR_RETURN(const std::string architecture, file.GetString("general.architecture"));
  const internal::Family* family = internal::FindGgufFamily(architecture);
  if (family == nullptr) {
    return Bad(file, absl::StrCat("general.architecture: ", Quoted(architecture),
                                  " is not supported, only ", internal::GgufFamilyNames(), " are"));
  }
  const std::string prefix = architecture + ".";
  ModelConfig config;
  config.family = std::string(family->name);
  LORICA_ASSIGN_OR_RETURN(config.hidden_size, Count(file, prefix + "embedding_length"));
  LORICA_ASSIGN_OR_RETURN(config.intermediate_size, ReadIntermediateSize(file, prefix));
  LORICA_RETURN_IF_ERROR(ReadLayers(file, prefix, config));
  LORICA_ASSIGN_OR_RETURN(config.max_positions, CountOr(file, prefix + "context_length", 0));
  LORICA_ASSIGN_OR_RETURN(config.rms_norm_eps,
                          file.GetF64(prefix + "attention.layer_norm_rms_epsilon"));
  LORICA_RETURN_IF_ERROR(family->latent ? ReadLatent(file, prefix, config)
                                        : ReadHeads(file, prefix, config));
  LORICA_RETURN_IF_ERROR(ReadVocabulary(file, config));
  std::vector<absl::Span<const absl::string_view>> read = {internal::GgufRopeKeys(),
                                                           family->gguf_keys};
  if (family->latent) read.push_back(kLatentKeys);
  if (family->gguf_experts) read.push_back(internal::GgufExpertKeys());
  LORICA_RETURN_IF_ERROR(internal::CheckGgufFields(file, architecture, read, config.notes));
  LORICA_RETURN_IF_ERROR(internal::CheckSizes(config, file.where()));
  if (family->shape != nullptr) family->shape(config);
  LORICA_RETURN_IF_ERROR(internal::ReadGgufRope(file, prefix, config));
  if (family->gguf_interleaves_rotation && config.rope.channels != config.head_dim) {
    return Bad(file, absl::StrCat(prefix, "rope.dimension_count: expected the key_length ",
                                  config.head_dim, ", found ", config.rope.channels));
  }
  if (family->read_gguf != nullptr) {
    LORICA_RETURN_IF_ERROR(family->read_gguf(file, prefix, config));
  }
  config.tied = file.Find("output.weight") == nullptr;
  const auto has = [&](absl::string_view name) { return file.Find(name) != nullptr; };
  config.qkv_bias |= has(config.fused_projections ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias");
  config.o_bias |= has("blk.0.attn_output.bias");
  config.mlp_bias = file.Find("blk.0.ffn_gate.bias") != nullptr;
  LORICA_RETURN_IF_ERROR(CheckModelConfig(config, file.where()));
  return config;
}

}  // namespace lorica
