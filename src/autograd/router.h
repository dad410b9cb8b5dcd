// Routers: which experts a token goes to, and with what weight.
//
// Letters: T tokens, E experts, K experts a token.
#ifndef LORICA_AUTOGRAD_ROUTER_H_
#define LORICA_AUTOGRAD_ROUTER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

enum class ScoreFunction {
  kSoftmax,
  kSigmoid,
  kSqrtSoftplus,  // sqrt(log(1 + exp(logit)))
};

// Scores s = f(logits). The K experts with the greatest selection score are chosen, s plus the
// correction bias where there is one; where scores are equal the lowest index comes first. Their
// weights are s (without that bias), divided by their sum if `normalize` and K > 1, times `scale`.
// N. Shazeer et al., "Outrageously large neural networks", 2017; A. Liu et al., "DeepSeek-V3",
// 2024.
struct RouterOptions {
  int64_t top_k = 1;
  ScoreFunction score = ScoreFunction::kSoftmax;
  // Choose by the logits themselves; the scores are the softmax over the K chosen.
  bool softmax_after_topk = false;
  // With more than one group of neighbouring experts only the `top_groups` best groups are open.
  int64_t groups = 1, top_groups = 1;
  enum class GroupScore { kMax, kTopTwoSum } group_score = GroupScore::kTopTwoSum;
  // What the selection score of experts of other groups becomes. With zero an expert of a closed
  // group wins over one with a negative score.
  enum class ClosedGroup { kZero, kMinusInfinity } closed_group = ClosedGroup::kZero;
  bool bias_in_weights = false;  // weights from the biased scores
  bool normalize = false;
  double scale = 1;

  bool operator==(const RouterOptions&) const = default;
};

struct Routing {
  std::shared_ptr<const std::vector<int32_t>> experts;  // [T * K], in order of falling score
  Tensor weights;  // [T, K], f32 (f64 for f64); its gradient goes to the logits
};

// logits [T, E]. `correction_bias` [E] f32 (f64 for f64) or undefined; it gets no gradient, nor do
// the choices. Computed in f32 (f64 for f64). Within Recompute the experts of the first run stay.
Routing Route(const Tensor& logits, const RouterOptions& options,
              const Tensor& correction_bias = Tensor());

// Tokens that chose each expert, [E]. `valid` [T], empty: all; other tokens don't count.
std::vector<int64_t> ExpertLoad(absl::Span<const int32_t> experts, int64_t num_experts,
                                int64_t tokens, absl::Span<const uint8_t> valid = {});

// sum over experts i of f_i P_i, a tensor of rank 0: f_i = load_i E / (K tokens), P_i the mean
// score of expert i, both over the valid tokens. 1 when perfectly balanced under softmax. The
// gradient flows through P. W. Fedus et al., "Switch transformers", 2021, for any K.
Tensor LoadBalancingLoss(const Tensor& logits, const RouterOptions& options,
                         absl::Span<const int32_t> experts, absl::Span<const uint8_t> valid = {});

// y itself. In the backward pass `loss` (rank 0) receives the gradient `factor`, whatever y's is:
// how a loss that arises within a block reaches its inputs without being handed out of it.
Tensor AttachLoss(const Tensor& y, const Tensor& loss, double factor);

// bias[i] += factor * sign(mean(load) - load[i]): a step towards balance without gradient. Only
// where the caller asks for it, in training of the router. L. Wang et al., "Auxiliary-loss-free
// load balancing", 2024. `bias` [E], f32 or f64, on the host.
void UpdateCorrectionBias(Tensor& bias, absl::Span<const int64_t> load, double factor);

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_ROUTER_H_
