#include "lorica/nn/families/expert_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kDense = "dense", kSparse = "sparse";

absl::StatusOr<int64_t> Bounded(const JsonObject& json, absl::string_view key, int64_t most) {
  LORICA_ASSIGN_OR_RETURN(const int64_t value, json.Int(key));
  if (value < 1 || value > most) {
    return json.Wrong(key, absl::StrCat("expected a number from 1 to ", most, ", found ", value));
  }
  return value;
}

}  // namespace

absl::Status ReadExperts(const JsonObject& json, absl::string_view width, ModelConfig& config) {
  nn::MoeConfig& moe = config.moe;
  moe.hidden = config.hidden_size;
  for (absl::string_view key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (!json.Has(key)) continue;
    LORICA_ASSIGN_OR_RETURN(const int64_t count, Bounded(json, key, kMostExperts));
    if (moe.experts != 0 && count != moe.experts) {
      return json.Wrong(key, absl::StrCat("expected one number of experts, found ", count,
                                          " here and ", moe.experts, " in another field"));
    }
    moe.experts = count;
  }
  if (moe.experts == 0) return json.WrongType("num_experts", "an integer");
  LORICA_ASSIGN_OR_RETURN(
      moe.expert_width,
      Bounded(json, width, std::min(kMostExpertWidth, kMostWidthOfAllExperts / moe.experts)));
  LORICA_ASSIGN_OR_RETURN(moe.router.top_k, Bounded(json, "num_experts_per_tok", moe.experts));
  return absl::OkStatus();
}

void WriteExperts(const ModelConfig& config, absl::string_view count, absl::string_view width,
                  OrderedJson& json) {
  json[std::string(count)] = config.moe.experts;
  json[std::string(width)] = config.moe.expert_width;
  json["num_experts_per_tok"] = config.moe.router.top_k;
}

absl::Status ReadDeepseekRouter(const JsonObject& json, ModelConfig& config) {
  nn::MoeConfig& moe = config.moe;
  LORICA_ASSIGN_OR_RETURN(const int64_t groups, json.IntOr("n_group", 1));
  LORICA_ASSIGN_OR_RETURN(const int64_t open, json.IntOr("topk_group", 1));
  moe.router.groups = std::max<int64_t>(groups, 1);  // 0 says "no groups" too
  moe.router.top_groups = std::max<int64_t>(open, 1);
  if (moe.experts % moe.router.groups != 0) {
    return json.Wrong(
        "n_group", absl::StrCat("expected a divisor of ", moe.experts, " experts, found ", groups));
  }
  const int64_t size = moe.experts / moe.router.groups;
  if (moe.router.top_groups > moe.router.groups ||
      moe.router.top_groups * size < moe.router.top_k) {
    return json.Wrong("topk_group",
                      absl::StrCat("expected some of ", groups, " groups that hold ",
                                   moe.router.top_k, " experts together, found ", open));
  }
  LORICA_ASSIGN_OR_RETURN(moe.router.scale, json.DoubleOr("routed_scaling_factor", 1));
  LORICA_ASSIGN_OR_RETURN(const int64_t shared, json.IntOr("n_shared_experts", 0));
  if (shared < 0 || shared > kMostExpertWidth / moe.expert_width) {
    return json.Wrong("n_shared_experts",
                      absl::StrCat("expected a number from 0 to ",
                                   kMostExpertWidth / moe.expert_width, ", found ", shared));
  }
  moe.shared_width = shared * moe.expert_width;
  return absl::OkStatus();
}

void SetCorrectedRouter(ModelConfig& config) {
  RouterOptions& router = config.moe.router;
  router.score = ScoreFunction::kSigmoid;
  router.group_score = RouterOptions::GroupScore::kTopTwoSum;
  router.closed_group = RouterOptions::ClosedGroup::kMinusInfinity;
  config.moe.correction_bias = true;
}

absl::Status ReadCorrectedRouter(const JsonObject& json, ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(ReadDeepseekRouter(json, config));
  SetCorrectedRouter(config);
  RouterOptions& router = config.moe.router;
  LORICA_ASSIGN_OR_RETURN(router.normalize, json.BoolOr("norm_topk_prob", true));
  if (router.groups > 1 && config.moe.experts / router.groups < 2) {
    return json.Wrong("n_group", absl::StrCat("expected two experts or more in each of ",
                                              router.groups, " groups"));
  }
  return absl::OkStatus();
}

