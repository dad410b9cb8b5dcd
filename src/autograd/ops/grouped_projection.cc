#include "lorica/autograd/ops/grouped_projection.h"

#include <algorithm>

#include "lorica/autograd/ops/low_rank.h"

namespace lorica::ops {
namespace {

// acc[index] of a stack [N, rows, columns].
MutableTensorView Slice(MutableTensorView stack, int64_t index) {
  MutableTensorView one = stack;
  const int64_t size = stack.shape[1] * stack.shape[2];
  one.data =
      static_cast<char*>(stack.data) + index * size * static_cast<int64_t>(SizeOf(stack.dtype));
  one.shape = {stack.shape[1], stack.shape[2]};
  one.strides = {stack.shape[2], 1};
  return one;
}

// x[m] * factor[m] in the accumulator type.
Tensor Scaled(const Tensor& x, const Tensor& factor) {
  if (!factor.defined() || x.numel() == 0) return x;
  const Tensor wide = raw::Cast(x, factor.dtype());
  Tensor y = Tensor::Empty(x.backend(), x.shape(), factor.dtype());
  y.backend().ScaleRows(wide.view(), factor.view(), y.mutable_view());
  return y;
}

// Columns begin, begin + step, ... of x [M, C] as a matrix with unit stride.
Tensor Columns(const Tensor& x, int64_t begin, int64_t step, int64_t count) {
  if (step == 1) return x.Narrow(1, begin, count);
  const Tensor spread(x.storage(), {x.dim(0), count}, {x.strides()[0], step * x.strides()[1]},
                      x.offset() + begin * x.strides()[1], x.dtype());
  return raw::Contiguous(spread);
}

// Rows of group g.
Tensor RowsOf(const Tensor& x, const RowOffsets& offsets, int g) {
  return x.Narrow(0, offsets.begin(g), offsets.size(g));
}

void AddInPlace(Tensor& y, TensorView x) {
  y.backend().Binary(BinaryOp::kAdd, y.view(), x, y.mutable_view());
}

}  // namespace

GroupedProjectionState::GroupedProjectionState(const char* op, const GroupedProjection& projection,
                                               int first_input)
    : op_(op), first_input_(first_input) {
  weight_ = projection.weight.value;
  weight_leaf_ = projection.weight.leaf;
  if (projection.bias.defined()) {
    bias_ = projection.bias.value;
    bias_leaf_ = projection.bias.leaf;
  }
  if (projection.branch == nullptr || !projection.branch->defined()) return;
  const GroupedBranch& branch = *projection.branch;
  a_ = branch.a;
  b_ = branch.b;
  a_groups_ = branch.a_groups;
  b_groups_ = branch.b_groups;
  scale_in_b_ = branch.scale_in_b;
  slots_ = branch.slots;
  factors_ = branch.factors;
}

void GroupedProjectionState::AppendInputs(std::vector<Tensor>& inputs) const {
  inputs.push_back(weight_leaf_);
  inputs.push_back(bias_leaf_);
  for (const GroupedBranch::Factor& factor : factors_) {
    inputs.push_back(factor.a);
    inputs.push_back(factor.b);
  }
}

bool GroupedProjectionState::NeedsWeights(const Op& op) const {
  return op.needs(first_input_) || op.needs(first_input_ + 1);
}

bool GroupedProjectionState::NeedsFactors(const Op& op) const {
  for (size_t i = 0; i < factors_.size(); ++i) {
    if (op.needs(FactorInput(i)) || op.needs(FactorInput(i) + 1)) return true;
  }
  return false;
}

double GroupedProjectionState::ScaleOf(int slot) const {
  for (const GroupedBranch::Factor& factor : factors_) {
    if (factor.slot == slot) return factor.scale;
  }
  return 1;
}

std::vector<int32_t> GroupedProjectionState::Matrices(const RowGroups& groups, bool of_a) const {
  std::vector<int32_t> indices;
  for (size_t g = 0; g < groups.slot.size(); ++g) {
    const int slot = groups.slot[g];
    const int64_t expert = groups.expert[g];
    indices.push_back(
        slot < 0 ? -1 : static_cast<int32_t>(of_a ? AIndex(slot, expert) : BIndex(slot, expert)));
  }
  return indices;
}

bool GroupedProjectionState::HasDropout() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const GroupedBranch::Slot& slot) { return slot.dropout > 0; });
}

