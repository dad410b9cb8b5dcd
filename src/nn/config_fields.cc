#include "lorica/nn/config_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

// A hostile file could name any number of unknown fields.
constexpr size_t kMostNotes = 16;

// Fields without effect on a forward pass: identity, defaults of text generation, switches of
// transformers' own machinery, hints for training from scratch.
constexpr absl::string_view kHarmless[] = {
    "_attn_implementation_autoset",
    "_name_or_path",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_implementation",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

// Fields by which families differ from a plain Llama block, with the values (JSON texts) at which
// they don't. Null and an absent field are neutral always.
struct NeutralField {
  absl::string_view key;
  std::vector<absl::string_view> values;
};

const std::vector<NeutralField>& NeutralFields() {
  static const std::vector<NeutralField> fields = {
      // Structure of a block.
      {"add_cross_attention", {"false"}},
      {"alibi", {"false"}},
      {"attention_chunk_size", {"0"}},
      {"attention_out_bias", {"false"}},
      {"attn_temperature_tuning", {"false", "0"}},
      {"bias", {"false"}},
      {"bidirectional", {"false"}},
      {"cross_attention_hidden_size", {}},
      {"head_bias", {"false"}},
      {"is_causal", {"true"}},
      {"is_encoder_decoder", {"false"}},
      {"lm_head_bias", {"false"}},
      {"norm_bias", {"false"}},
      {"num_nextn_predict_layers", {"0"}},
      {"parallel_residual", {"false"}},
      {"pruned_heads", {"{}"}},
      {"qkv_bias", {"false"}},
      {"tie_encoder_decoder", {"false"}},
      {"use_alibi", {"false"}},
      {"use_bias", {"false"}},
      {"use_bidirectional_attention", {"false"}},
      {"use_parallel_residual", {"false"}},
      // Scales and caps.
      {"attention_multiplier", {}},
      {"attn_logit_softcapping", {"0"}},
      {"clip_qkv", {"0"}},
      {"dim_model_base", {}},
      {"embedding_multiplier", {"1"}},
      {"final_logit_softcapping", {"0"}},
      {"logit_scale", {"1"}},
      {"logits_scaling", {"1"}},
      {"mup_width_scale", {"1"}},
      {"query_pre_attn_scalar", {}},
      {"residual_multiplier", {"1"}},
      {"scale_depth", {}},
      {"scale_emb", {"1"}},
      // Norms of queries and keys.
      {"qk_layernorm", {"false"}},
      {"qk_norm", {"false"}},
      {"use_qk_norm", {"false"}},
      // Positions.
      {"mrope_section", {}},
      {"no_rope_layer_interval", {"0"}},
      {"partial_rotary_factor", {"1"}},
      {"rope_interleaved", {"false"}},
      {"rope_local_base_freq", {}},
      {"rotary_pct", {"1"}},
      {"use_mrope", {"false"}},
      {"use_rope", {"true"}},
      // Windows.
      {"sliding_window", {"0"}},
      {"sliding_window_pattern", {"0"}},
      {"use_sliding_window", {"false"}},
      // Experts and latent attention, sparse or not.
      {"index_topk", {}},
      {"kv_lora_rank", {}},
      {"moe_intermediate_size", {}},
      {"n_routed_experts", {"0"}},
      {"n_shared_experts", {"0"}},
      {"num_experts", {"0"}},
      {"num_experts_per_tok", {"0"}},
      {"num_local_experts", {"0"}},
      {"q_lora_rank", {}},
      {"shared_expert_intermediate_size", {"0"}},
      // Dropout: not applied here, so it must be off.
      {"embd_pdrop", {"0"}},
      {"hidden_dropout", {"0"}},
      {"hidden_dropout_prob", {"0"}},
      {"layerdrop", {"0"}},
      {"mlp_dropout", {"0"}},
      {"resid_pdrop", {"0"}},
      // Storage and slicing.
      {"compression_config", {}},
      {"pretraining_tp", {"0", "1"}},
  };
  return fields;
}

// The value as a short text for people.
std::string TextOf(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t kLongest = 80;
  if (text.size() > kLongest) text = absl::StrCat(text.substr(0, kLongest), "...");
  return text;
}

absl::Status CheckNeutral(const JsonObject& json, const NeutralField& field, const Json& value) {
  for (absl::string_view neutral : field.values) {
    // Numbers compare by value: 1 equals 1.0.
    if (value == Json::parse(neutral.begin(), neutral.end())) return absl::OkStatus();
  }
  std::string expected = "null";
  for (absl::string_view neutral : field.values) absl::StrAppend(&expected, " or ", neutral);
  return json.Wrong(field.key, absl::StrCat(TextOf(value), " changes the maths and isn't supported",
                                            " (expected ", expected, ")"));
}

// A list with a word per layer.
absl::Status CheckLayerTypes(const JsonObject& json) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> types, json.Strings("layer_types"));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention") {
      return json.Wrong("layer_types", absl::StrCat("layer ", i, " is ", Quoted(types[i]),
                                                    ", only \"full_attention\" is supported"));
    }
  }
  return absl::OkStatus();
}

