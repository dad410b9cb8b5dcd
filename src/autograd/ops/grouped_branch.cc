#include <algorithm>

#include "lorica/autograd/experts.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

// Rows of 16 bytes: what aligned loads of a device need; the CPU doesn't mind.
constexpr int64_t kRankBytes = 16;

// `from` [N, rows, columns] times `factor`, rounded once to `to`'s type, over rows of matrices
// [begin, begin + N) of the stack `to`.
void CopyInto(const Tensor& from, double factor, const Tensor& to, int64_t begin, int64_t row,
              int64_t row_step, int64_t column) {
  if (from.numel() == 0) return;
  const Shape& strides = to.strides();
  Tensor part(to.storage(), from.shape(), {strides[0], row_step * strides[1], strides[2]},
              to.offset() + begin * strides[0] + row * strides[1] + column * strides[2],
              to.dtype());
  if (factor == 1) {
    from.backend().Copy(from.view(), part.mutable_view());
    return;
  }
  const Tensor wide = raw::Cast(from, AccumulatorOf(to.dtype()));
  from.backend().Affine(wide.view(), factor, 0, part.mutable_view());
}

}  // namespace

GroupedBranch MakeGroupedBranch(std::vector<GroupedBranch::Factor> factors,
                                std::vector<GroupedBranch::Slot> slots, int64_t out, DType compute,
                                bool scale_in_b) {
  LORICA_CHECK(!factors.empty() && !slots.empty(), "[grouped_branch] factors and slots are needed");
  GroupedBranch branch;
  branch.a_groups = factors[0].a.dim(0);
  branch.b_groups = factors[0].b.dim(0);
  branch.scale_in_b = scale_in_b;
  const int64_t in = factors[0].a.dim(2);
  std::vector<int64_t> ranks(slots.size(), 0);
  for (GroupedBranch::Factor& f : factors) {
    LORICA_CHECK(f.slot >= 0 && f.slot < static_cast<int>(slots.size()) && f.a.rank() == 3 &&
                     f.b.rank() == 3 && f.a.dim(0) == branch.a_groups && f.a.dim(2) == in &&
                     f.b.dim(0) == branch.b_groups && f.a.dim(1) == f.b.dim(2) &&
                     f.out_begin >= 0 && f.out_step >= 1 &&
                     (f.b.dim(1) == 0 || f.out_begin + (f.b.dim(1) - 1) * f.out_step < out),
                 "[grouped_branch] factors ", f.a.shape(), " and ", f.b.shape(), " in slot ",
                 f.slot, " of ", slots.size(), " for ", out, " outputs");
    f.rank_begin = ranks[static_cast<size_t>(f.slot)];
    ranks[static_cast<size_t>(f.slot)] += f.a.dim(1);
  }
  const int64_t unit = std::max<int64_t>(1, kRankBytes / static_cast<int64_t>(SizeOf(compute)));
  const int64_t widest = *std::max_element(ranks.begin(), ranks.end());
  const int64_t rank = (widest + unit - 1) / unit * unit;
  const int64_t count = static_cast<int64_t>(slots.size());
  Backend& backend = factors[0].a.backend();
  branch.a = Tensor::Zeros(backend, {count * branch.a_groups, rank, in}, compute);
  branch.b = Tensor::Zeros(backend, {count * branch.b_groups, out, rank}, compute);
  for (const GroupedBranch::Factor& f : factors) {
    CopyInto(f.a.Detach(), 1, branch.a, f.slot * branch.a_groups, f.rank_begin, 1, 0);
    CopyInto(f.b.Detach(), scale_in_b ? f.scale : 1, branch.b, f.slot * branch.b_groups,
             f.out_begin, f.out_step, f.rank_begin);
  }
  branch.slots = std::move(slots);
  branch.factors = std::move(factors);
  return branch;
}

}  // namespace lorica
