// The seam between layers and adapters.
#ifndef LORICA_NN_ADAPTER_HOST_H_
#define LORICA_NN_ADAPTER_HOST_H_

#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "lorica/autograd/experts.h"
#include "lorica/autograd/weight.h"
#include "lorica/nn/module.h"
#include "lorica/nn/parameter.h"

namespace lorica {

// What peft hangs on a linear, a grouped linear or an embedding. It returns data and never
// computes: only so can products that share an input be fused.
class LinearAdapter {
 public:
  virtual ~LinearAdapter() = default;
  // The branch of every slot, values in `compute` type, made anew when a master has changed. Valid
  // until the next call.
  virtual absl::Span<const LoraBranch> Branches(DType compute, bool training) = 0;
  // The same for a grouped linear, all slots in one; `scale_in_b` as the op's numerics want it.
  virtual const GroupedBranch& Grouped(DType /*compute*/, bool /*training*/, bool /*scale_in_b*/) {
    Fail("[adapter] this adapter isn't for a grouped linear");
  }
};

// A module that can carry an adapter: what LoRA's target patterns select among.
class AdapterHost : public Module {
 public:
  enum class Kind { kLinear, kEmbedding, kGroupedLinear };
  virtual Kind kind() const = 0;
  // [out, in]; [V, C] for an embedding; [E, out, in] for a grouped linear.
  virtual Shape weight_shape() const = 0;
  // Another module's where the two are tied; then that module lists it.
  virtual Parameter& weight() = 0;
  // The weight is another module's (a head tied to the embedding). Untie gives the host `values`, a
  // weight of its own that it lists from then on; Retie drops that again.
  virtual bool tied() const { return false; }
  virtual void Untie(Tensor /*values*/) { LORICA_CHECK(false, "[untie] this module isn't tied"); }
  virtual void Retie() { LORICA_CHECK(false, "[retie] this module wasn't tied"); }
  // Null when there is none. The host shares ownership.
  void set_adapter(std::shared_ptr<LinearAdapter> adapter) { adapter_ = std::move(adapter); }
  const std::shared_ptr<LinearAdapter>& adapter() const { return adapter_; }
  // Carries no gradient in training (a sparse-attention indexer): targets leave it out and say so.
  virtual bool differentiable() const { return true; }

 protected:
  std::shared_ptr<LinearAdapter> adapter_;
};

}  // namespace lorica

#endif  // LORICA_NN_ADAPTER_HOST_H_
