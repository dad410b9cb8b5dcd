#include <vector>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/kept_choice.h"
#include "lorica/autograd/op.h"

namespace lorica {
namespace {

using Choices = std::vector<std::shared_ptr<const void>>;

// While one lives, choices made on this thread are recorded in `choices`, or read from there.
class ChoiceScope {
 public:
  ChoiceScope(Choices& choices, bool replay) : choices_(choices), replay_(replay), outer_(current) {
    current = this;
  }
  ~ChoiceScope() { current = outer_; }
  ChoiceScope(const ChoiceScope&) = delete;
  ChoiceScope& operator=(const ChoiceScope&) = delete;

  static std::shared_ptr<const void> Choose(
      ChoiceScope* scope, const std::function<std::shared_ptr<const void>()>& make) {
    if (scope == nullptr) return make();
    if (scope->replay_) {
      LORICA_CHECK(scope->next_ < scope->choices_.size(),
                   "[recompute] the function makes more choices than in its first run");
      return scope->choices_[scope->next_++];
    }
    // A function within a function: the outer one's second run is another first run of the inner.
    scope->choices_.push_back(Choose(scope->outer_, make));
    return scope->choices_.back();
  }

  static thread_local ChoiceScope* current;

 private:
  Choices& choices_;
  bool replay_;
  size_t next_ = 0;
  ChoiceScope* outer_;
};

thread_local ChoiceScope* ChoiceScope::current = nullptr;

class RecomputeNode final : public Node {
 public:
  RecomputeNode(std::function<Tensor(const Tensor&)> function, const Tensor& x, Choices choices)
      : function_(std::move(function)), choices_(std::move(choices)), needs_dx_(RequiresGrad(x)) {
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
      ChoiceScope scope(choices_, true);
      y = function_(x);
    }
    std::vector<Tensor> grads(1);
    if (RequiresGrad(y)) grads = Gradients(y, dy, {&x, 1});
    if (!retain) {
      function_ = nullptr;
      choices_.clear();
      x_ = Tensor();
    }
    return grads;
  }

  void AppendSaved(std::vector<Tensor>& tensors) const override {
    tensors.push_back(x_.unchecked());
  }

 private:
  std::function<Tensor(const Tensor&)> function_;
  Choices choices_;
  Saved x_;
  bool needs_dx_;
};

}  // namespace

std::shared_ptr<const void> internal::KeepChoice(
    const std::function<std::shared_ptr<const void>()>& make) {
  return ChoiceScope::Choose(ChoiceScope::current, make);
}

Tensor Recompute(std::function<Tensor(const Tensor&)> function, const Tensor& x) {
  if (!GradEnabled()) return function(x);
  Tensor y;
  Choices choices;
  {
    NoGrad no_grad;
    ChoiceScope scope(choices, false);
    y = function(x.Detach());
  }
  y.set_autograd(nullptr);
  Record(y, std::make_shared<RecomputeNode>(std::move(function), x, std::move(choices)), {&x, 1});
  return y;
}

}  // namespace lorica