Tensor GroupedProjectionState::Dropped(const RowGroups& groups, const Tensor& x) const {
  if (!HasDropout() || x.numel() == 0) return x;
  Tensor y = raw::Clone(x);
  for (int g = 0; g < groups.offsets.groups(); ++g) {
    if (groups.slot[g] < 0) continue;
    const GroupedBranch::Slot& slot = slots_[static_cast<size_t>(groups.slot[g])];
    if (slot.dropout == 0) continue;
    Tensor part = RowsOf(y, groups.offsets, g);
    const absl::Span<const uint64_t> keys(groups.row_keys.data() + groups.offsets.begin(g),
                                          static_cast<size_t>(groups.offsets.size(g)));
    x.backend().Dropout(part.view(), {slot.dropout, slot.dropout_key, keys}, part.mutable_view());
  }
  return y;
}

Tensor GroupedProjectionState::Forward(const RowGroups& groups, const Tensor& x, DType type,
                                       bool with_bias, ExpertNumerics numerics) {
  const bool fast = numerics == ExpertNumerics::kFast;
  GroupedProductArgs product{.a = x, .b = weight_.unchecked(), .b_of_group = groups.expert};
  std::vector<int32_t> a_index, b_index;
  if (a_.defined()) {
    a_index = Matrices(groups, true);
    b_index = Matrices(groups, false);
    t_ = GroupedProduct(groups.offsets,
                        {.a = Dropped(groups, x), .b = a_.unchecked(), .b_of_group = a_index},
                        x.dtype());
    if (fast) {
      product.prefix_a = t_.unchecked();
      product.prefix_b = b_.unchecked();
      product.prefix_of_group = b_index;
    }
  }
  if (fast && with_bias) product.bias = bias_.unchecked();
  Tensor y = GroupedProduct(groups.offsets, product, type);
  if (fast || y.numel() == 0) return y;

  if (a_.defined()) {
    Tensor delta = GroupedProduct(groups.offsets,
                                  {.a = t_.unchecked(), .b = b_.unchecked(), .b_of_group = b_index},
                                  x.dtype());
    for (int g = 0; g < groups.offsets.groups(); ++g) {
      if (groups.slot[g] < 0) continue;
      Tensor part = RowsOf(delta, groups.offsets, g), out = RowsOf(y, groups.offsets, g);
      part.backend().Affine(part.view(), ScaleOf(groups.slot[g]), 0, part.mutable_view());
      AddInPlace(out, part.view());
    }
  }
  if (with_bias) {
    for (int g = 0; g < groups.offsets.groups(); ++g) {
      Tensor out = RowsOf(y, groups.offsets, g);
      TensorView bias = bias_.unchecked().Narrow(0, groups.expert[g], 1).view();
      bias.shape = out.shape();
      bias.strides = {0, 1};
      AddInPlace(out, bias);
    }
  }
  return y;
}

void GroupedProjectionState::Keep(const Op& op) {
  if (!NeedsFactors(op)) t_ = Tensor();
}

Tensor GroupedProjectionState::InputGrad(const RowGroups& groups, const Tensor& dy, DType type,
                                         ExpertNumerics numerics, Tensor& dt) const {
  GroupedProductArgs product{
      .a = dy, .b = weight_.get(op_), .layout = GemmLayout::kNN, .b_of_group = groups.expert};
  std::vector<int32_t> a_index;
  if (a_.defined()) {
    a_index = Matrices(groups, true);
    const std::vector<int32_t> b_index = Matrices(groups, false);
    dt = GroupedProduct(
        groups.offsets,
        {.a = dy, .b = b_.get(op_), .layout = GemmLayout::kNN, .b_of_group = b_index}, dy.dtype());
    if (!scale_in_b_ && dt.numel() > 0) {
      for (int g = 0; g < groups.offsets.groups(); ++g) {
        if (groups.slot[g] < 0) continue;
        Tensor part = RowsOf(dt, groups.offsets, g);
        part.backend().Affine(part.view(), ScaleOf(groups.slot[g]), 0, part.mutable_view());
      }
    }
    if (HasDropout() || numerics == ExpertNumerics::kAutomodel) {
      // Groups without a slot add nothing.
      const bool fast = numerics == ExpertNumerics::kFast;
      Tensor branch = Tensor::Zeros(dy.backend(), {dy.dim(0), a_.unchecked().dim(2)},
                                    fast ? AccumulatorOf(dy.dtype()) : type);
      GroupedProductInto(
          groups.offsets,
          {.a = dt, .b = a_.get(op_), .layout = GemmLayout::kNN, .b_of_group = a_index}, branch);
      branch = Dropped(groups, branch);
      if (!fast) {
        Tensor dx = GroupedProduct(groups.offsets, product, type);
        if (dx.numel() > 0) AddInPlace(dx, branch.view());
        return dx;
      }
      product.addend = branch;
    } else {
      product.prefix_a = dt;
      product.prefix_b = a_.get(op_);
      product.prefix_layout = GemmLayout::kNN;
      product.prefix_of_group = a_index;
    }
  }
  return GroupedProduct(groups.offsets, product, type);
}

