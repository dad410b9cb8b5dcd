// nn::MoeConfig: the sizes and the rules of a mixture of experts.
#ifndef LORICA_NN_MOE_CONFIG_H_
#define LORICA_NN_MOE_CONFIG_H_

#include <cstdint>
#include <string>

#include "lorica/autograd/experts.h"
#include "lorica/autograd/router.h"

namespace lorica::nn {

struct MoeConfig {
  int64_t hidden = 0;
  int64_t experts = 0;
  int64_t expert_width = 0;  // I
  RouterOptions router;      // K is its top_k
  bool router_bias = false;
  bool correction_bias = false;
  bool router_wide = true;  // f32 logits in a bf16 model

  GatedActivation activation;
  bool expert_bias = false;
  RouterWeightPlacement placement = RouterWeightPlacement::kAfterDown;
  ExpertNumerics numerics = ExpertNumerics::kFast;

  int64_t shared_width = 0;  // of the shared experts together; 0: none
  bool shared_gate = false;  // the shared output times sigmoid(x g)
  // Experts work on a projection of this width; router and shared experts on x itself. 0: none.
  int64_t latent = 0;

  // sum of f_i P_i over a pass (router.h), times this, joins the mean loss of its trained tokens:
  // its gradient is weighted by ForwardContext::trained_weight.
  double aux_loss_coefficient = 0;

  std::string router_name = "gate";
  std::string shared_name = "shared_experts";  // its gate: "shared_expert_gate"

  bool operator==(const MoeConfig&) const = default;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_MOE_CONFIG_H_
