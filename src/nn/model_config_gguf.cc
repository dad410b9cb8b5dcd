// Metadata of GGUF files.
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/config_fields.h"
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
  LORICA_ASSIGN_OR_RETURN(config.intermediate_size, Count(file, prefix + "feed_forward_length"));
  LORICA_ASSIGN_OR_RETURN(config.layers, Count(file, prefix + "block_count"));
  LORICA_ASSIGN_OR_RETURN(config.max_positions, CountOr(file, prefix + "context_length", 0));
  LORICA_ASSIGN_OR_RETURN(config.rms_norm_eps,
                          file.GetF64(prefix + "attention.layer_norm_rms_epsilon"));
  LORICA_RETURN_IF_ERROR(ReadHeads(file, prefix, config));
  LORICA_RETURN_IF_ERROR(ReadVocabulary(file, config));
  LORICA_RETURN_IF_ERROR(internal::CheckGgufFields(
      file, architecture, {internal::GgufRopeKeys(), family->gguf_keys}, config.notes));
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
  config.qkv_bias =
      file.Find(config.fused_projections ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias") != nullptr;
  config.o_bias = file.Find("blk.0.attn_output.bias") != nullptr;
  config.mlp_bias = file.Find("blk.0.ffn_gate.bias") != nullptr;
  LORICA_RETURN_IF_ERROR(CheckModelConfig(config, file.where()));
  return config;
}

}  // namespace lorica
