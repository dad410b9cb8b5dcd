#include "lorica/nn/families/expert_gguf.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/nn/families/expert_fields.h"
#include "lorica/nn/families/gguf_fields.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kKeys[] = {"expert_count",
                                       "expert_feed_forward_length",
                                       "expert_gating_func",
                                       "expert_group_count",
                                       "expert_group_used_count",
                                       "expert_shared_count",
                                       "expert_shared_feed_forward_length",
                                       "expert_used_count",
                                       "expert_weights_norm",
                                       "expert_weights_scale",
                                       "leading_dense_block_count"};

// The length of a row of the first such tensor; 0 without one. Early files have no key for a width.
int64_t RowLength(const GgufFile& file, absl::string_view name) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (absl::EndsWith(tensor.name, name) && !tensor.shape.empty()) return tensor.shape.back();
  }
  return 0;
}

absl::StatusOr<int64_t> Width(const GgufFile& file, const std::string& key,
                              absl::string_view tensor, int64_t most) {
  if (file.Has(key)) return Bounded(file, key, 1, most);
  const int64_t width = RowLength(file, tensor);
  if (width >= 1 && width <= most) return width;
  return Wrong(file, key, "expected a number from 1 to ", most, ", found nothing");
}

absl::Status ReadGroups(const GgufFile& file, const std::string& prefix,
                        const GgufExpertRules& rules, nn::MoeConfig& moe) {
  const std::string count_key = prefix + "expert_group_count";
  const std::string used_key = prefix + "expert_group_used_count";
  LORICA_ASSIGN_OR_RETURN(const int64_t groups, BoundedOrZero(file, count_key, moe.experts));
  if (groups <= 1) return absl::OkStatus();
  if (!rules.groups) {
    return Wrong(file, count_key, "expected no groups of experts here, found ", groups);
  }
  if (moe.experts % groups != 0) {
    return Wrong(file, count_key, "expected a divisor of ", moe.experts, " experts, found ",
                 groups);
  }
  const int64_t size = moe.experts / groups;
  if (rules.gating == GgufGating::kSigmoid && size < 2) {
    return Wrong(file, count_key, "expected two experts or more in each of ", groups, " groups");
  }
  LORICA_ASSIGN_OR_RETURN(const int64_t used, Bounded(file, used_key, 1, groups));
  if (used * size < moe.router.top_k) {
    return Wrong(file, used_key, "expected groups that hold ", moe.router.top_k,
                 " experts together, found ", used, " of ", size);
  }
  moe.router.groups = groups;
  moe.router.top_groups = used;
  return absl::OkStatus();
}

