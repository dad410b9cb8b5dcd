// Experts one after the other, by ops that have gradients of their own: nothing here is shared with
// the fused op but the dispatch plan.
#include <algorithm>

#include "lorica/autograd/experts.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/check_inputs.h"
#include "lorica/autograd/ops/gated_activation.h"
#include "lorica/autograd/ops/grouped_projection.h"

namespace lorica {
namespace {

using ops::RowGroups;

// Rows `rows` of x [N, C].
Tensor TakeRows(const Tensor& x, absl::Span<const int32_t> rows) {
  EmbeddingArgs args;
  args.table = x;
  return Embedding(rows, args);
}

// The leaf itself where it trains, else the values; in `type`.
Tensor Values(const Weight& weight, DType type) {
  const bool trained = weight.leaf.defined() && RequiresGrad(weight.leaf);
  return Cast(trained ? weight.leaf : weight.value, type);
}

// Matrix `index` of a stack, or row `index` of a matrix.
Tensor At(const Tensor& stack, int64_t index) {
  const Tensor one = Narrow(stack, 0, index, 1);
  return stack.rank() == 3 ? Reshape(one, {stack.dim(1), stack.dim(2)}) : one;
}

// [rows, out] of the parts that a slot's factors give, each to its own columns.
Tensor Assemble(const std::vector<Tensor>& parts, int64_t step) {
  if (parts.size() == 1) return parts[0];
  if (step == 1) return Concat(parts, 1);
  std::vector<Tensor> columns;
  for (const Tensor& part : parts) columns.push_back(Reshape(part, {part.dim(0), part.dim(1), 1}));
  return Reshape(Concat(columns, 2), {parts[0].dim(0), step * parts[0].dim(1)});
}

class Reference {
 public:
  Reference(const ExpertsArgs& args, DType type, const RowGroups& groups)
      : args_(args), type_(type), groups_(groups) {}

  // x W[e]ᵀ + scale ((drop(x) Aᵀ) Bᵀ) for the rows of group g.
  Tensor Project(const GroupedProjection& p, const Tensor& x, int g) const {
    const int64_t expert = groups_.expert[static_cast<size_t>(g)];
    const int slot = groups_.slot[static_cast<size_t>(g)];
    Tensor y = Linear(x, {.weight = At(Values(p.weight, type_), expert)});
    if (p.branch == nullptr || !p.branch->defined() || slot < 0) return y;
    const GroupedBranch::Slot& options = p.branch->slots[static_cast<size_t>(slot)];
    Tensor input = x;
    if (options.dropout > 0) {
      const auto begin = groups_.row_keys.begin() + groups_.offsets.begin(g);
      input = Dropout(x, {.rate = options.dropout,
                          .key = options.dropout_key,
                          .row_keys = std::make_shared<const std::vector<uint64_t>>(
                              begin, begin + groups_.offsets.size(g))});
    }
    std::vector<Tensor> parts;
    int64_t step = 1;
    for (const GroupedBranch::Factor& f : p.branch->factors) {
      if (f.slot != slot) continue;
      const Tensor a = At(Cast(f.a, type_), p.branch->a_groups == 1 ? 0 : expert);
      const Tensor b = At(Cast(f.b, type_), p.branch->b_groups == 1 ? 0 : expert);
      parts.push_back(Affine(Linear(Linear(input, {.weight = a}), {.weight = b}), f.scale));
      step = f.out_step;
    }
    return parts.empty() ? y : Add(y, Assemble(parts, step));
  }

  Tensor Run(const Tensor& x, const Tensor& weights) const {
    const DispatchPlan& plan = *args_.plan;
    const DType wide = AccumulatorOf(type_);
    const bool before = args_.placement == RouterWeightPlacement::kBeforeDown;
    const Tensor choices = Reshape(weights, {plan.tokens * plan.top_k, 1});
    const Tensor zero_row = Tensor::Zeros(x.backend(), {1, x.dim(1)}, wide);
    Tensor sum = Tensor::Zeros(x.backend(), x.shape(), wide);
    std::vector<Tensor> outputs;
    for (int g = 0; g < groups_.offsets.groups(); ++g) {
      const size_t begin = static_cast<size_t>(groups_.offsets.begin(g));
      const size_t count = static_cast<size_t>(groups_.offsets.size(g));
      const int64_t expert = groups_.expert[static_cast<size_t>(g)];
      const auto tokens = absl::MakeConstSpan(plan.token_of_row).subspan(begin, count);
      Tensor h = Project(args_.gate_up, TakeRows(x, tokens), g);
      if (args_.gate_up.bias.defined()) h = Add(h, At(Values(args_.gate_up.bias, type_), expert));
      const Tensor w =
          TakeRows(choices, absl::MakeConstSpan(plan.choice_of_row).subspan(begin, count));
      const Tensor a = ops::StepwiseActivation(h, before ? w : Tensor(), args_.activation);
      Tensor y = Project(args_.down, a, g);
      const bool bias = args_.down.bias.defined();
      if (!before) {
        if (bias) y = Add(y, At(Values(args_.down.bias, type_), expert));
        outputs.push_back(Mul(Cast(y, wide), w));
        continue;
      }
      y = Cast(y, wide);
      if (bias) y = Add(y, Mul(Cast(At(Values(args_.down.bias, type_), expert), wide), w));
      std::vector<int32_t> place(static_cast<size_t>(plan.tokens), static_cast<int32_t>(count));
      for (size_t i = 0; i < count; ++i) {
        int32_t& row = place[static_cast<size_t>(tokens[i])];
        LORICA_CHECK(row == static_cast<int32_t>(count), "[experts_reference] token ", tokens[i],
                     " chooses expert ", expert, " twice");
        row = static_cast<int32_t>(i);
      }
      sum = Add(sum, TakeRows(Concat({y, zero_row}, 0), place));
    }
    if (before) return sum;
    outputs.push_back(zero_row);
    std::vector<int32_t> slots = plan.rows_in_slots;
    for (int32_t& row : slots) {
      if (row < 0) row = static_cast<int32_t>(plan.rows());
    }
    const Tensor buffer =
        Reshape(TakeRows(Concat(outputs, 0), slots), {plan.tokens, plan.top_k, x.dim(1)});
    for (int64_t k = 0; k < plan.top_k; ++k) {
      sum = Add(sum, Reshape(Narrow(buffer, 1, k, 1), {plan.tokens, x.dim(1)}));
    }
    return sum;
  }

 private:
  const ExpertsArgs& args_;
  DType type_;
  const RowGroups& groups_;
};

}  // namespace

Tensor ExpertsReference(const Tensor& x, const Tensor& weights, const ExpertsArgs& args) {
  size_t slots = 0;
  bool dropout = false;
  for (const GroupedProjection* p : {&args.gate_up, &args.down}) {
    if (p->branch == nullptr || !p->branch->defined()) continue;
    slots = std::max(slots, p->branch->slots.size());
    for (const GroupedBranch::Slot& slot : p->branch->slots) dropout = dropout || slot.dropout > 0;
  }
  RowGroups groups = ops::MakeRowGroups("experts_reference", args, slots, dropout);
  if (groups.expert.empty() && args.plan->experts() > 0) {
    // No rows at all: one group without rows, so that every gradient arrives, as zero.
    groups.offsets.offsets = {0, 0};
    groups.expert = {0};
    groups.slot = {slots > 0 ? 0 : -1};
  }
  const Tensor y = Reference(args, x.dtype(), groups).Run(x, weights);
  return args.accumulator_output ? y : Cast(y, x.dtype());
}

}  // namespace lorica
