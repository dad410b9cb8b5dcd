#include "lorica/nn/forward_context.h"

#include <utility>

#include "lorica/tensor/check.h"
#include "lorica/tensor/random.h"

namespace lorica {

ForwardContext ForwardContext::ForSequences(Sequences sequences,
                                            const std::vector<int64_t>& sample_numbers) {
  sequences.Check("forward_context", sequences.rows());
  const int count = sequences.groups();
  LORICA_CHECK(sample_numbers.empty() || static_cast<int>(sample_numbers.size()) == count,
               "[forward_context] ", sample_numbers.size(), " sample numbers for ", count,
               " sequences");
  ForwardContext context;
  context.positions.reserve(static_cast<size_t>(sequences.rows()));
  std::vector<uint64_t> keys;
  for (int s = 0; s < count; ++s) {
    for (int64_t i = 0; i < sequences.size(s); ++i) {
      context.positions.push_back(static_cast<int32_t>(i));
      if (!sample_numbers.empty()) {
        keys.push_back(
            CombineKeys(static_cast<uint64_t>(sample_numbers[s]), static_cast<uint64_t>(i)));
      }
    }
  }
  if (!sample_numbers.empty()) {
    context.row_keys = std::make_shared<const std::vector<uint64_t>>(std::move(keys));
  }
  context.sequences = std::move(sequences);
  return context;
}

ForwardContext ForwardContext::Select(absl::Span<const int32_t> rows) const {
  ForwardContext selected;
  selected.training = training;
  selected.recompute = recompute;
  selected.trained_weight = trained_weight;
  std::vector<uint64_t> keys;
  std::vector<int32_t> counts(static_cast<size_t>(sequences.groups()), 0);
  int sequence = 0;
  int64_t previous = -1;
  for (int32_t row : rows) {
    LORICA_CHECK(row > previous && row < tokens(), "[forward_context] row ", row, " after row ",
                 previous, " of ", tokens(), ": selected rows must ascend");
    previous = row;
    while (row >= sequences.offsets[sequence + 1]) ++sequence;
    ++counts[sequence];
    selected.positions.push_back(positions[row]);
    if (row_keys != nullptr) keys.push_back((*row_keys)[row]);
  }
  selected.sequences.offsets.reserve(counts.size() + 1);
  for (int32_t count : counts) {
    selected.sequences.offsets.push_back(selected.sequences.offsets.back() + count);
  }
  if (row_keys != nullptr) {
    selected.row_keys = std::make_shared<const std::vector<uint64_t>>(std::move(keys));
  }
  if (!spans.spans().empty() && !rows.empty()) selected.spans = spans.Permute(rows);
  return selected;
}

std::vector<AttentionSpan> SpansOf(const Sequences& sequences) {
  std::vector<AttentionSpan> spans;
  spans.reserve(static_cast<size_t>(sequences.groups()));
  for (int s = 0; s < sequences.groups(); ++s) {
    const int64_t begin = sequences.begin(s), length = sequences.size(s);
    if (length > 0) spans.push_back({begin, length, begin, length});
  }
  return spans;
}

}  // namespace lorica