// Despite the name 1 means that a layer rotates.
absl::Status CheckNoRopeLayers(const JsonObject& json) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<int64_t> rotates, json.Ints("no_rope_layers"));
  for (size_t i = 0; i < rotates.size(); ++i) {
    if (rotates[i] != 1) {
      return json.Wrong("no_rope_layers",
                        absl::StrCat("layer ", i, " has no rotary position embedding (", rotates[i],
                                     "), which isn't supported"));
    }
  }
  return absl::OkStatus();
}

bool Holds(absl::Span<const absl::string_view> keys, absl::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void AddNote(std::vector<std::string>& notes, std::string note) {
  if (notes.size() < kMostNotes) notes.push_back(std::move(note));
}

}  // namespace

absl::Status CheckJsonFields(const JsonObject& json,
                             absl::Span<const absl::Span<const absl::string_view>> read,
                             std::vector<std::string>& notes) {
  for (const auto& member : json.json().items()) {
    const std::string& key = member.key();
    const Json& value = member.value();
    const bool is_read =
        std::any_of(read.begin(), read.end(), [&](const auto& keys) { return Holds(keys, key); });
    if (is_read || value.is_null() || Holds(kHarmless, key)) continue;
    if (key == "layer_types") {
      LORICA_RETURN_IF_ERROR(CheckLayerTypes(json));
      continue;
    }
    if (key == "no_rope_layers") {
      LORICA_RETURN_IF_ERROR(CheckNoRopeLayers(json));
      continue;
    }
    const auto& fields = NeutralFields();
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const NeutralField& f) { return f.key == key; });
    if (field == fields.end()) {
      AddNote(notes, absl::StrCat(json.where(), ": unknown field ", Quoted(key), " (",
                                  TextOf(value), ") has no effect"));
    } else {
      LORICA_RETURN_IF_ERROR(CheckNeutral(json, *field, value));
    }
  }
  return absl::OkStatus();
}

namespace {

// Keys of GGUF metadata behind "<architecture>.", read or harmless.
constexpr absl::string_view kGgufKnown[] = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.scaling.finetuned",
    "vocab_size",
};

// Others with the number at which they don't change the maths (true counts as 1).
struct NeutralGgufField {
  absl::string_view key;
  double value;
};
constexpr NeutralGgufField kGgufNeutral[] = {
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.key_length_mla", 0},
    {"attention.indexer.head_count", 0},
    {"attention.kv_lora_rank", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.output_scale", 0},
    {"attention.q_lora_rank", 0},
    {"attention.scale", 0},
    {"attention.sliding_window", 0},
    {"attention.temperature_scale", 0},
    {"attention.value_length_mla", 0},
    {"attn_logit_softcapping", 0},
    {"embedding_scale", 1},
    {"expert_count", 0},
    {"expert_group_scale", 0},
    {"expert_shared_count", 0},
    {"expert_used_count", 0},
    {"experts_per_group", 0},
    {"final_logit_softcapping", 0},
    {"interleave_moe_layer_step", 0},
    {"logit_scale", 1},
    {"moe_every_n_layers", 0},
    {"moe_latent_size", 0},
    {"nextn_predict_layers", 0},
    {"residual_scale", 1},
    {"rope.freq_base_swa", 0},
    {"rope.scaling.yarn_attn_factor", 1},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.yarn_log_multiplier", 0},
    {"router_logit_softcapping", 0},
    {"swiglu_clamp_exp", 0},
    {"swiglu_clamp_shexp", 0},
    {"use_parallel_residual", 0},
};

}  // namespace

absl::Status CheckGgufFields(const GgufFile& file, absl::string_view architecture,
                             absl::Span<const absl::Span<const absl::string_view>> read,
                             std::vector<std::string>& notes) {
  const std::string prefix = absl::StrCat(architecture, ".");
  const auto wrong = [&](const std::string& key, absl::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat(file.where(), ": ", key, ": ",
                                                   file.Describe(key), " changes the maths and ",
                                                   "isn't supported (expected ", expected, ")"));
  };
  for (const std::string& key : file.keys()) {
    if (!absl::StartsWith(key, prefix)) continue;
    const absl::string_view rest = absl::string_view(key).substr(prefix.size());
    if (Holds(kGgufKnown, rest) || std::any_of(read.begin(), read.end(), [&](const auto& keys) {
          return Holds(keys, rest);
        })) {
      continue;
    }
    const auto* field = std::find_if(std::begin(kGgufNeutral), std::end(kGgufNeutral),
                                     [&](const NeutralGgufField& f) { return f.key == rest; });
    if (field == std::end(kGgufNeutral)) {
      AddNote(notes, absl::StrCat(file.where(), ": unknown key ", Quoted(key), " (",
                                  file.Describe(key), ") has no effect"));
      continue;
    }
    const absl::StatusOr<bool> flag = file.GetBool(key);
    const absl::StatusOr<double> number =
        flag.ok() ? absl::StatusOr<double>(*flag ? 1 : 0) : file.GetF64(key);
    if (!number.ok()) return number.status();
    if (*number != field->value) return wrong(key, absl::StrCat(field->value));
  }
  return absl::OkStatus();
}

}  // namespace lorica::internal
