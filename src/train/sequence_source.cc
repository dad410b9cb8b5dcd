#include "lorica/train/sequence_source.h"

#include <algorithm>

#include "lorica/tensor/check.h"

namespace lorica {

TrainingSequence TrainingSequence::FromLabels(std::vector<int32_t> ids,
                                              const std::vector<int32_t>& labels) {
  LORICA_CHECK(ids.size() == labels.size() && !ids.empty(), "[sequence] ", ids.size(), " ids with ",
               labels.size(), " labels");
  TrainingSequence sequence;
  sequence.ids = std::move(ids);
  sequence.targets.assign(labels.begin() + 1, labels.end());
  sequence.targets.push_back(-1);
  return sequence;
}

int64_t TrainingSequence::trained_tokens() const {
  return std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; });
}

}  // namespace lorica
