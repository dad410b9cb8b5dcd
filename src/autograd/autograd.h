// First-order reverse-mode differentiation on an eager tape.
//
// Ops (ops.h) record themselves while gradients are enabled and an input needs one. Backward walks
// the tape in the reverse order of recording, iteratively, and frees what each op saved right after
// its use. Gradients of leaves are summed in f32 (f64 for f64 leaves) in one accumulator per leaf
// that lives until ZeroGrad: over as many Backward calls as an optimizer step needs. There are no
// second-order gradients: Backward itself records nothing.
//
// A tape belongs to the thread that records it. Method: A. Griewank, A. Walther, "Evaluating
// derivatives", 2008, ch. 3.
#ifndef LORICA_AUTOGRAD_AUTOGRAD_H_
#define LORICA_AUTOGRAD_AUTOGRAD_H_

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

// True when a gradient with respect to `x` can be asked for: a leaf marked below, or the result of
// a recorded op.
bool RequiresGrad(const Tensor& x);
// Marks or unmarks a leaf (a tensor that no recorded op made), for this handle and copies made from
// it afterwards.
void SetRequiresGrad(Tensor& leaf, bool requires_grad);

// The leaf's gradient summed since ZeroGrad, of its accumulator type and its shape; undefined when
// none has arrived.
Tensor Grad(const Tensor& leaf);
// The accumulator itself, made of zeros when there is none yet: for ops that add to it block by
// block.
Tensor& GradAccumulator(const Tensor& leaf);
// Forgets the gradient.
void ZeroGrad(const Tensor& leaf);

struct BackwardOptions {
  // Keep what the ops saved, so that Backward may run over the same tape again.
  bool retain_graph = false;
};

// Adds d y / d leaf, times `dy` (shape of y; undefined means ones), to the gradient of every leaf
// that y depends on. Throws Error when y needs no gradient, when the tape was used before, or when
// a saved tensor was overwritten.
void Backward(const Tensor& y, const Tensor& dy = Tensor(), const BackwardOptions& options = {});

// Gradients of y with respect to `inputs` (recorded results or leaves); undefined where y doesn't
// depend on an input. The inputs' own accumulators stay untouched, other leaves' receive their
// share.
std::vector<Tensor> Gradients(const Tensor& y, const Tensor& dy, absl::Span<const Tensor> inputs,
                              const BackwardOptions& options = {});

// Whether ops record on this thread (true at start).
bool GradEnabled();

// Switches recording off (or on) on this thread while it lives.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

// y = function(x) of which only x is kept: Backward runs `function` again. `function` must be pure
// (same x, same bits) and may read leaves, which get their gradients even when x itself needs none.
Tensor Recompute(std::function<Tensor(const Tensor&)> function, const Tensor& x);

// Bytes that the tape behind y keeps alive for Backward, each storage counted once, leaves' own
// values not counted.
size_t SavedBytes(const Tensor& y);

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_AUTOGRAD_H_