absl::Status ReadShared(const GgufFile& file, const std::string& prefix,
                        const GgufExpertRules& rules, nn::MoeConfig& moe) {
  using Shared = GgufExpertRules::Shared;
  const std::string count_key = prefix + "expert_shared_count";
  const std::string width_key = prefix + "expert_shared_feed_forward_length";
  if (rules.shared == Shared::kGated) {
    LORICA_ASSIGN_OR_RETURN(moe.shared_width,
                            Width(file, width_key, ".ffn_down_shexp.weight", kMostExpertWidth));
    moe.shared_gate = true;
    moe.shared_name = "shared_expert";
    return absl::OkStatus();
  }
  LORICA_ASSIGN_OR_RETURN(const int64_t count,
                          BoundedOrZero(file, count_key, kMostExpertWidth / moe.expert_width));
  LORICA_ASSIGN_OR_RETURN(const int64_t width, BoundedOrZero(file, width_key, kMostExpertWidth));
  if (rules.shared == Shared::kNone && (count > 0 || width > 0)) {
    return Wrong(file, count > 0 ? count_key : width_key, "expected no shared experts here, found ",
                 std::max(count, width));
  }
  moe.shared_width = count * moe.expert_width;
  if (width > 0 && width != moe.shared_width) {
    return Wrong(file, width_key, "expected ", moe.shared_width, " by ", count_key, ", found ",
                 width);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<bool>> ReadSparse(const GgufFile& file, const std::string& prefix,
                                             const ModelConfig& config) {
  const std::string key = prefix + "leading_dense_block_count";
  std::vector<bool> sparse;
  if (file.Has(key)) {
    LORICA_ASSIGN_OR_RETURN(const int64_t dense, Bounded(file, key, 0, config.layers - 1));
    for (int64_t i = 0; i < config.layers; ++i) sparse.push_back(i >= dense);
    return sparse;
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    sparse.push_back(file.Find(absl::StrCat("blk.", i, ".ffn_gate_inp.weight")) != nullptr);
  }
  if (std::find(sparse.begin(), sparse.end(), true) != sparse.end()) return sparse;
  return Wrong(file, prefix + "expert_count", "expected a tensor \"blk.N.ffn_gate_inp.weight\" ",
               "in one of ", config.layers, " blocks at least, found none");
}

}  // namespace

absl::Span<const absl::string_view> GgufExpertKeys() { return kKeys; }

absl::StatusOr<GgufGating> ReadGgufGating(const GgufFile& file, const std::string& prefix,
                                          GgufGating fallback) {
  const std::string key = prefix + "expert_gating_func";
  LORICA_ASSIGN_OR_RETURN(const int64_t value, BoundedOrZero(file, key, 3));
  return value == 0 ? fallback : static_cast<GgufGating>(value);
}

bool HasBlockTensor(const GgufFile& file, absl::string_view name) {
  const std::string ending = absl::StrCat(".", name);
  return std::any_of(file.tensors().begin(), file.tensors().end(), [&](const GgufTensor& tensor) {
    return absl::StartsWith(tensor.name, "blk.") && absl::EndsWith(tensor.name, ending);
  });
}

absl::Status ReadGgufExperts(const GgufFile& file, const std::string& prefix,
                             const GgufExpertRules& rules, ModelConfig& config) {
  nn::MoeConfig& moe = config.moe;
  moe.hidden = config.hidden_size;
  LORICA_ASSIGN_OR_RETURN(moe.experts, Bounded(file, prefix + "expert_count", 1, kMostExperts));
  LORICA_ASSIGN_OR_RETURN(moe.router.top_k,
                          Bounded(file, prefix + "expert_used_count", 1, moe.experts));
  LORICA_ASSIGN_OR_RETURN(
      moe.expert_width, Width(file, prefix + "expert_feed_forward_length", ".ffn_down_exps.weight",
                              std::min(kMostExpertWidth, kMostWidthOfAllExperts / moe.experts)));
  LORICA_ASSIGN_OR_RETURN(const GgufGating gating, ReadGgufGating(file, prefix, rules.gating));
  if (gating != rules.gating) {
    return Wrong(file, prefix + "expert_gating_func", "expected ",
                 static_cast<int64_t>(rules.gating), " here, found ", static_cast<int64_t>(gating));
  }
  RouterOptions& router = moe.router;
  if (gating == GgufGating::kSigmoid) router.score = ScoreFunction::kSigmoid;
  router.softmax_after_topk = gating == GgufGating::kSoftmaxOfChosen;
  LORICA_ASSIGN_OR_RETURN(router.normalize,
                          file.GetBoolOr(prefix + "expert_weights_norm", rules.normalize));
  LORICA_ASSIGN_OR_RETURN(const double scale, file.GetF64Or(prefix + "expert_weights_scale", 1));
  router.scale = scale == 0 ? 1 : scale;  // 0 says nothing
  LORICA_RETURN_IF_ERROR(ReadGroups(file, prefix, rules, moe));
  LORICA_RETURN_IF_ERROR(ReadShared(file, prefix, rules, moe));
  LORICA_ASSIGN_OR_RETURN(const std::vector<bool> sparse, ReadSparse(file, prefix, config));
  SetSparse(sparse, config);
  return absl::OkStatus();
}

}  // namespace lorica::internal
