#include "lorica/train/batch.h"

#include "lorica/tensor/check.h"

namespace lorica {

std::vector<int64_t> CutIntoPasses(absl::Span<const int64_t> lengths, const BatchOptions& options) {
  std::vector<int64_t> passes;
  int64_t records = 0, rows = 0, row_tokens = 0, tokens = 0;
  for (const int64_t length : lengths) {
    const bool new_row = rows == 0 || !options.packing || row_tokens + length > options.row_tokens;
    const bool full =
        options.rows > 0 ? new_row && rows == options.rows : tokens + length > options.pass_tokens;
    if (records > 0 && full) {
      passes.push_back(records);
      records = rows = row_tokens = tokens = 0;
    }
    if (new_row || rows == 0) {
      ++rows;
      row_tokens = 0;
    }
    ++records;
    row_tokens += length;
    tokens += length;
  }
  if (records > 0) passes.push_back(records);
  return passes;
}

Batch Batch::Of(absl::Span<const TrainingSequence> sequences,
                const std::vector<int64_t>& sample_numbers) {
  Batch batch;
  Sequences offsets;
  bool weighted = false;
  double trained_weight = 0;
  for (const TrainingSequence& sequence : sequences) {
    LORICA_CHECK(sequence.ids.size() == sequence.targets.size() && !sequence.ids.empty(),
                 "[batch] a sequence of ", sequence.ids.size(), " ids and ",
                 sequence.targets.size(), " targets");
    batch.ids.insert(batch.ids.end(), sequence.ids.begin(), sequence.ids.end());
    batch.targets.insert(batch.targets.end(), sequence.targets.begin(), sequence.targets.end());
    LORICA_CHECK(sequence.weights.empty() || sequence.weights.size() == sequence.ids.size(),
                 "[batch] a sequence of ", sequence.ids.size(), " ids and ",
                 sequence.weights.size(), " weights");
    weighted = weighted || !sequence.weights.empty();
    batch.trained_tokens += sequence.trained_tokens();
    trained_weight += sequence.trained_weight();
    offsets.offsets.push_back(static_cast<int32_t>(batch.ids.size()));
  }
  for (const TrainingSequence& sequence : sequences) {
    if (!weighted) break;
    batch.weights.insert(batch.weights.end(), sequence.weights.begin(), sequence.weights.end());
    if (sequence.weights.empty())
      batch.weights.resize(batch.weights.size() + sequence.ids.size(), 1);
  }
  batch.context = ForwardContext::ForSequences(std::move(offsets), sample_numbers);
  batch.context.trained_weight = trained_weight;
  return batch;
}

std::vector<double> Batch::LossOfSequences(const Tensor& losses) const {
  const Sequences& sequences = context.sequences;
  const std::vector<double> values = losses.ToDoubles();
  LORICA_CHECK(static_cast<int64_t>(values.size()) == sequences.rows(), "[batch] ", values.size(),
               " losses for ", sequences.rows(), " tokens");
  std::vector<double> sums(static_cast<size_t>(sequences.groups()), 0.0);
  for (int s = 0; s < sequences.groups(); ++s) {
    for (int64_t t = sequences.begin(s); t < sequences.begin(s) + sequences.size(s); ++t) {
      // A token that isn't trained has a loss of 0, whatever its weight.
      sums[s] += weights.empty() ? values[t] : weights[t] * values[t];
    }
  }
  return sums;
}

Tensor Batch::WeightsLike(const Tensor& losses) const {
  if (weights.empty()) return Tensor();
  return raw::Cast(Tensor::FromHost<float>(losses.backend(), {tokens()}, weights), losses.dtype());
}

}  // namespace lorica
