#include "lorica/optim/adamw.h"

#include <utility>

#include "lorica/autograd/autograd.h"
#include "lorica/tensor/backend.h"

namespace lorica {

AdamMoments::AdamMoments(const Tensor& master)
    : m(Tensor::Zeros(master.backend(), master.shape(), master.dtype())),
      v(Tensor::Zeros(master.backend(), master.shape(), master.dtype())) {}

void AdamMoments::Step(Tensor& master, const AdamWOptions& options, int64_t step,
                       const StepArgs& args) {
  if (master.numel() == 0) return;
  const Tensor& grad = GradAccumulator(master);
  master.backend().AdamWStep({.param = master.mutable_view(),
                              .moment1 = m.mutable_view(),
                              .moment2 = v.mutable_view(),
                              .grad = grad.view(),
                              .grad_scale = args.grad_scale,
                              .lr = options.lr * args.rate_factor,
                              .beta1 = options.beta1,
                              .beta2 = options.beta2,
                              .eps = options.eps,
                              .weight_decay = options.weight_decay,
                              .step = step});
}

AdamW::AdamW(const AdamWOptions& options, ParameterGroup parameters)
    : Optimizer(std::move(parameters)), options_(options) {
  moments_.reserve(parameters_.size());
  for (const NamedParameter& parameter : parameters_) moments_.emplace_back(parameter.master);
}

void AdamW::Step(const StepArgs& args) {
  ++clock_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    moments_[i].Step(parameters_[i].master, options_, clock_, args);
  }
}

void AdamW::VisitState(const StateVisitor& visitor) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    visitor(parameters_[i], "adam_m", moments_[i].m);
    visitor(parameters_[i], "adam_v", moments_[i].v);
  }
}

}  // namespace lorica
