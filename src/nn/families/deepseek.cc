// DeepSeek-V2, DeepSeek-V3 and GLM-4.7-Flash: latent attention, leading dense blocks, then mixtures
// of experts with shared experts; DeepSeek-V3.2 and GLM-5: the same with sparse attention.
// DeepSeek-AI, "DeepSeek-V2", 2024; "DeepSeek-V3", 2024; "DeepSeek-V3.2", 2025.
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/families/expert_fields.h"
#include "lorica/nn/families/expert_gguf.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/families/index_fields.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {
    "attention_bias",
    "aux_loss_alpha",
    "ep_size",
    "first_k_dense_replace",
    "kv_lora_rank",
    "mlp_bias",
    "mlp_layer_types",
    "moe_intermediate_size",
    "moe_layer_freq",
    "n_group",
    "n_routed_experts",
    "n_shared_experts",
    "norm_topk_prob",
    "num_experts",
    "num_experts_per_tok",
    "num_local_experts",
    "num_mtp_layers",
    "num_nextn_predict_layers",
    "output_router_logits",
    "pretraining_tp",
    "q_lora_rank",
    "qk_head_dim",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "rope_interleave",
    "routed_scaling_factor",
    "scoring_func",
    "seq_aux",
    "topk_group",
    "topk_method",
    "v_head_dim",
};

constexpr absl::string_view kGgufKeys[] = {"nextn_predict_layers",
                                           "rope.scaling.yarn_log_multiplier"};
// GLM-4.7-Flash.
constexpr int64_t kLiteLayers = 47, kLiteVocabulary = 154880;

constexpr absl::string_view kIndexKeys[] = {
    "index_head_dim",  "index_n_heads",      "index_skip_topk_offset",  "index_topk",
    "index_topk_freq", "index_topk_pattern", "indexer_rope_interleave", "indexer_types",
    "layer_types",
};

// Those of both lists.
constexpr auto kSparseKeys = [] {
  std::array<absl::string_view, std::size(kKeys) + std::size(kIndexKeys)> keys{};
  size_t count = 0;
  for (const absl::string_view key : kKeys) keys[count++] = key;
  for (const absl::string_view key : kIndexKeys) keys[count++] = key;
  return keys;
}();

// A word that must be the one with which transformers computes, where it is there.
absl::Status Expect(const JsonObject& json, absl::string_view key, absl::string_view value) {
  LORICA_ASSIGN_OR_RETURN(const std::string found, json.StringOr(key, value));
  if (found == value) return absl::OkStatus();
  return json.Wrong(key, absl::StrCat("expected ", Quoted(value), ", found ", Quoted(found)));
}

absl::Status ReadCommon(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.o_bias, json.BoolOr("attention_bias", false));
  LORICA_ASSIGN_OR_RETURN(config.mlp_bias, json.BoolOr("mlp_bias", false));
  if (config.mlp_bias) return json.Wrong("mlp_bias", "expected false");
  LORICA_ASSIGN_OR_RETURN(config.rope.interleaved, json.BoolOr("rope_interleave", true));
  LORICA_RETURN_IF_ERROR(ReadExperts(json, "moe_intermediate_size", config));
  LORICA_ASSIGN_OR_RETURN(const std::vector<bool> sparse, ReadSparseBehindDense(json, config));
  SetSparse(sparse, config);
  return ReadSkippedLayers(json, config);
}

absl::Status ReadV2(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadCommon(json, config));
  LORICA_RETURN_IF_ERROR(ReadDeepseekRouter(json, config));
  RouterOptions& router = config.moe.router;
  LORICA_RETURN_IF_ERROR(Expect(json, "scoring_func", "softmax"));
  LORICA_ASSIGN_OR_RETURN(const std::string method, json.StringOr("topk_method", "greedy"));
  if (method == "greedy") {
    router.groups = router.top_groups = 1;
  } else if (method == "group_limited_greedy") {
    router.group_score = RouterOptions::GroupScore::kMax;
    router.closed_group = RouterOptions::ClosedGroup::kZero;
  } else {
    return json.Wrong("topk_method", absl::StrCat("expected \"greedy\" or \"group_limited_greedy\"",
                                                  ", found ", Quoted(method)));
  }
  // transformers keeps the field and never divides.
  LORICA_ASSIGN_OR_RETURN(const bool normalize, json.BoolOr("norm_topk_prob", false));
  if (normalize) {
    config.notes.push_back(
        absl::StrCat(json.where(), ": norm_topk_prob has no effect in this family"));
  }
  return absl::OkStatus();
}

absl::Status ReadV3(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadCommon(json, config));
  LORICA_RETURN_IF_ERROR(Expect(json, "scoring_func", "sigmoid"));
  LORICA_RETURN_IF_ERROR(Expect(json, "topk_method", "noaux_tc"));
  return ReadCorrectedRouter(json, config);
}

