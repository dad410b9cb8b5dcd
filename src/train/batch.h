// Sequences of one forward pass, and how a list of records becomes forward passes.
#ifndef LORICA_TRAIN_BATCH_H_
#define LORICA_TRAIN_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lorica/nn/decoder.h"
#include "lorica/nn/forward_context.h"
#include "lorica/train/sequence_source.h"

namespace lorica {

// How sequences are grouped. No grouping changes a bit of an adapter's gradient.
struct BatchOptions {
  // Several records in one row of at most `row_tokens` tokens, in their order; else a row each. A
  // longer record has a row of its own.
  bool packing = true;
  int64_t row_tokens = 2048;
  // Rows of a forward pass; 0: as many records as fit into pass_tokens, at least one.
  int64_t rows = 0;
  int64_t pass_tokens = 2048;
};

// Records [0, lengths.size()) in order, cut into forward passes: the number of records of each.
std::vector<int64_t> CutIntoPasses(absl::Span<const int64_t> lengths, const BatchOptions& options);

// One forward pass.
struct Batch {
  std::vector<int32_t> ids;      // [T]
  std::vector<int32_t> targets;  // [T]
  std::vector<float> weights;    // [T] of the targets; empty: all 1
  ForwardContext context;
  int64_t trained_tokens = 0;

  // `sample_numbers` as ForwardContext::ForSequences.
  static Batch Of(absl::Span<const TrainingSequence> sequences,
                  const std::vector<int64_t>& sample_numbers);
  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  // The sum of `losses` [T], each times its weight, of each sequence, in double and in order.
  std::vector<double> LossOfSequences(const Tensor& losses) const;
  // What Backward starts with for `losses` [T]: the weights in their type; undefined where all are
  // 1.
  Tensor WeightsLike(const Tensor& losses) const;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_BATCH_H_
