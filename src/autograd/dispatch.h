// DispatchPlan: which rows of (token, expert) pairs a routing makes, and in which order they are
// added up again.
//
// Letters: T tokens, K choices a token, E experts, M rows: pairs whose expert is one of the E.
#ifndef LORICA_AUTOGRAD_DISPATCH_H_
#define LORICA_AUTOGRAD_DISPATCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lorica/tensor/sequences.h"

namespace lorica {

// A value made once per routing and shared by everything that follows from it, recomputed blocks
// included.
struct DispatchPlan {
  int64_t tokens = 0, top_k = 0;
  int64_t first_expert = 0;             // the number of group 0 among all experts
  RowOffsets offsets;                   // [E + 1] rows of each expert
  std::vector<int32_t> token_of_row;    // [M], ascending within an expert
  std::vector<int32_t> choice_of_row;   // [M], t * K + k
  std::vector<int32_t> rows_in_slots;   // [T * K] row of choice (t, k), -1 where it has none
  std::vector<int32_t> rows_by_expert;  // [T * K] rows of token t, ascending experts, then -1

  int64_t experts() const { return offsets.groups(); }
  int64_t rows() const { return offsets.rows(); }
};

// `choices` [T * K]: an expert per choice. Choices outside [first_expert, first_expert + experts)
// are no route: -1, the number of all experts, or another rank's; nor are those of tokens that
// `valid` [T] (empty: all valid) marks with 0. Rows are sorted by expert, stably: by token, then k.
DispatchPlan MakeDispatchPlan(absl::Span<const int32_t> choices, int64_t tokens, int64_t top_k,
                              int64_t experts, absl::Span<const uint8_t> valid = {},
                              int64_t first_expert = 0);

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_DISPATCH_H_
