// The experts' op. With w the routing weight of a row, f the activation, per row m of token t and
// expert e:
//   h = x[t] W1[e]ᵀ (+ branch, bias)
//   before down: a = w f(h), r = a W2[e]ᵀ (+ branch) + w b2[e];  y[t] = sum of r by expert
//   after down:  a = f(h),   r = a W2[e]ᵀ (+ branch) + b2[e];    y[t] = sum of w r by choice
// With g = dy[t] W2[e] (+ branch) both have
//   dh = w g f'(h), dw = g · f(h) + dy[t] · b2[e]
// and gradients of the down projection are those of a product with w dy[t], where the w goes to the
// smaller side (t, dt) or is in `a` already.
#include "lorica/autograd/experts.h"

#include <memory>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/op.h"
#include "lorica/autograd/ops/check_inputs.h"
#include "lorica/autograd/ops/gated_activation.h"
#include "lorica/autograd/ops/grouped_projection.h"

namespace lorica {
namespace {

using ops::GroupedProjectionState;
using ops::RowGroups;

constexpr int kX = 0, kWeights = 1, kFirstProjection = 2;

struct ExpertsOp : Op {
  static constexpr const char* kName = "experts";

  Saved x;        // [T, D]: for gradients of the first projection
  Saved weights;  // [T, K]
  Saved h;        // [M, U]
  Saved out;      // [M, D] rows before their weights: stepwise numerics alone
  GroupedProjectionState gate_up, down;
  std::shared_ptr<const RowGroups> groups;
  GatedActivation activation;
  bool before_down = false;
  ExpertNumerics numerics = ExpertNumerics::kFast;
  bool accumulator_output = false;

  auto saved() const {
    return std::tuple_cat(std::tie(x, weights, h, out), gate_up.saved(), down.saved());
  }
  const DispatchPlan& plan() const { return *groups->plan; }

  // w of every row, [M].
  Tensor RowFactors(const Tensor& w) const {
    const Tensor column = raw::Contiguous(w).WithShape({plan().tokens * plan().top_k, 1});
    return ops::GatherRows(column, plan().choice_of_row).WithShape({plan().rows()});
  }

  Tensor Activate(const Tensor& rows, const Tensor& factor) const {
    if (numerics == ExpertNumerics::kAutomodel) {
      NoGrad no_grad;
      const Tensor column = factor.defined() ? factor.WithShape({factor.dim(0), 1}) : Tensor();
      return ops::StepwiseActivation(rows, column, activation);
    }
    Tensor a = Tensor::Empty(rows.backend(), {rows.dim(0), Width(rows)}, rows.dtype());
    if (a.numel() > 0) {
      rows.backend().GatedActivationForward({.function = activation,
                                             .h = rows.view(),
                                             .factor = ViewOf(factor),
                                             .y = a.mutable_view()});
    }
    return a;
  }
  int64_t Width(const Tensor& rows) const { return rows.dim(1) / (activation.gated() ? 2 : 1); }
  static TensorView ViewOf(const Tensor& t) { return t.defined() ? t.view() : TensorView(); }

  Tensor Forward(const std::vector<Tensor>& inputs) {
    const Tensor tokens = raw::Contiguous(inputs[kX]);
    const DType type = tokens.dtype(), wide = AccumulatorOf(type);
    const Tensor factor = RowFactors(inputs[kWeights]);
    const Tensor rows = ops::GatherRows(tokens, plan().token_of_row);
    const Tensor hidden = gate_up.Forward(*groups, rows, type, gate_up.HasBias(), numerics);
    const Tensor a = Activate(hidden, before_down ? factor : Tensor());
    Tensor results = down.Forward(*groups, a, numerics == ExpertNumerics::kFast ? wide : type,
                                  down.HasBias() && !before_down, numerics);
    if (before_down && down.HasBias()) {
      // One more product of one column: w times the bias, added to what is there.
      const Tensor bias = down.bias().WithShape({down.bias().dim(0), 1, down.bias().dim(1)});
      ops::GroupedProductInto(groups->offsets,
                              {.a = factor.WithShape({factor.dim(0), 1}),
                               .b = bias,
                               .layout = GemmLayout::kNN,
                               .b_of_group = groups->expert,
                               .addend = results},
                              results);
    }
    Tensor y = Tensor::Empty(tokens.backend(), tokens.shape(), accumulator_output ? wide : type);
    if (y.numel() > 0) {
      y.backend().CombineRows({.x = results.view(),
                               .factor = before_down ? TensorView() : factor.view(),
                               .rows = before_down ? plan().rows_by_expert : plan().rows_in_slots,
                               .y = y.mutable_view()});
    }

    if (!needs_.empty()) {
      weights = inputs[kWeights];
      h = hidden;
      if (numerics == ExpertNumerics::kAutomodel && !before_down && needs(kWeights)) out = results;
      if (gate_up.NeedsFactors(*this) || gate_up.NeedsWeights(*this)) {
        x = inputs[kX].is_contiguous() ? inputs[kX] : tokens;
      }
    }
    gate_up.Keep(*this);
    down.Keep(*this);
    return y;
  }

