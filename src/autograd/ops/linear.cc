// Linear with low-rank branches. With W [out, in], per row of a span served by branch (A, B'), B' =
// round(scale B):
//   t  = round(drop(x) Aᵀ)          y  = round(t B'ᵀ + x Wᵀ + bias)
//   dt = round(dy B')               dx = round(drop(dt A) + dy W)
//   dA = dtᵀ drop(x)                dB = scale dyᵀ t                dW = dyᵀ x
// drop is linear and is its own transpose, so the gradient reuses its mask.
#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/low_rank.h"

namespace lorica {
namespace {

using ops::Product;
using ops::ProductArgs;
using ops::ProductInto;

// Inputs of the op: x, weight leaf, bias leaf, then each branch's leaves.
constexpr int kX = 0, kWeight = 1, kBias = 2, kFirstBranch = 3;

struct LinearOp : Op {
  static constexpr const char* kName = "linear";

  struct Branch {
    Saved a, b;  // values; leaves of this step's masters or copies of them
    Tensor a_leaf, b_leaf;
    double scale = 1, dropout = 0;
    uint64_t dropout_key = 0;
  };

  Saved x;       // [..., in]: with a branch or a trained weight
  Saved weight;  // [out, in]: when x needs a gradient
  Saved t;       // the spans' t one behind the other, each [rows, R of its slot]
  std::vector<Branch> branches;
  std::vector<AdapterSpan> spans;
  Sequences sequences;
  std::shared_ptr<const std::vector<uint64_t>> row_keys;
  Tensor weight_leaf, bias_leaf;
  Shape x_shape;
  // Forward only.
  Tensor weight_value, bias_value;
  DType y_dtype = DType::kF32;

  auto saved() const { return std::tie(x, weight, t); }

  bool BranchNeeds(int slot) const {
    return needs(kFirstBranch + 2 * slot) || needs(kFirstBranch + 2 * slot + 1);
  }

  Tensor Dropped(const Tensor& rows, const Branch& branch, int64_t begin) const {
    if (branch.dropout == 0) return rows;
    Tensor y = Tensor::Empty(rows.backend(), rows.shape(), rows.dtype());
    const absl::Span<const uint64_t> keys(row_keys->data() + begin, rows.dim(0));
    rows.backend().Dropout(rows.view(), {branch.dropout, branch.dropout_key, keys},
                           y.mutable_view());
    return y;
  }

  Tensor Forward(const std::vector<Tensor>& inputs) {
    const Tensor rows = ops::AsMatrix(inputs[kX]);
    const DType dtype = rows.dtype();  // of t
    x_shape = inputs[kX].shape();
    Shape y_shape = x_shape;
    y_shape[-1] = weight_value.dim(0);
    Tensor y = Tensor::Empty(rows.backend(), {rows.dim(0), y_shape[-1]}, y_dtype);

    int64_t t_values = 0;
    for (const AdapterSpan& span : spans) {
      if (span.slot >= 0) t_values += (span.end - span.begin) * Rank(span.slot);
    }
    Tensor t_all;
    if (t_values > 0) t_all = Tensor::Empty(rows.backend(), {t_values}, dtype);
    int64_t t_begin = 0;
    bool any_branch = false;
    for (const AdapterSpan& span : spans) {
      const int64_t count = span.end - span.begin;
      if (count == 0) continue;
      const Tensor part = rows.Narrow(0, span.begin, count);
      Tensor out = y.Narrow(0, span.begin, count);
      ProductArgs product{.a = part, .b = weight_value, .bias = bias_value, .cache_b = true};
      if (span.slot >= 0) {
        const Branch& branch = branches[span.slot];
        Tensor t_part = TPart(t_all, t_begin, count, Rank(span.slot));
        t_begin += t_part.numel();
        ProductInto({.a = Dropped(part, branch, span.begin), .b = branch.a.unchecked()}, t_part);
        product.prefix_a = t_part;
        product.prefix_b = branch.b.unchecked();
        any_branch = any_branch || BranchNeeds(span.slot);
      }
      ProductInto(product, out);
    }

    if (any_branch) t = t_all;
    // The input itself, not its matrix view: its op may be able to make it again.
    if (any_branch || needs(kWeight)) x = inputs[kX].is_contiguous() ? inputs[kX] : rows;
    if (needs(kX)) weight = weight_value;
    weight_value = bias_value = Tensor();
    return y.WithShape(y_shape);
  }

