// AdamW. I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", 2019; in the order of
// operations of PyTorch (Backend::AdamWStep). Moments are of the masters' type.
#ifndef LORICA_OPTIM_ADAMW_H_
#define LORICA_OPTIM_ADAMW_H_

#include <vector>

#include "lorica/optim/optimizer.h"

namespace lorica {

// First and second moment of one parameter.
struct AdamMoments {
  explicit AdamMoments(const Tensor& master);
  // One update; `step` counts from 1.
  void Step(Tensor& master, const AdamWOptions& options, int64_t step, const StepArgs& args);

  Tensor m, v;
};

class AdamW final : public Optimizer {
 public:
  AdamW(const AdamWOptions& options, ParameterGroup parameters);
  void Step(const StepArgs& args) override;
  void VisitState(const StateVisitor& visitor) override;

 private:
  AdamWOptions options_;
  std::vector<AdamMoments> moments_;
};

}  // namespace lorica

#endif  // LORICA_OPTIM_ADAMW_H_
