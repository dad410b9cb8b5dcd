// nn::Moe: a mixture of experts as the feed-forward part of a block, under the paths of Hugging
// Face checkpoints: gate, experts.gate_up_proj, experts.down_proj, shared_experts.
//
// Letters: T tokens, C hidden size, E experts, K experts a token, I width of an expert.
#ifndef LORICA_NN_MOE_H_
#define LORICA_NN_MOE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/nn/grouped_linear.h"
#include "lorica/nn/mlp.h"
#include "lorica/nn/moe_config.h"
#include "lorica/nn/router.h"
#include "lorica/nn/sublayer.h"

namespace lorica::nn {

// "fast", "automodel".
absl::string_view Name(ExpertNumerics numerics);
absl::StatusOr<ExpertNumerics> ParseExpertNumerics(absl::string_view name);
// "before-down", "after-down".
absl::string_view Name(RouterWeightPlacement placement);
absl::StatusOr<RouterWeightPlacement> ParseRouterWeightPlacement(absl::string_view name);

// The stacked experts: gate_up_proj (up_proj without a gate) and down_proj.
class GroupedExperts : public Module {
 public:
  GroupedExperts(const MoeConfig& config, DType compute);

  // x [T, D], weights [T, K] -> [T, D].
  Tensor Forward(const Tensor& x, const Tensor& weights, std::shared_ptr<const DispatchPlan> plan,
                 const ForwardContext& context);
  void Visit(ModuleVisitor& visitor) override;

  GroupedLinear& gate_up() { return gate_up_; }
  GroupedLinear& down() { return down_; }

 private:
  MoeConfig config_;
  GroupedLinear gate_up_, down_;
};

// What a layer's router did since the last time it was asked.
struct MoeStatistics {
  std::vector<int64_t> load;  // [E] tokens
  double aux_loss = 0;        // sum over batches, before its coefficient
  int64_t batches = 0;
};

class Moe : public Sublayer {
 public:
  // Throws Error where the sizes make no sense.
  Moe(const MoeConfig& config, DType compute);

  // x [T, C] -> [T, C]. Within Recompute the routing of the first run is used again.
  Tensor Forward(const Tensor& x, const ForwardContext& context) override;

  const MoeConfig& config() const { return config_; }
  Router& router() { return router_; }
  GroupedExperts& experts() { return experts_; }
  // Counted once a forward pass, recomputed or not, and started anew by this call.
  MoeStatistics TakeStatistics();

  void Visit(ModuleVisitor& visitor) override;

 private:
  MoeConfig config_;
  Router router_;
  GroupedExperts experts_;
  std::optional<Linear> latent_in_, latent_out_;
  std::optional<Mlp> shared_;
  std::optional<Linear> shared_gate_;
  MoeStatistics statistics_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_MOE_H_
