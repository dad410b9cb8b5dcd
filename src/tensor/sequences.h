// The sequences of a batch whose tokens lie one behind the other, without padding.
#ifndef LORICA_TENSOR_SEQUENCES_H_
#define LORICA_TENSOR_SEQUENCES_H_

#include <cstdint>
#include <vector>

#include "lorica/tensor/check.h"

namespace lorica {

// Host-known row offsets: group g holds rows [offsets[g], offsets[g + 1]). Begins with 0, never
// falls, ends with the row count; empty groups are legal. The device-known form is a type of its
// own (none exists on the CPU), so nobody synchronises by accident.
struct RowOffsets {
  std::vector<int32_t> offsets = {0};

  int groups() const { return static_cast<int>(offsets.size()) - 1; }
  int64_t rows() const { return offsets.back(); }
  int64_t begin(int g) const { return offsets[g]; }
  int64_t size(int g) const { return offsets[g + 1] - offsets[g]; }

  // One group of all rows.
  static RowOffsets Single(int64_t rows) { return {{0, static_cast<int32_t>(rows)}}; }
  // Throws Error naming `where` unless the offsets are as above and end with `rows`.
  void Check(const char* where, int64_t rows) const;

  bool operator==(const RowOffsets&) const = default;
};

// Sums over tokens (gradients of weights) run in blocks of at most this many rows; a block never
// crosses the start of a sequence. Each block's sum is added, in order, to the one accumulator that
// a parameter has for the whole optimizer step. So the sum depends on the sequences and their order
// only, not on how they were grouped into micro-batches. 256 rows of a block of operands fit in the
// second-level cache.
inline constexpr int64_t kTokenBlock = 256;

// cu_seqlens of a batch: sequence s is rows [cu_seqlens[s], cu_seqlens[s + 1]).
using Sequences = RowOffsets;

}  // namespace lorica

#endif  // LORICA_TENSOR_SEQUENCES_H_
