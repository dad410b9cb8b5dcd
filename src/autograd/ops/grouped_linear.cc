#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/low_rank.h"

namespace lorica {
namespace {

// y[rows of g] = x[rows of g] W[g]ᵀ; dx by the same rows times W[g]; dW[g] = dyᵀ x over the rows of
// g.
struct GroupedLinearOp : Op {
  static constexpr const char* kName = "grouped_linear";
  Saved x, weight;
  RowOffsets offsets;
  Tensor weight_value, weight_leaf;

  auto saved() const { return std::tie(x, weight); }

  Tensor Run(const Tensor& a, const Tensor& b, GemmLayout layout) const {
    const int64_t n = layout == GemmLayout::kNT ? b.dim(1) : b.dim(2);
    const int64_t k = layout == GemmLayout::kNT ? b.dim(2) : b.dim(1);
    Tensor y = Tensor::Empty(a.backend(), {a.dim(0), n}, a.dtype());
    if (y.numel() == 0) return y;
    GroupedGemmDesc desc;
    desc.m = a.dim(0);
    desc.n = n;
    desc.k = k;
    desc.offsets = offsets;
    desc.layout = layout;
    desc.a_type = desc.b_type = desc.y_type = a.dtype();
    a.backend().GroupedGemm(desc, {a.view(), b.view(), y.mutable_view()});
    return y;
  }

  Tensor Forward(const Tensor& input, const Tensor&) {
    const Tensor rows = raw::Contiguous(input);
    if (needs(1)) x = rows;
    if (needs(0)) weight = weight_value;
    Tensor y = Run(rows, weight_value, GemmLayout::kNT);
    weight_value = Tensor();
    return y;
  }

  Grads<2> Backward(const Tensor& dy) const {
    Grads<2> grads;
    if (needs(0)) grads[0] = Run(dy, weight.get(kName), GemmLayout::kNN);
    if (needs(1)) {
      ops::WeightGradient dw(weight_leaf);
      const MutableTensorView all = dw.view();
      const int64_t bytes = all.shape[1] * all.shape[2] * static_cast<int64_t>(SizeOf(all.dtype));
      for (int g = 0; g < offsets.groups(); ++g) {
        const int64_t begin = offsets.begin(g), count = offsets.size(g);
        if (count == 0) continue;
        MutableTensorView one{static_cast<char*>(all.data) + g * bytes,
                              {all.shape[1], all.shape[2]},
                              {all.shape[2], 1},
                              all.dtype};
        ops::AddTokenSum(dy.Narrow(0, begin, count), x.get(kName).Narrow(0, begin, count),
                         Sequences::Single(count), 1, one);
      }
      grads[1] = dw.Result();
    }
    return grads;
  }
};

}  // namespace

Tensor GroupedLinear(const Tensor& x, const Weight& weight, const RowOffsets& offsets) {
  const Tensor& w = weight.value;
  ops::CheckSame("grouped_linear", x, w);
  LORICA_CHECK(w.rank() == 3 && x.rank() == 2 && x.dim(1) == w.dim(2),
               "[grouped_linear] x [T, in] and weight [groups, out, in] expected, found ",
               x.shape(), " and ", w.shape());
  LORICA_CHECK(offsets.groups() == w.dim(0), "[grouped_linear] ", offsets.groups(),
               " row groups for ", w.dim(0), " weights");
  offsets.Check("grouped_linear", x.dim(0));
  GroupedLinearOp op;
  op.offsets = offsets;
  op.weight_value = raw::Contiguous(w);
  op.weight_leaf = weight.leaf;
  return Apply(std::move(op), x, weight.leaf);
}

}  // namespace lorica