  std::vector<Tensor> Backward(const Tensor& dy_any) const {
    const Tensor dy = ops::AsMatrix(dy_any);
    std::vector<Tensor> grads(kFirstBranch + 2 * branches.size());
    if (needs(kWeight)) {
      ops::WeightGradient dw(weight_leaf);
      ops::AddTokenSum(dy, ops::AsMatrix(x.get(kName)), sequences, 1, dw.view());
      grads[kWeight] = dw.Result();
    }
    if (needs(kBias)) {
      ops::WeightGradient db(bias_leaf);
      if (dy.dim(0) > 0) dy.backend().ColumnSum(dy.view(), sequences, 1, db.view());
      grads[kBias] = db.Result();
    }

    std::vector<std::unique_ptr<ops::WeightGradient>> sums(grads.size());
    const auto sum_of = [&](int input, const Tensor& leaf) {
      if (sums[input] == nullptr) sums[input] = std::make_unique<ops::WeightGradient>(leaf);
      return sums[input]->view();
    };
    Tensor dx;
    if (needs(kX)) dx = Tensor::Empty(dy.backend(), {dy.dim(0), x_shape[-1]}, dy.dtype());
    int64_t t_begin = 0;
    for (const AdapterSpan& span : spans) {
      const int64_t count = span.end - span.begin;
      if (count == 0) continue;
      const Tensor dy_part = dy.Narrow(0, span.begin, count);
      ProductArgs product{
          .a = dy_part, .b = weight.unchecked(), .layout = GemmLayout::kNN, .cache_b = true};
      if (span.slot >= 0) {
        const Branch& branch = branches[span.slot];
        const int a_input = kFirstBranch + 2 * span.slot, b_input = a_input + 1;
        const Tensor dt = Product(
            {.a = dy_part, .b = branch.b.get(kName), .layout = GemmLayout::kNN}, dy.dtype());
        if (t.defined()) {
          const Sequences part_sequences = ops::SliceSequences(sequences, span.begin, span.end);
          const Tensor t_part = TPart(t.get(kName), t_begin, count, Rank(span.slot));
          t_begin += t_part.numel();
          if (needs(a_input)) {
            const Tensor x_part = ops::AsMatrix(x.get(kName)).Narrow(0, span.begin, count);
            ops::AddTokenSum(dt, Dropped(x_part, branch, span.begin), part_sequences, 1,
                             sum_of(a_input, branch.a_leaf));
          }
          if (needs(b_input)) {
            ops::AddTokenSum(dy_part, t_part, part_sequences, branch.scale,
                             sum_of(b_input, branch.b_leaf));
          }
        }
        if (needs(kX)) {
          if (branch.dropout == 0) {
            product.prefix_a = dt;
            product.prefix_b = branch.a.get(kName);
            product.prefix_layout = GemmLayout::kNN;
          } else {
            const Tensor branch_dx =
                Product({.a = dt, .b = branch.a.get(kName), .layout = GemmLayout::kNN},
                        AccumulatorOf(dy.dtype()));
            product.addend = Dropped(branch_dx, branch, span.begin);
          }
        }
      }
      if (needs(kX)) {
        weight.get(kName);  // the version check
        Tensor dx_part = dx.Narrow(0, span.begin, count);
        ProductInto(product, dx_part);
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] != nullptr) grads[i] = sums[i]->Result();
    }
    if (needs(kX)) grads[kX] = dx.WithShape(x_shape);
    return grads;
  }

 private:
  int64_t Rank(int slot) const { return branches[slot].a.unchecked().dim(0); }
  static Tensor TPart(const Tensor& all, int64_t begin, int64_t rows, int64_t rank) {
    return all.Narrow(0, begin, rows * rank).WithShape({rows, rank});
  }
};

}  // namespace

Tensor Linear(const Tensor& x, const LinearArgs& args) {
  const Tensor& w = args.weight.value;
  ops::CheckSame("linear", x, w);
  LORICA_CHECK(w.rank() == 2 && x.rank() >= 1 && x.dim(-1) == w.dim(1),
               "[linear] inner dimensions differ: x ", x.shape(), ", weight ", w.shape());
  LORICA_CHECK(w.is_contiguous(), "[linear] the weight must be contiguous");
  if (args.bias.defined()) {
    LORICA_CHECK(args.bias.value.shape() == Shape({w.dim(0)}), "[linear] bias ",
                 args.bias.value.shape(), " for weight ", w.shape());
  }
  const int64_t rows = x.shape().rows();
  LORICA_CHECK(!args.accumulator_output || !GradEnabled(),
               "[linear] accumulator_output has no gradient: it needs NoGrad");
  LinearOp op;
  op.y_dtype = args.accumulator_output ? AccumulatorOf(x.dtype()) : x.dtype();
  op.weight_value = w;
  op.weight_leaf = args.weight.leaf;
  op.bias_value = args.bias.value;
  op.bias_leaf = args.bias.leaf;
  op.sequences = ops::SequencesOrSingle("linear", args.sequences, rows);
  op.spans = ops::SpansToRun("linear", args.spans, args.branches.size(), rows);
  std::vector<Tensor> inputs = {x, args.weight.leaf, args.bias.leaf};
  for (const LoraBranch& branch : args.branches) {
    const Tensor &a = branch.a.value, &b = branch.b.value;
    LORICA_CHECK(a.defined() && b.defined() && a.dtype() == x.dtype() && b.dtype() == x.dtype(),
                 "[linear] an adapter's A and B must have the type of x, ", x.dtype());
    LORICA_CHECK(a.rank() == 2 && b.rank() == 2 && a.dim(1) == w.dim(1) && b.dim(0) == w.dim(0) &&
                     a.dim(0) == b.dim(1),
                 "[linear] adapter A ", a.shape(), " and B ", b.shape(), " don't fit weight ",
                 w.shape());
    LinearOp::Branch kept;
    kept.a = a;
    kept.b = b;
    kept.a_leaf = branch.a.leaf;
    kept.b_leaf = branch.b.leaf;
    kept.scale = branch.scale;
    kept.dropout = branch.dropout;
    kept.dropout_key = branch.dropout_key;
    if (branch.dropout > 0) {
      LORICA_CHECK(args.row_keys != nullptr && static_cast<int64_t>(args.row_keys->size()) == rows,
                   "[linear] adapter dropout needs one key per row");
      op.row_keys = args.row_keys;
    }
    op.branches.push_back(std::move(kept));
    inputs.push_back(branch.a.leaf);
    inputs.push_back(branch.b.leaf);
  }
  return ApplyList(std::move(op), inputs);
}

Tensor Matmul(const Tensor& a, const Tensor& b) {
  ops::CheckSame("matmul", a, b);
  LORICA_CHECK(a.rank() == 2 && b.rank() == 2 && a.dim(1) == b.dim(0),
               "[matmul] inner dimensions differ: ", a.shape(), " x ", b.shape());
  return Linear(a, {.weight = Transpose(b, 0, 1)});
}

}  // namespace lorica
