#include "lorica/train/length_histogram.h"

#include <algorithm>
#include <cmath>

namespace lorica {
namespace {

// The first of 1, 2, 5, 10, 20, 50, ... that is at least `width`.
int64_t RoundWidth(int64_t width) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t lead : {1, 2, 5}) {
      if (lead * power >= width) return lead * power;
    }
  }
}

}  // namespace

int64_t LengthHistogram::records() const {
  int64_t records = 0;
  for (const auto& [length, count] : counts_) records += count;
  return records;
}

int64_t LengthHistogram::Quantile(double share) const {
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(records())));
  int64_t seen = 0;
  for (const auto& [length, count] : counts_) {
    seen += count;
    if (seen >= wanted) return length;
  }
  return 0;
}

std::vector<LengthBar> LengthHistogram::Bars(int most) const {
  if (counts_.empty()) return {};
  const int64_t shortest = counts_.begin()->first;
  // A few giants must not squeeze all others into one bar.
  const int64_t usual = std::min(longest(), 2 * Quantile(0.95));
  const int64_t width = RoundWidth(std::max<int64_t>(1, (usual - shortest) / (most - 1) + 1));
  const int64_t begin = shortest / width * width;
  std::vector<LengthBar> bars;
  for (int i = 0; i < most && begin + i * width <= longest(); ++i) {
    bars.push_back({begin + i * width, begin + (i + 1) * width - 1, 0});
  }
  bars.front().from = shortest;
  bars.back().to = std::max(bars.back().from, longest());
  for (const auto& [length, count] : counts_) {
    const int64_t bar = (length - begin) / width;
    bars[std::min(bar, static_cast<int64_t>(bars.size()) - 1)].records += count;
  }
  return bars;
}

}  // namespace lorica
