#include "lorica/train/evaluate.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/tensor/status.h"

namespace lorica {

double Evaluation::loss() const { return loss_sum / weight_sum; }
double Evaluation::perplexity() const { return std::exp(loss()); }

absl::StatusOr<Evaluation> Evaluate(CausalLm& model, const SequenceSource& source,
                                    const BatchOptions& options,
                                    const std::function<bool()>& cancelled) {
  const NoGrad no_grad;
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < source.size(); ++i) lengths.push_back(source.tokens(i));
  Evaluation evaluation;
  int64_t next = 0;
  for (const int64_t count : CutIntoPasses(lengths, options)) {
    if (cancelled && cancelled()) return absl::CancelledError("interrupted during an evaluation");
    std::vector<TrainingSequence> sequences;
    for (int64_t i = 0; i < count; ++i) {
      LORICA_ASSIGN_OR_RETURN(TrainingSequence sequence, source.Read(next + i));
      evaluation.weight_sum += sequence.trained_weight();
      sequences.push_back(std::move(sequence));
    }
    const Batch batch = Batch::Of(sequences, {});
    const Tensor losses = model.Loss(batch.ids, batch.targets, batch.context);
    for (const double loss : batch.LossOfSequences(losses)) {
      if (!std::isfinite(loss)) {
        return absl::AbortedError(absl::StrCat("evaluation: the loss of records ", next, " to ",
                                               next + count - 1, " isn't finite"));
      }
      evaluation.loss_sum += loss;
    }
    evaluation.tokens += batch.tokens();
    evaluation.trained_tokens += batch.trained_tokens;
    next += count;
  }
  return evaluation;
}

bool EvaluationHistory::Add(int64_t step, double loss) {
  if (best_step >= 0 && !(loss < best_loss)) {
    ++without_improvement;
    return false;
  }
  best_loss = loss;
  best_step = step;
  without_improvement = 0;
  return true;
}

}  // namespace lorica
