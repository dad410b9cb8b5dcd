#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/ops/low_rank.h"

namespace lorica {
namespace {

constexpr int kTable = 0, kFirstBranch = 1;

// y[t] = table[ids[t]] + t B'ᵀ with t = A[ids[t]], A [V, R]. dt = dy B'; dA[ids[t]] += dt[t]; dB =
// scale dyᵀ t.
struct EmbeddingOp : Op {
  static constexpr const char* kName = "embedding";

  struct Branch {
    Tensor a;  // forward only
    Saved b;
    Tensor a_leaf, b_leaf;
    double scale = 1;
  };

  std::vector<int32_t> ids;
  Tensor table;  // forward only
  Tensor table_leaf;
  std::vector<Branch> branches;
  std::vector<AdapterSpan> spans;
  Sequences sequences;
  std::vector<Saved> t;  // per span
  auto saved() const { return std::tie(t); }

  absl::Span<const int32_t> IdsOf(const AdapterSpan& span) const {
    return absl::Span<const int32_t>(ids).subspan(span.begin, span.end - span.begin);
  }

  Tensor Forward(const std::vector<Tensor>&) {
    Backend& backend = table.backend();
    const int64_t tokens = static_cast<int64_t>(ids.size());
    Tensor y = Tensor::Empty(backend, {tokens, table.dim(1)}, table.dtype());
    if (tokens > 0) backend.Gather(table.view(), ids, y.mutable_view());
    t.resize(spans.size());
    for (size_t i = 0; i < spans.size(); ++i) {
      const AdapterSpan& span = spans[i];
      const int64_t count = span.end - span.begin;
      if (span.slot < 0 || count == 0) continue;
      Branch& branch = branches[span.slot];
      Tensor part = Tensor::Empty(backend, {count, branch.a.dim(1)}, table.dtype());
      backend.Gather(branch.a.view(), IdsOf(span), part.mutable_view());
      Tensor out = y.Narrow(0, span.begin, count);
      ops::ProductInto({.a = part, .b = branch.b.unchecked(), .addend = out}, out);
      if (needs(kFirstBranch + 2 * span.slot) || needs(kFirstBranch + 2 * span.slot + 1)) {
        t[i] = part;
      }
    }
    table = Tensor();
    for (Branch& branch : branches) branch.a = Tensor();
    return y;
  }

  std::vector<Tensor> Backward(const Tensor& dy) const {
    std::vector<Tensor> grads(kFirstBranch + 2 * branches.size());
    if (needs(kTable)) {
      ops::WeightGradient sum(table_leaf);
      if (dy.numel() > 0) dy.backend().ScatterAdd(ids, dy.view(), 1, sum.view());
      grads[kTable] = sum.Result();
    }
    if (dy.dim(0) == 0) return grads;
    for (size_t i = 0; i < spans.size(); ++i) {
      if (!t[i].defined()) continue;
      const AdapterSpan& span = spans[i];
      const Branch& branch = branches[span.slot];
      const int a_input = kFirstBranch + 2 * span.slot;
      const Tensor part = dy.Narrow(0, span.begin, span.end - span.begin);
      if (needs(a_input)) {
        const Tensor dt = ops::Product(
            {.a = part, .b = branch.b.get(kName), .layout = GemmLayout::kNN}, dy.dtype());
        ops::WeightGradient sum(branch.a_leaf);
        dy.backend().ScatterAdd(IdsOf(span), dt.view(), 1, sum.view());
        AddResult(grads[a_input], sum.Result());
      }
      if (needs(a_input + 1)) {
        ops::WeightGradient sum(branch.b_leaf);
        ops::AddTokenSum(part, t[i].get(kName),
                         ops::SliceSequences(sequences, span.begin, span.end), branch.scale,
                         sum.view());
        AddResult(grads[a_input + 1], sum.Result());
      }
    }
    return grads;
  }

  // Two spans of one slot whose weight is no leaf.
  static void AddResult(Tensor& sum, const Tensor& one) {
    sum = sum.defined() && one.defined() ? Add(sum, one) : one;
  }
};

}  // namespace

Tensor Embedding(absl::Span<const int32_t> ids, const EmbeddingArgs& args) {
  const Tensor& table = args.table.value;
  ops::CheckCompute("embedding", table);
  LORICA_CHECK(table.rank() == 2 && table.is_contiguous(),
               "[embedding] table [V, C] expected, found ", table.shape());
  for (size_t i = 0; i < ids.size(); ++i) {
    LORICA_CHECK(ids[i] >= 0 && ids[i] < table.dim(0), "[embedding] token ", i, " is id ", ids[i],
                 ", expected one below the vocabulary size ", table.dim(0));
  }
  const int64_t rows = static_cast<int64_t>(ids.size());
  EmbeddingOp op;
  op.ids.assign(ids.begin(), ids.end());
  op.table = table;
  op.table_leaf = args.table.leaf;
  op.sequences = ops::SequencesOrSingle("embedding", args.sequences, rows);
  op.spans = ops::SpansToRun("embedding", args.spans, args.branches.size(), rows);
  std::vector<Tensor> inputs = {args.table.leaf};
  for (const LoraBranch& branch : args.branches) {
    const Tensor &a = branch.a.value, &b = branch.b.value;
    LORICA_CHECK(a.defined() && b.defined() && a.rank() == 2 && b.rank() == 2 &&
                     a.dim(0) == table.dim(0) && b.dim(0) == table.dim(1) && a.dim(1) == b.dim(1),
                 "[embedding] adapter A [V, R] and B [C, R] expected for table ", table.shape());
    EmbeddingOp::Branch kept;
    kept.a = a;
    kept.b = b;
    kept.a_leaf = branch.a.leaf;
    kept.b_leaf = branch.b.leaf;
    kept.scale = branch.scale;
    op.branches.push_back(std::move(kept));
    inputs.push_back(branch.a.leaf);
    inputs.push_back(branch.b.leaf);
  }
  return ApplyList(std::move(op), inputs);
}

}  // namespace lorica
