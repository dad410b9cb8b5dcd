#include "lorica/train/epoch_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "lorica/tensor/check.h"
#include "lorica/tensor/random.h"

namespace lorica {
namespace {

void Shuffle(RecordNumbers& numbers, uint64_t key, uint64_t stream) {
  RandomStream random(key, stream);
  for (size_t i = numbers.size(); i-- > 1;) {
    std::swap(numbers[i], numbers[random.Below(i + 1)]);
  }
}

// The records that a part takes once more in an epoch, ascending: a window over its records in
// drawn order, which goes on where that of the epoch before ended.
RecordNumbers MoreOf(const MixturePart& part, int64_t count, uint64_t seed, int64_t epoch) {
  RecordNumbers drawn(static_cast<size_t>(part.records()));
  std::iota(drawn.begin(), drawn.end(), static_cast<uint32_t>(part.begin));
  Shuffle(drawn, CombineKeys(seed, HashName("mixture")), static_cast<uint64_t>(part.begin));
  const auto size = static_cast<uint64_t>(drawn.size());
  // Products of two numbers below 2^32: no overflow.
  const uint64_t begin = static_cast<uint64_t>(epoch) % size * static_cast<uint64_t>(count) % size;
  RecordNumbers window;
  window.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
    window.push_back(drawn[(begin + i) % size]);
  }
  std::sort(window.begin(), window.end());
  return window;
}

}  // namespace

int64_t MixturePart::taken() const { return std::llround(weight * static_cast<double>(records())); }

RecordNumbers EpochOrder(int64_t count, bool shuffle, uint64_t seed, int64_t epoch) {
  return EpochOrder({{0, count, 1}}, shuffle, seed, epoch);
}

RecordNumbers EpochOrder(const std::vector<MixturePart>& parts, bool shuffle, uint64_t seed,
                         int64_t epoch) {
  RecordNumbers order;
  order.reserve(static_cast<size_t>(EpochLength(parts)));
  for (const MixturePart& part : parts) {
    if (part.records() == 0) continue;
    const int64_t whole = part.taken() / part.records();
    const int64_t more = part.taken() % part.records();
    for (int64_t i = 0; i < whole; ++i) {
      for (int64_t record = part.begin; record < part.end; ++record) {
        order.push_back(static_cast<uint32_t>(record));
      }
    }
    if (more == 0) continue;
    const RecordNumbers window = MoreOf(part, more, seed, epoch);
    order.insert(order.end(), window.begin(), window.end());
  }
  if (shuffle) {
    Shuffle(order, CombineKeys(seed, HashName("record order")), static_cast<uint64_t>(epoch));
  }
  return order;
}

int64_t EpochLength(const std::vector<MixturePart>& parts) {
  int64_t length = 0;
  for (const MixturePart& part : parts) {
    length += part.taken();
    LORICA_CHECK(length <= std::numeric_limits<uint32_t>::max(), "[mixture] an epoch of ", length,
                 " records, at most 2^32 - 1");
  }
  return length;
}

}  // namespace lorica
