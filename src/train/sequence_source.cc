#include "lorica/train/sequence_source.h"

#include <algorithm>

#include "lorica/tensor/check.h"

namespace lorica {

TrainingSequence TrainingSequence::FromLabels(std::vector<int32_t> ids,
                                              const std::vector<int32_t>& labels,
                                              const std::vector<float>& label_weights) {
  LORICA_CHECK(ids.size() == labels.size() && !ids.empty(), "[sequence] ", ids.size(), " ids with ",
               labels.size(), " labels");
  LORICA_CHECK(label_weights.empty() || label_weights.size() == labels.size(), "[sequence] ",
               labels.size(), " labels with ", label_weights.size(), " weights");
  TrainingSequence sequence;
  sequence.ids = std::move(ids);
  sequence.targets.reserve(labels.size());
  sequence.targets.assign(labels.begin() + 1, labels.end());
  sequence.targets.push_back(-1);
  bool weighted = false;
  for (size_t t = 0; !label_weights.empty() && t + 1 < labels.size(); ++t) {
    const float weight = label_weights[t + 1];
    LORICA_CHECK(weight >= 0, "[sequence] the weight ", weight, " of label ", t + 1);
    if (weight == 0) sequence.targets[t] = -1;
    weighted = weighted || (sequence.targets[t] >= 0 && weight != 1);
  }
  if (weighted) {
    sequence.weights.reserve(labels.size());
    sequence.weights.assign(label_weights.begin() + 1, label_weights.end());
    sequence.weights.push_back(0);
    // What isn't trained has one form only: equal records then have equal weights.
    for (size_t t = 0; t < sequence.targets.size(); ++t) {
      if (sequence.targets[t] < 0) sequence.weights[t] = 0;
    }
  }
  return sequence;
}

void TrainingSequence::CutTo(int64_t tokens) {
  if (tokens >= this->tokens()) return;
  LORICA_CHECK(tokens >= 1, "[sequence] cut to ", tokens, " tokens");
  const auto size = static_cast<size_t>(tokens);
  ids.resize(size);
  targets.resize(size);
  targets.back() = -1;
  if (weights.empty()) return;
  weights.resize(size);
  weights.back() = 0;
  for (size_t t = 0; t < size; ++t) {
    if (targets[t] >= 0 && weights[t] != 1) return;
  }
  weights.clear();
}

int64_t TrainingSequence::trained_tokens() const {
  return std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; });
}

double TrainingSequence::trained_weight() const {
  if (weights.empty()) return static_cast<double>(trained_tokens());
  double sum = 0;
  for (size_t t = 0; t < targets.size(); ++t) sum += targets[t] >= 0 ? double{weights[t]} : 0.0;
  return sum;
}

}  // namespace lorica