// The file has a tenth of mscale_all_dim, and takes mscale for the same number.
absl::Status ReadGgufYarn(const GgufFile& file, const std::string& prefix, RopeConfig& rope) {
  const std::string key = prefix + "rope.scaling.yarn_log_multiplier";
  LORICA_ASSIGN_OR_RETURN(const double tenth, file.GetF64Or(key, 0));
  if (!(tenth >= 0 && tenth <= 1e3)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.where(), ": ", key, ": expected a number from 0 to 1000, found ", tenth));
  }
  if (rope.kind != RopeConfig::Kind::kYarn || tenth == 0) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(const double factor,
                          file.GetF64Or(prefix + "rope.scaling.attn_factor", 1));
  if (factor != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.where(), ": ", prefix, "rope.scaling.attn_factor: ", factor,
                     " changes the maths and isn't supported beside ", key, " (expected 1)"));
  }
  rope.mscale_all_dim = tenth / 0.1;
  rope.attention_factor = 1;
  return absl::OkStatus();
}

// The three families have one architecture.
absl::Status ReadGguf(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  config.rope.interleaved = true;
  LORICA_RETURN_IF_ERROR(ReadGgufYarn(file, prefix, config.rope));
  const bool corrected = HasBlockTensor(file, "exp_probs_b.bias");
  const bool lite = config.layers == kLiteLayers && config.vocab_size == kLiteVocabulary;
  GgufExpertRules rules = {.groups = true, .shared = GgufExpertRules::Shared::kCount};
  LORICA_ASSIGN_OR_RETURN(rules.gating, ReadGgufGating(file, prefix,
                                                       corrected || lite ? GgufGating::kSigmoid
                                                                         : GgufGating::kSoftmax));
  const bool sigmoid = rules.gating == GgufGating::kSigmoid;
  if (!sigmoid && (corrected || rules.gating != GgufGating::kSoftmax)) {
    return absl::InvalidArgumentError(absl::StrCat(file.where(), ": ", prefix,
                                                   "expert_gating_func: expected 2",
                                                   corrected ? " beside exp_probs_b.bias" : " or 1",
                                                   ", found ", static_cast<int64_t>(rules.gating)));
  }
  const auto note = [&](const auto&... parts) {
    config.notes.push_back(absl::StrCat(file.where(), ": ", prefix, parts...));
  };
  LORICA_RETURN_IF_ERROR(ReadGgufExperts(file, prefix, rules, config));
  RouterOptions& router = config.moe.router;
  if (sigmoid) {
    config.family = std::string(lite ? Glm4MoeLiteFamily().name : DeepseekV3Family().name);
    SetCorrectedRouter(config);
    config.moe.correction_bias = corrected;
    if (!file.Has(prefix + "expert_group_count")) {
      note("expert_group_count is absent; experts are chosen among all, not by groups");
    }
    return absl::OkStatus();
  }
  if (router.groups > 1) {
    router.group_score = RouterOptions::GroupScore::kMax;
    router.closed_group = RouterOptions::ClosedGroup::kZero;
  }
  if (router.normalize) note("expert_weights_norm has no effect in deepseek_v2 models");
  router.normalize = false;
  return absl::OkStatus();
}

// A flag that transformers doesn't read in these families, but others do.
absl::Status ExpectFlag(const JsonObject& json, absl::string_view key, bool value) {
  LORICA_ASSIGN_OR_RETURN(const bool found, json.BoolOr(key, value));
  if (found == value) return absl::OkStatus();
  return json.Wrong(key, absl::StrCat("expected ", value ? "true" : "false", ", found ",
                                      found ? "true" : "false"));
}

absl::Status ReadSparse(const JsonObject& json, bool interleaved_index, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadV3(json, config));
  LORICA_RETURN_IF_ERROR(ExpectFlag(json, "rope_interleave", true));
  LORICA_RETURN_IF_ERROR(ExpectFlag(json, "indexer_rope_interleave", interleaved_index));
  config.indexer.interleaved = interleaved_index;
  return ReadIndex(json, config);
}

absl::Status ReadV32(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadSparse(json, /*interleaved_index=*/false, config));
  for (const absl::string_view key : {"indexer_types", "index_topk_freq", "index_topk_pattern"}) {
    if (json.Has(key)) return json.Wrong(key, "expected none, every layer has an indexer");
  }
  return absl::OkStatus();
}

absl::Status ReadGlmDsa(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadSparse(json, /*interleaved_index=*/true, config));
  return ReadSharedChoices(json, config);
}