void GroupedProjectionState::AddGrads(const RowGroups& groups, const Op& op, const Tensor& x,
                                      const Tensor& dy, const Tensor& dt, const Tensor& row_factor,
                                      const Tensor& bias_factor, std::vector<Tensor>& grads) const {
  const RowOffsets& experts = groups.plan->offsets;
  if (op.needs(first_input_)) {
    WeightGradient sum(weight_leaf_);
    const Tensor scaled = Scaled(x, row_factor);
    for (int e = 0; e < experts.groups(); ++e) {
      if (experts.size(e) == 0) continue;
      const int64_t begin = experts.begin(e), count = experts.size(e);
      AddTokenSum(dy.Narrow(0, begin, count), scaled.Narrow(0, begin, count),
                  groups.SequencesOf(begin, begin + count), 1, Slice(sum.view(), e));
    }
    grads[static_cast<size_t>(first_input_)] = sum.Result();
  }
  if (op.needs(first_input_ + 1)) {
    WeightGradient sum(bias_leaf_);
    const Tensor scaled = Scaled(dy, bias_factor);
    for (int e = 0; e < experts.groups(); ++e) {
      if (experts.size(e) == 0) continue;
      const int64_t begin = experts.begin(e), count = experts.size(e);
      MutableTensorView row = sum.view();
      row.data =
          static_cast<char*>(row.data) + e * row.shape[1] * static_cast<int64_t>(SizeOf(row.dtype));
      row.shape = {row.shape[1]};
      row.strides = {1};
      dy.backend().ColumnSum(scaled.Narrow(0, begin, count).view(),
                             groups.SequencesOf(begin, begin + count), 1, row);
    }
    grads[static_cast<size_t>(first_input_) + 1] = sum.Result();
  }
  if (NeedsFactors(op)) AddFactorGrads(groups, op, x, dy, dt, row_factor, grads);
}

void GroupedProjectionState::AddFactorGrads(const RowGroups& groups, const Op& op, const Tensor& x,
                                            const Tensor& dy, const Tensor& dt_plain,
                                            const Tensor& row_factor,
                                            std::vector<Tensor>& grads) const {
  const Tensor input = Dropped(groups, x);
  const Tensor t = Scaled(t_.get(op_), row_factor), dt = Scaled(dt_plain, row_factor);
  std::vector<Sequences> sequences;
  for (int g = 0; g < groups.offsets.groups(); ++g) {
    sequences.push_back(groups.SequencesOf(groups.offsets.begin(g),
                                           groups.offsets.begin(g) + groups.offsets.size(g)));
  }
  // acc[i] += alpha * left[rows]ᵀ right[rows] over the rows of `slot`.
  const auto add = [&](const Tensor& left, const Tensor& right, int slot, bool shared, double alpha,
                       MutableTensorView acc) {
    if (shared) {
      Sequences runs;
      const std::vector<int32_t> rows = groups.RowsInTokenOrder(slot, runs);
      AddTokenSum(GatherRows(left, rows), GatherRows(right, rows), runs, alpha, Slice(acc, 0));
      return;
    }
    for (int g = 0; g < groups.offsets.groups(); ++g) {
      if (groups.slot[g] != slot) continue;
      AddTokenSum(RowsOf(left, groups.offsets, g), RowsOf(right, groups.offsets, g),
                  sequences[static_cast<size_t>(g)], alpha, Slice(acc, groups.expert[g]));
    }
  };
  const bool one_expert = groups.plan->experts() == 1;
  for (size_t i = 0; i < factors_.size(); ++i) {
    const GroupedBranch::Factor& factor = factors_[i];
    const int input_number = FactorInput(i);
    const int64_t rank = factor.a.dim(1);
    if (op.needs(input_number)) {
      WeightGradient sum(factor.a);
      add(dt.Narrow(1, factor.rank_begin, rank), input, factor.slot, a_groups_ == 1 && !one_expert,
          1, sum.view());
      grads[static_cast<size_t>(input_number)] = sum.Result();
    }
    if (op.needs(input_number + 1)) {
      WeightGradient sum(factor.b);
      add(Columns(dy, factor.out_begin, factor.out_step, factor.b.dim(1)),
          t.Narrow(1, factor.rank_begin, rank), factor.slot, b_groups_ == 1 && !one_expert,
          factor.scale, sum.view());
      grads[static_cast<size_t>(input_number) + 1] = sum.Result();
    }
  }
}

}  // namespace lorica::ops