  // What comes back through activation and down projection, whose gradients are added on the way.
  struct Rows {
    Tensor dh;  // [M, U]
    Tensor dw;  // [M, 1], accumulator type
  };

  bool DownGrads() const { return down.NeedsFactors(*this) || down.NeedsWeights(*this); }

  // dw += dout · b2[e], per row.
  void AddBiasDot(const Tensor& dout, Tensor& dw) const {
    if (!down.HasBias() || !needs(kWeights)) return;
    const Tensor bias = down.bias().WithShape({down.bias().dim(0), 1, down.bias().dim(1)});
    ops::GroupedProductInto(groups->offsets,
                            {.a = dout, .b = bias, .b_of_group = groups->expert, .addend = dw}, dw);
  }

  Rows RowGrads(const Tensor& hidden, const Tensor& dy, const Tensor& factor,
                std::vector<Tensor>& grads) const {
    Backend& backend = dy.backend();
    const DType type = hidden.dtype();
    const int64_t count = plan().rows();
    const Tensor dout = ops::GatherRows(dy, plan().token_of_row);
    Tensor dt;
    const Tensor da = down.InputGrad(*groups, dout, type, numerics, dt);
    Rows rows;
    rows.dh = Tensor::Empty(backend, hidden.shape(), type);
    rows.dw = Tensor::Empty(backend, {count, 1}, AccumulatorOf(type));
    Tensor a;
    if (DownGrads()) a = Tensor::Empty(backend, {count, Width(hidden)}, type);
    if (rows.dh.numel() > 0) {
      backend.GatedActivationGrad({.function = activation,
                                   .h = hidden.view(),
                                   .dy = da.view(),
                                   .factor = factor.view(),
                                   .dh = rows.dh.mutable_view(),
                                   .dot = rows.dw.WithShape({count}).mutable_view(),
                                   .y = a.defined() ? a.mutable_view() : MutableTensorView(),
                                   .factor_in_y = before_down});
    }
    if (DownGrads()) {
      down.AddGrads(*groups, *this, a, dout, dt, before_down ? Tensor() : factor, factor, grads);
    }
    AddBiasDot(dout, rows.dw);
    return rows;
  }

  // The same with a rounding at every step that the forward pass has.
  Rows StepwiseRowGrads(const Tensor& hidden, const Tensor& dy, const Tensor& factor,
                        std::vector<Tensor>& grads) const {
    Backend& backend = dy.backend();
    const DType type = hidden.dtype(), wide = factor.dtype();
    const int64_t count = plan().rows();
    Rows rows;
    Tensor dout = ops::GatherRows(dy, plan().token_of_row);
    if (!before_down) {
      Tensor product = raw::Cast(dout, wide);
      if (needs(kWeights)) {
        rows.dw = Tensor::Empty(backend, {count, 1}, wide);
        Tensor terms = Tensor::Empty(backend, product.shape(), wide);
        const Tensor values = raw::Cast(out.get(kName), wide);
        backend.Binary(BinaryOp::kMul, product.view(), values.view(), terms.mutable_view());
        backend.SumTo(terms.view(), rows.dw.mutable_view());
      }
      // dout is gathered above and nobody else's.
      if (count > 0) backend.ScaleRows(product.view(), factor.view(), product.mutable_view());
      dout = raw::Cast(product, type);
    }
    Tensor dt;
    const Tensor da = down.InputGrad(*groups, dout, type, numerics, dt);
    Tensor input = hidden.Detach(), w = factor.WithShape({count, 1});
    Tensor a = Tensor::Empty(backend, {count, Width(hidden)}, type);
    rows.dh = Tensor::Empty(backend, hidden.shape(), type);
    if (before_down) rows.dw = Tensor::Empty(backend, {count, 1}, wide);
    if (count > 0) {
      GradMode recording(true);
      SetRequiresGrad(input, true);
      SetRequiresGrad(w, true);
      a = ops::StepwiseActivation(input, before_down ? w : Tensor(), activation);
      const Tensor leaves[] = {input, w};
      const std::vector<Tensor> found = Gradients(a, da, leaves);
      rows.dh = found[0];
      if (before_down) rows.dw = found[1];
    }
    if (DownGrads()) {
      down.AddGrads(*groups, *this, a.Detach(), dout, dt, Tensor(), before_down ? factor : Tensor(),
                    grads);
    }
    if (before_down) AddBiasDot(dout, rows.dw);
    return rows;
  }