void WriteCommon(const ModelConfig& config, OrderedJson& json) {
  const LatentSizes& latent = config.latent;
  json["attention_bias"] = config.o_bias;
  json["q_lora_rank"] =
      latent.q_lora_rank > 0 ? OrderedJson(latent.q_lora_rank) : OrderedJson(nullptr);
  json["kv_lora_rank"] = latent.kv_lora_rank;
  json["qk_nope_head_dim"] = latent.qk_nope_head_dim;
  json["qk_rope_head_dim"] = latent.qk_rope_head_dim;
  json["v_head_dim"] = latent.v_head_dim;
  json["head_dim"] = latent.qk_rope_head_dim;
  WriteExperts(config, "n_routed_experts", "moe_intermediate_size", json);
  WriteDeepseekRouter(config, json);
}

void WriteV2(const ModelConfig& config, OrderedJson& json) {
  WriteCommon(config, json);
  WriteFirstDense(config, json);
  json["topk_method"] = config.moe.router.groups > 1 ? "group_limited_greedy" : "greedy";
}

void WriteV3(const ModelConfig& config, OrderedJson& json) {
  WriteCommon(config, json);
  WriteFirstDense(config, json);
  json["rope_interleave"] = config.rope.interleaved;
  json["num_nextn_predict_layers"] = 0;  // they aren't written
}

void WriteLite(const ModelConfig& config, OrderedJson& json) {
  WriteCommon(config, json);
  WriteSparseTypes(config, json);
  json["rope_interleave"] = config.rope.interleaved;
}

void WriteV32(const ModelConfig& config, OrderedJson& json) {
  WriteCommon(config, json);
  WriteSparseTypes(config, json);
  WriteFirstDense(config, json);
  WriteIndex(config, json);
  json["num_nextn_predict_layers"] = 0;  // they aren't written
}

void WriteGlmDsa(const ModelConfig& config, OrderedJson& json) {
  WriteV32(config, json);
  WriteSharedChoices(config, json);
  json["indexer_rope_interleave"] = config.indexer.interleaved;
}

}  // namespace

const Family& DeepseekV2Family() {
  static constexpr Family kFamily = {.name = "deepseek_v2",
                                     .architecture = "DeepseekV2ForCausalLM",
                                     .gguf = "deepseek2",
                                     .latent = true,
                                     .keys = kKeys,
                                     .read_json = ReadV2,
                                     .write_json = WriteV2,
                                     .gguf_keys = kGgufKeys,
                                     .read_gguf = ReadGguf,
                                     .gguf_experts = true};
  return kFamily;
}

const Family& DeepseekV3Family() {
  static constexpr Family kFamily = {
      .name = "deepseek_v3",
      .architecture = "DeepseekV3ForCausalLM",
      .gguf = "deepseek2",
      .defaults = R"({"n_group": 8, "topk_group": 4, "first_k_dense_replace": 3,
                      "routed_scaling_factor": 2.5, "n_shared_experts": 1})",
      .latent = true,
      .keys = kKeys,
      .read_json = ReadV3,
      .write_json = WriteV3};
  return kFamily;
}

const Family& Glm4MoeLiteFamily() {
  static constexpr Family kFamily = {
      .name = "glm4_moe_lite",
      .architecture = "Glm4MoeLiteForCausalLM",
      .gguf = "deepseek2",
      .defaults = R"({"first_k_dense_replace": 1, "routed_scaling_factor": 1.8,
                      "n_shared_experts": 1})",
      .latent = true,
      .keys = kKeys,
      .read_json = ReadV3,
      .write_json = WriteLite};
  return kFamily;
}

const Family& DeepseekV32Family() {
  static constexpr Family kFamily = {
      .name = "deepseek_v32",
      .architecture = "DeepseekV32ForCausalLM",
      .defaults = R"({"n_group": 8, "topk_group": 4, "first_k_dense_replace": 3,
                      "routed_scaling_factor": 2.5, "n_shared_experts": 1,
                      "num_nextn_predict_layers": 1, "index_topk": 2048, "index_n_heads": 64,
                      "index_head_dim": 128})",
      .latent = true,
      .keys = kSparseKeys,
      .read_json = ReadV32,
      .write_json = WriteV32};
  return kFamily;
}

const Family& GlmMoeDsaFamily() {
  static constexpr Family kFamily = {
      .name = "glm_moe_dsa",
      .architecture = "GlmMoeDsaForCausalLM",
      .defaults = R"({"first_k_dense_replace": 3, "routed_scaling_factor": 2.5,
                      "n_shared_experts": 1, "num_nextn_predict_layers": 1, "index_topk": 2048,
                      "index_n_heads": 32, "index_head_dim": 128})",
      .latent = true,
      .keys = kSparseKeys,
      .read_json = ReadGlmDsa,
      .write_json = WriteGlmDsa};
  return kFamily;
}

}  // namespace lorica::internal