absl::Status ReadGatedSharedExpert(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(config.moe.shared_width,
                          Bounded(json, "shared_expert_intermediate_size", kMostExpertWidth));
  config.moe.shared_gate = true;
  config.moe.shared_name = "shared_expert";
  return absl::OkStatus();
}

absl::Status ReadSkippedLayers(const JsonObject& json, ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const int64_t mtp, json.IntOr("num_mtp_layers", 0));
  LORICA_ASSIGN_OR_RETURN(config.skipped_layers, json.IntOr("num_nextn_predict_layers", mtp));
  return absl::OkStatus();
}

void WriteDeepseekRouter(const ModelConfig& config, OrderedJson& json) {
  const nn::MoeConfig& moe = config.moe;
  json["n_group"] = moe.router.groups;
  json["topk_group"] = moe.router.top_groups;
  json["norm_topk_prob"] = moe.router.normalize;
  json["routed_scaling_factor"] = moe.router.scale;
  json["n_shared_experts"] = moe.shared_width / moe.expert_width;
}

absl::StatusOr<std::vector<bool>> ReadSparseBehindDense(const JsonObject& json,
                                                        const ModelConfig& config) {
  std::vector<bool> sparse;
  if (json.Has("mlp_layer_types")) {
    LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> types, json.Strings("mlp_layer_types"));
    if (static_cast<int64_t>(types.size()) != config.layers) {
      return json.Wrong("mlp_layer_types",
                        absl::StrCat("expected a word for each of ", config.layers,
                                     " layers, found ", types.size()));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] != kDense && types[i] != kSparse) {
        return json.Wrong("mlp_layer_types",
                          absl::StrCat("layer ", i, " is ", Quoted(types[i]),
                                       ", only \"dense\" and \"sparse\" are supported"));
      }
      sparse.push_back(types[i] == kSparse);
    }
    return sparse;
  }
  LORICA_ASSIGN_OR_RETURN(const int64_t first, json.IntOr("first_k_dense_replace", 0));
  LORICA_ASSIGN_OR_RETURN(const int64_t every, json.IntOr("moe_layer_freq", 1));
  if (every != 1) {
    return json.Wrong("moe_layer_freq", absl::StrCat("expected 1, found ", every));
  }
  for (int64_t i = 0; i < config.layers; ++i) sparse.push_back(i >= first);
  return sparse;
}

absl::StatusOr<std::vector<bool>> ReadSparseBySteps(const JsonObject& json,
                                                    const ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const int64_t step, json.IntOr("decoder_sparse_step", 1));
  if (step < 1) {
    return json.Wrong("decoder_sparse_step",
                      absl::StrCat("expected a positive number, found ", step));
  }
  std::vector<int64_t> dense;
  if (json.Has("mlp_only_layers")) {
    LORICA_ASSIGN_OR_RETURN(dense, json.Ints("mlp_only_layers"));
  }
  std::vector<bool> sparse;
  for (int64_t i = 0; i < config.layers; ++i) {
    const bool named = std::find(dense.begin(), dense.end(), i) != dense.end();
    sparse.push_back(!named && (i + 1) % step == 0);
  }
  return sparse;
}

void SetSparse(const std::vector<bool>& sparse, ModelConfig& config) {
  std::vector<LayerConfig> layers = LayersOf(config);
  for (size_t i = 0; i < layers.size(); ++i) layers[i].experts = sparse[i];
  SetLayers(std::move(layers), config);
}

std::vector<bool> SparseLayers(const ModelConfig& config) {
  std::vector<bool> sparse;
  for (int i = 0; i < static_cast<int>(config.layers); ++i) {
    sparse.push_back(config.Layer(i).experts);
  }
  return sparse;
}

void WriteSparseTypes(const ModelConfig& config, OrderedJson& json) {
  OrderedJson types = OrderedJson::array();
  for (const bool sparse : SparseLayers(config)) {
    types.push_back(std::string(sparse ? kSparse : kDense));
  }
  json["mlp_layer_types"] = std::move(types);
}

void WriteFirstDense(const ModelConfig& config, OrderedJson& json) {
  const std::vector<bool> sparse = SparseLayers(config);
  json["first_k_dense_replace"] = std::find(sparse.begin(), sparse.end(), true) - sparse.begin();
}

void WriteDenseLayers(const ModelConfig& config, OrderedJson& json) {
  json["decoder_sparse_step"] = 1;
  OrderedJson dense = OrderedJson::array();
  const std::vector<bool> sparse = SparseLayers(config);
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (!sparse[i]) dense.push_back(i);
  }
  json["mlp_only_layers"] = std::move(dense);
}

}  // namespace lorica::internal
