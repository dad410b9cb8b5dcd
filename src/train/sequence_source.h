// What a trainer reads: records as token sequences with their targets.
#ifndef LORICA_TRAIN_SEQUENCE_SOURCE_H_
#define LORICA_TRAIN_SEQUENCE_SOURCE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lorica {

// targets[t] is the token that the model should predict after ids[0..t], or negative where nothing
// is trained; the last one is always negative. Both of one length, at least 1.
//
// A token may count more or less than others: its loss is multiplied by weights[t], and what is
// divided by is the sum of the weights. A target of weight 0 is not trained: it is negative.
struct TrainingSequence {
  std::vector<int32_t> ids;
  std::vector<int32_t> targets;
  std::vector<float> weights;  // of the targets at the same place; empty: all 1

  // From labels that belong to the ids at the same place, as Hugging Face has them (negative: not
  // trained): shifted by one. labels[0] never counts. `label_weights` belong to the labels; empty:
  // all 1. Weights that are all 1 aren't kept.
  static TrainingSequence FromLabels(std::vector<int32_t> ids, const std::vector<int32_t>& labels,
                                     const std::vector<float>& label_weights = {});

  // Leaves the first `tokens`, at least 1.
  void CutTo(int64_t tokens);

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  int64_t trained_tokens() const;
  // The sum of the weights of trained targets.
  double trained_weight() const;
};

// Records by number. Lengths are known without reading. Reading may fail (a file that changed).
class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  virtual int64_t size() const = 0;
  virtual int64_t tokens(int64_t index) const = 0;
  virtual int64_t trained_tokens(int64_t index) const = 0;
  virtual absl::StatusOr<TrainingSequence> Read(int64_t index) const = 0;
};

// All in memory.
class MemorySource final : public SequenceSource {
 public:
  explicit MemorySource(std::vector<TrainingSequence> sequences)
      : sequences_(std::move(sequences)) {}
  int64_t size() const override { return static_cast<int64_t>(sequences_.size()); }
  int64_t tokens(int64_t index) const override { return sequences_[index].tokens(); }
  int64_t trained_tokens(int64_t index) const override {
    return sequences_[index].trained_tokens();
  }
  absl::StatusOr<TrainingSequence> Read(int64_t index) const override { return sequences_[index]; }

 private:
  std::vector<TrainingSequence> sequences_;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_SEQUENCE_SOURCE_H_
