// Optimizer: an update rule, the group of parameters it updates, their state and their clock.
#ifndef LORICA_OPTIM_OPTIMIZER_H_
#define LORICA_OPTIM_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lorica/optim/parameter_group.h"

namespace lorica {

struct AdamWOptions {
  double lr = 2e-4;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

struct MuonOptions {
  double lr = 0.02;
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0;
};

enum class OptimizerKind { kAdamW, kMuon };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  AdamWOptions adamw;  // with kMuon: of what Muon leaves to AdamW
  MuonOptions muon;
};

// InvalidArgument naming the option that is out of range.
absl::Status Validate(const OptimizerOptions& options);

struct StepArgs {
  // What the base rates are multiplied by (lr_schedule.h).
  double rate_factor = 1;
  // The gradient is Grad(master) * grad_scale: 1 / trained tokens of the step, times the clipping
  // coefficient. A parameter that no gradient reached has a gradient of zero.
  double grad_scale = 1;
};

// One thread at a time. The masters must live as long as the optimizer (handles keep them).
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter in place and moves the clock on by one.
  virtual void Step(const StepArgs& args) = 0;

  // Every state tensor in a fixed order. `parameter` is the one it belongs to, of the same shape;
  // `kind` is "adam_m", "adam_v" or "momentum". The visitor may write into `state`.
  using StateVisitor =
      std::function<void(const NamedParameter& parameter, absl::string_view kind, Tensor& state)>;
  virtual void VisitState(const StateVisitor& visitor) = 0;

  const ParameterGroup& parameters() const { return parameters_; }
  // Steps made.
  int64_t clock() const { return clock_; }
  void set_clock(int64_t clock) { clock_ = clock; }

 protected:
  explicit Optimizer(ParameterGroup parameters);

  ParameterGroup parameters_;
  int64_t clock_ = 0;
};

// How many state tensors of its shape an optimizer of this kind holds for a parameter: for memory
// estimates.
int StateCopies(OptimizerKind kind, ParameterRole role, int rank);

// With fresh state: zeros, clock 0. Throws Error when a master isn't a contiguous leaf of an
// accumulator type.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         ParameterGroup parameters);

}  // namespace lorica

#endif  // LORICA_OPTIM_OPTIMIZER_H_