  std::vector<Tensor> Backward(const Tensor& dy_any) const {
    const Tensor hidden = h.get(kName), w = weights.get(kName);
    const DType type = hidden.dtype(), wide = AccumulatorOf(type);
    const Tensor dy = raw::Contiguous(raw::Cast(dy_any, type));
    Backend& backend = dy.backend();
    const Tensor factor = RowFactors(w);
    std::vector<Tensor> inputs;
    gate_up.AppendInputs(inputs);
    down.AppendInputs(inputs);
    std::vector<Tensor> grads(kFirstProjection + inputs.size());

    const Rows rows = numerics == ExpertNumerics::kFast
                          ? RowGrads(hidden, dy, factor, grads)
                          : StepwiseRowGrads(hidden, dy, factor, grads);
    if (needs(kWeights)) {
      Tensor dw = Tensor::Empty(backend, {plan().tokens * plan().top_k, 1}, wide);
      if (dw.numel() > 0) {
        backend.CombineRows(
            {.x = rows.dw.view(), .rows = plan().rows_in_slots, .y = dw.mutable_view()});
      }
      grads[kWeights] = dw.WithShape(w.shape());
    }

    const bool gate_up_grads = gate_up.NeedsFactors(*this) || gate_up.NeedsWeights(*this);
    if (!needs(kX) && !gate_up_grads) return grads;
    Tensor dt;
    Tensor dx_rows = gate_up.InputGrad(
        *groups, rows.dh, numerics == ExpertNumerics::kFast ? wide : type, numerics, dt);
    if (needs(kX)) {
      Tensor dx = Tensor::Empty(backend, dy.shape(), type);
      if (dx.numel() > 0) {
        backend.CombineRows(
            {.x = dx_rows.view(), .rows = plan().rows_by_expert, .y = dx.mutable_view()});
      }
      grads[kX] = dx;
    }
    dx_rows = Tensor();  // as large as the rows that are gathered next
    if (gate_up_grads) {
      const Tensor x_rows = ops::GatherRows(raw::Contiguous(x.get(kName)), plan().token_of_row);
      gate_up.AddGrads(*groups, *this, x_rows, rows.dh, dt, Tensor(), Tensor(), grads);
    }
    return grads;
  }
};

void CheckProjection(const char* name, const GroupedProjection& p, const DispatchPlan& plan,
                     const Tensor& x, int64_t in, ExpertNumerics numerics) {
  const Tensor& w = p.weight.value;
  ops::CheckSame("experts", x, w);
  LORICA_CHECK(w.rank() == 3 && w.dim(0) == plan.experts() && w.dim(2) == in && w.is_contiguous(),
               "[experts] ", name, " must be [", plan.experts(), ", out, ", in,
               "], contiguous, found ", w.shape());
  if (p.bias.defined()) {
    LORICA_CHECK(p.bias.value.shape() == Shape({w.dim(0), w.dim(1)}) &&
                     p.bias.value.dtype() == x.dtype() && p.bias.value.is_contiguous(),
                 "[experts] ", name, " has weight ", w.shape(), " and bias ", p.bias.value.shape());
  }
  if (p.branch == nullptr || !p.branch->defined()) return;
  const GroupedBranch& b = *p.branch;
  const int64_t slots = static_cast<int64_t>(b.slots.size());
  LORICA_CHECK(b.a.dtype() == x.dtype() && b.b.dtype() == x.dtype() && b.a.is_contiguous() &&
                   b.b.is_contiguous(),
               "[experts] an adapter's A and B must have the type of x, ", x.dtype());
  LORICA_CHECK((b.a_groups == 1 || b.a_groups == w.dim(0)) &&
                   (b.b_groups == 1 || b.b_groups == w.dim(0)) && b.a.rank() == 3 &&
                   b.b.rank() == 3 && b.a.dim(0) == slots * b.a_groups && b.a.dim(2) == in &&
                   b.b.dim(0) == slots * b.b_groups && b.b.dim(1) == w.dim(1) &&
                   b.b.dim(2) == b.a.dim(1),
               "[experts] adapter A ", b.a.shape(), " and B ", b.b.shape(), " of ", slots,
               " slots don't fit ", name, " ", w.shape());
  LORICA_CHECK(b.scale_in_b == (numerics == ExpertNumerics::kFast),
               "[experts] B carries the scale in fast numerics, and only there");
  for (const GroupedBranch::Factor& f : b.factors) {
    for (const GroupedBranch::Factor& other : b.factors) {
      LORICA_CHECK(b.scale_in_b || f.slot != other.slot || f.scale == other.scale,
                   "[experts] automodel numerics need one scale per slot, found ", f.scale, " and ",
                   other.scale);
    }
    LORICA_CHECK(f.slot >= 0 && f.slot < slots && f.a.rank() == 3 && f.b.rank() == 3 &&
                     f.a.dim(0) == b.a_groups && f.b.dim(0) == b.b_groups &&
                     f.a.dim(1) == f.b.dim(2) && f.a.dim(2) == in && f.rank_begin >= 0 &&
                     f.rank_begin + f.a.dim(1) <= b.a.dim(1) && f.out_begin >= 0 &&
                     f.out_step >= 1 && f.b.dim(1) >= 1 &&
                     f.out_begin + (f.b.dim(1) - 1) * f.out_step < w.dim(1),
                 "[experts] factors A ", f.a.shape(), " and B ", f.b.shape(),
                 " don't fit the adapter of ", name);
  }
}

}  // namespace

Tensor Experts(const Tensor& x, const Tensor& w, const ExpertsArgs& args) {
  ops::CheckCompute("experts", x);
  LORICA_CHECK(args.plan != nullptr, "[experts] a dispatch plan is needed");
  const DispatchPlan& plan = *args.plan;
  LORICA_CHECK(x.rank() == 2 && x.dim(0) == plan.tokens, "[experts] x [", plan.tokens,
               ", D] expected, found ", x.shape());
  LORICA_CHECK(w.defined() && w.shape() == Shape({plan.tokens, plan.top_k}) &&
                   w.dtype() == AccumulatorOf(x.dtype()),
               "[experts] weights ", AccumulatorOf(x.dtype()), " [", plan.tokens, ", ", plan.top_k,
               "] expected");
  CheckProjection("gate_up", args.gate_up, plan, x, x.dim(1), args.numerics);
  const int64_t width = args.gate_up.weight.value.dim(1) / (args.activation.gated() ? 2 : 1);
  CheckProjection("down", args.down, plan, x, width, args.numerics);
  LORICA_CHECK(args.down.weight.value.dim(1) == x.dim(1) &&
                   args.gate_up.weight.value.dim(1) == width * (args.activation.gated() ? 2 : 1),
               "[experts] gate_up ", args.gate_up.weight.value.shape(), " and down ",
               args.down.weight.value.shape(), " don't fit x ", x.shape());
  size_t slots = 0;
  bool dropout = false;
  for (const GroupedProjection* p : {&args.gate_up, &args.down}) {
    if (p->branch == nullptr || !p->branch->defined()) continue;
    LORICA_CHECK(slots == 0 || slots == p->branch->slots.size(),
                 "[experts] both projections need the same adapter slots");
    slots = p->branch->slots.size();
    for (const GroupedBranch::Slot& slot : p->branch->slots) dropout = dropout || slot.dropout > 0;
  }
  ExpertsOp op;
  op.groups =
      std::make_shared<const RowGroups>(ops::MakeRowGroups("experts", args, slots, dropout));
  std::vector<Tensor> inputs = {x, w};
  op.gate_up = GroupedProjectionState("experts", args.gate_up, kFirstProjection);
  op.gate_up.AppendInputs(inputs);
  op.down = GroupedProjectionState("experts", args.down, static_cast<int>(inputs.size()));
  op.down.AppendInputs(inputs);
  op.activation = args.activation;
  op.before_down = args.placement == RouterWeightPlacement::kBeforeDown;
  op.numerics = args.numerics;
  op.accumulator_output = args.accumulator_output;
  return ApplyList(std::move(op), inputs);
}

}  // namespace lorica
