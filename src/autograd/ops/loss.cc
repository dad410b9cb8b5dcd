#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/check_inputs.h"

namespace lorica {
namespace {

// loss = lse(logits) - logits[target]; dlogits = (softmax - onehot) dloss.
struct CrossEntropyOp : Op {
  static constexpr const char* kName = "cross_entropy";
  std::vector<int32_t> targets;
  Saved logits, lse;
  auto saved() const { return std::tie(logits, lse); }

  Tensor Forward(const Tensor& x) {
    const Tensor rows = raw::Contiguous(x);
    const DType wide = AccumulatorOf(x.dtype());
    Tensor loss = Tensor::Empty(x.backend(), {x.dim(0)}, wide);
    Tensor sums = Tensor::Empty(x.backend(), {x.dim(0)}, wide);
    if (x.dim(0) > 0) {
      x.backend().CrossEntropy({.logits = rows.view(),
                                .targets = targets,
                                .loss = loss.mutable_view(),
                                .lse = sums.mutable_view()});
    }
    if (needs(0)) {
      logits = rows;
      lse = sums;
    }
    return loss;
  }
  Grads<1> Backward(const Tensor& dloss) const {
    const Tensor& rows = logits.get(kName);
    Tensor dlogits = Tensor::Empty(rows.backend(), rows.shape(), rows.dtype());
    if (rows.dim(0) > 0) {
      rows.backend().CrossEntropyGrad({.logits = rows.view(),
                                       .targets = targets,
                                       .lse = lse.get(kName).view(),
                                       .dloss = dloss.view(),
                                       .dlogits = dlogits.mutable_view()});
    }
    return {dlogits};
  }
};

// The frozen head: dx for a unit gradient comes out of the forward pass, where the logits are at
// hand; a row's dx is linear in its gradient.
struct LinearCrossEntropyOp : Op {
  static constexpr const char* kName = "linear_cross_entropy";
  std::vector<int32_t> targets;
  double softcap = 0;
  Tensor weight;  // forward only
  Saved unit_dx;
  DType dtype = DType::kF32;
  auto saved() const { return std::tie(unit_dx); }

  Tensor Forward(const Tensor& x) {
    const Tensor rows = raw::Contiguous(x);
    dtype = x.dtype();
    const DType wide = AccumulatorOf(dtype);
    Tensor loss = Tensor::Empty(x.backend(), {x.dim(0)}, wide);
    Tensor dx;
    if (needs(0)) dx = Tensor::Empty(x.backend(), x.shape(), wide);
    if (x.dim(0) > 0) {
      x.backend().LinearCrossEntropy({.x = rows.view(),
                                      .weight = weight.view(),
                                      .targets = targets,
                                      .loss = loss.mutable_view(),
                                      .dx = dx.defined() ? dx.mutable_view() : MutableTensorView(),
                                      .weight_storage_id = weight.storage()->id(),
                                      .weight_storage_version = weight.storage()->version(),
                                      .softcap = softcap});
    }
    if (needs(0)) unit_dx = dx;
    weight = Tensor();
    return loss;
  }
  Grads<1> Backward(const Tensor& dloss) const {
    const Tensor& unit = unit_dx.get(kName);
    Tensor dx = Tensor::Empty(unit.backend(), unit.shape(), unit.dtype());
    if (dx.numel() > 0) unit.backend().ScaleRows(unit.view(), dloss.view(), dx.mutable_view());
    return {raw::Cast(dx, dtype)};
  }
};

void CheckTargets(const char* op, absl::Span<const int32_t> targets, int64_t rows, int64_t vocab) {
  LORICA_CHECK(static_cast<int64_t>(targets.size()) == rows, "[", op, "] ", targets.size(),
               " targets for ", rows, " rows");
  for (size_t i = 0; i < targets.size(); ++i) {
    LORICA_CHECK(targets[i] < vocab, "[", op, "] target ", i, " is id ", targets[i],
                 ", expected one below ", vocab);
  }
}

}  // namespace

Tensor CrossEntropy(const Tensor& logits, absl::Span<const int32_t> targets) {
  ops::CheckCompute("cross_entropy", logits);
  LORICA_CHECK(logits.rank() == 2, "[cross_entropy] logits [T, V] expected, found ",
               logits.shape());
  CheckTargets("cross_entropy", targets, logits.dim(0), logits.dim(1));
  CrossEntropyOp op;
  op.targets.assign(targets.begin(), targets.end());
  return Apply(std::move(op), logits);
}

Tensor LinearCrossEntropy(const Tensor& x, const LinearArgs& args,
                          absl::Span<const int32_t> targets, double softcap) {
  const Weight& weight = args.weight;
  ops::CheckSame("linear_cross_entropy", x, weight.value);
  const bool trains = GradEnabled() && weight.leaf.defined() && RequiresGrad(weight.leaf);
  if (trains || args.bias.defined() || !args.branches.empty()) {
    const Tensor logits = Linear(x, args);
    return CrossEntropy(softcap > 0 ? SoftCap(logits, softcap) : logits, targets);
  }
  LORICA_CHECK(x.rank() == 2 && weight.value.rank() == 2 && x.dim(1) == weight.value.dim(1),
               "[linear_cross_entropy] inner dimensions differ: x ", x.shape(), ", weight ",
               weight.value.shape());
  CheckTargets("linear_cross_entropy", targets, x.dim(0), weight.value.dim(0));
  LinearCrossEntropyOp op;
  op.targets.assign(targets.begin(), targets.end());
  op.softcap = softcap;
  op.weight = raw::Contiguous(weight.value);
  return Apply(std::move(op), x);
}

}  // namespace lorica
