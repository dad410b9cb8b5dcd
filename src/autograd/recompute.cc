#include "lorica/autograd/autograd.h"
#include "lorica/autograd/op.h"

namespace lorica {
namespace {

class RecomputeNode final : public Node {
 public:
  RecomputeNode(std::function<Tensor(const Tensor&)> function, const Tensor& x)
      : function_(std::move(function)), needs_dx_(RequiresGrad(x)) {
    x_ = x;
  }
  const char* name() const override { return "recompute"; }

  // The inner tape starts at a copy of x whose gradient is captured like that of any intermediate
  // value, so sums and roundings are those of the tape without recompute.
  std::vector<Tensor> Backward(const Tensor& dy, bool retain) override {
    LORICA_CHECK(function_ != nullptr, "[recompute] backward twice over the same tape; ",
                 "pass retain_graph to keep it");
    Tensor x = x_.get("recompute");
    if (needs_dx_) SetRequiresGrad(x, true);
    Tensor y;
    {
      GradMode recording(true);
      y = function_(x);
    }
    std::vector<Tensor> grads(1);
    if (RequiresGrad(y)) grads = Gradients(y, dy, {&x, 1});
    if (!retain) {
      function_ = nullptr;
      x_ = Tensor();
    }
    return grads;
  }

  void AppendSaved(std::vector<Tensor>& tensors) const override {
    tensors.push_back(x_.unchecked());
  }

 private:
  std::function<Tensor(const Tensor&)> function_;
  Saved x_;
  bool needs_dx_;
};

}  // namespace

Tensor Recompute(std::function<Tensor(const Tensor&)> function, const Tensor& x) {
  if (!GradEnabled()) return function(x);
  Tensor y;
  {
    NoGrad no_grad;
    y = function(x.Detach());
  }
  y.set_autograd(nullptr);
  Record(y, std::make_shared<RecomputeNode>(std::move(function), x), {&x, 1});
  return y;
}

}  // namespace lorica
