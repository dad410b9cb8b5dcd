// Rows sorted by expert: which adapter slot and sequence they belong to, and products over them.
//
// Letters: T tokens, K choices a token, M rows, E experts.
#ifndef LORICA_AUTOGRAD_OPS_ROW_GROUPS_H_
#define LORICA_AUTOGRAD_OPS_ROW_GROUPS_H_

#include <memory>
#include <vector>

#include "lorica/autograd/experts.h"

namespace lorica::ops {

// The rows of a plan by (expert, adapter slot): rows of an expert ascend with the token, and a slot
// serves neighbouring tokens, so such a group is one range.
struct RowGroups {
  std::shared_ptr<const DispatchPlan> plan;
  Sequences sequences;          // of the T tokens
  RowOffsets offsets;           // of the groups
  std::vector<int32_t> expert;  // of each group
  std::vector<int32_t> slot;    // of each group; -1: base alone
  // [M] what dropout of each row is keyed by: its token's key and its expert. Empty: no dropout.
  std::vector<uint64_t> row_keys;

  // Starts of the sequences within rows [begin, end) of one expert.
  Sequences SequencesOf(int64_t begin, int64_t end) const;
  // The rows of `slot` in the order (sequence, block of tokens, expert), and where each such run
  // begins.
  std::vector<int32_t> RowsInTokenOrder(int slot, Sequences& runs) const;
};

RowGroups MakeRowGroups(const char* op, const ExpertsArgs& args, size_t slots, bool dropout);

// y [M, ...] by groups: rows of `a` times the matrix of `b` that each group meets.
struct GroupedProductArgs {
  Tensor a, b;
  GemmLayout layout = GemmLayout::kNT;
  absl::Span<const int32_t> b_of_group;
  Tensor prefix_a, prefix_b;
  GemmLayout prefix_layout = GemmLayout::kNT;
  absl::Span<const int32_t> prefix_of_group;
  Tensor bias, addend;
};
void GroupedProductInto(const RowOffsets& offsets, const GroupedProductArgs& args, Tensor& y);
Tensor GroupedProduct(const RowOffsets& offsets, const GroupedProductArgs& args, DType type);

// Rows `rows` of x [N, C]: [rows, C].
Tensor GatherRows(const Tensor& x, absl::Span<const int32_t> rows);

}  // namespace lorica::ops

#endif  // LORICA_AUTOGRAD_OPS_ROW_GROUPS_H_
