// The loss of a model over a data set.
#ifndef LORICA_TRAIN_EVALUATE_H_
#define LORICA_TRAIN_EVALUATE_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "lorica/nn/decoder.h"
#include "lorica/train/batch.h"
#include "lorica/train/sequence_source.h"

namespace lorica {

struct Evaluation {
  double loss_sum = 0;    // nats, over trained tokens, each times its weight
  double weight_sum = 0;  // of their weights
  int64_t trained_tokens = 0;
  int64_t tokens = 0;

  double loss() const;        // mean over trained tokens, by their weights
  double perplexity() const;  // exp(loss)
};

// Without dropout and without gradients; the same whatever the passes. Cancelled when `cancelled`
// says so between two passes; Aborted when a loss isn't finite.
absl::StatusOr<Evaluation> Evaluate(CausalLm& model, const SequenceSource& source,
                                    const BatchOptions& options,
                                    const std::function<bool()>& cancelled = nullptr);

// The course of evaluations: which was the best, and whether it is time to stop.
struct EvaluationHistory {
  double best_loss = 0;
  int64_t best_step = -1;           // -1: none yet
  int64_t without_improvement = 0;  // evaluations since the best

  // Whether this one is the best so far.
  bool Add(int64_t step, double loss);
};

}  // namespace lorica

#endif  // LORICA_TRAIN_EVALUATE_H_
