// Which records an epoch takes, and in which order.
#ifndef LORICA_TRAIN_EPOCH_ORDER_H_
#define LORICA_TRAIN_EPOCH_ORDER_H_

#include <cstdint>
#include <vector>

namespace lorica {

// Records [begin, end) of a data set, each taken `weight` times an epoch on average: the whole part
// of the weight says how often every one is taken, and a share as large as its fraction is taken
// once more.
struct MixturePart {
  int64_t begin = 0;
  int64_t end = 0;
  double weight = 1;

  int64_t records() const { return end - begin; }
  // Taken in an epoch, in each the same number: weight * records, rounded.
  int64_t taken() const;
};

// Four bytes each: of a large data set this is what stays in memory.
using RecordNumbers = std::vector<uint32_t>;

// A permutation of 0, 1, 2, ..., `count` - 1 drawn for (seed, epoch), or these numbers as they are.
RecordNumbers EpochOrder(int64_t count, bool shuffle, uint64_t seed, int64_t epoch);

// The records of an epoch of a mixture: those of all parts, shuffled together, or part after part
// in their order. The share that a fraction takes moves on with the epochs through an order drawn
// for the seed, so that all records have been taken equally often as soon as that can be.
RecordNumbers EpochOrder(const std::vector<MixturePart>& parts, bool shuffle, uint64_t seed,
                         int64_t epoch);

// Records of an epoch. Throws Error for more than 2^32 - 1.
int64_t EpochLength(const std::vector<MixturePart>& parts);

}  // namespace lorica

#endif  // LORICA_TRAIN_EPOCH_ORDER_H_
