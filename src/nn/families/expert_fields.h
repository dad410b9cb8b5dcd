// Fields of config.json about mixtures of experts. Internal to src/nn.
#ifndef LORICA_NN_FAMILIES_EXPERT_FIELDS_H_
#define LORICA_NN_FAMILIES_EXPERT_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// Several times the largest mixture of today.
constexpr int64_t kMostExperts = 1 << 16;
constexpr int64_t kMostExpertWidth = int64_t{1} << 20;
// Of all experts together; counts of parameters stay far from overflowing.
constexpr int64_t kMostWidthOfAllExperts = int64_t{1} << 26;

// Number of experts (num_experts, num_local_experts or n_routed_experts: one of them, or several
// that agree), their width from the field `width`, experts a token. Values are bounded.
absl::Status ReadExperts(const JsonObject& json, absl::string_view width, ModelConfig& config);
// The same fields, the number under `count`.
void WriteExperts(const ModelConfig& config, absl::string_view count, absl::string_view width,
                  OrderedJson& json);

// n_group, topk_group, norm_topk_prob, routed_scaling_factor, n_shared_experts.
absl::Status ReadDeepseekRouter(const JsonObject& json, ModelConfig& config);
// The same for the router of DeepSeek-V3: sigmoid scores, groups by their best two, a correction
// bias.
absl::Status ReadCorrectedRouter(const JsonObject& json, ModelConfig& config);
// What of it no field says.
void SetCorrectedRouter(ModelConfig& config);
void WriteDeepseekRouter(const ModelConfig& config, OrderedJson& json);

// shared_expert_intermediate_size: a shared expert behind a sigmoid gate, as Qwen has it.
absl::Status ReadGatedSharedExpert(const JsonObject& json, ModelConfig& config);

// num_nextn_predict_layers or num_mtp_layers, which files have behind the last layer.
absl::Status ReadSkippedLayers(const JsonObject& json, ModelConfig& config);

// Which layers have experts: `mlp_layer_types` where it is there, else all from
// first_k_dense_replace on.
absl::StatusOr<std::vector<bool>> ReadSparseBehindDense(const JsonObject& json,
                                                        const ModelConfig& config);
// Each decoder_sparse_step-th layer that mlp_only_layers doesn't name.
absl::StatusOr<std::vector<bool>> ReadSparseBySteps(const JsonObject& json,
                                                    const ModelConfig& config);
// Gives those layers experts.
void SetSparse(const std::vector<bool>& sparse, ModelConfig& config);
// One flag per layer, and as `mlp_layer_types`.
std::vector<bool> SparseLayers(const ModelConfig& config);
void WriteSparseTypes(const ModelConfig& config, OrderedJson& json);
// first_k_dense_replace, mlp_only_layers.
void WriteFirstDense(const ModelConfig& config, OrderedJson& json);
void WriteDenseLayers(const ModelConfig& config, OrderedJson& json);

}  // namespace lorica::internal

#endif  // LORICA_NN_FAMILIES_EXPERT_FIELDS_H_
