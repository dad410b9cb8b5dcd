// How long the records of a data set are.
#ifndef LORICA_TRAIN_LENGTH_HISTOGRAM_H_
#define LORICA_TRAIN_LENGTH_HISTOGRAM_H_

#include <cstdint>
#include <map>
#include <vector>

namespace lorica {

// Records of `from` to `to` tokens, both included.
struct LengthBar {
  int64_t from = 0;
  int64_t to = 0;
  int64_t records = 0;
};

// Exact counts. Memory grows with the number of different lengths, which is small: that many
// records of all lengths have half its square of tokens.
class LengthHistogram {
 public:
  void Add(int64_t tokens) { ++counts_[tokens]; }

  int64_t records() const;
  int64_t longest() const { return counts_.empty() ? 0 : counts_.rbegin()->first; }
  // The smallest length that `share` of the records don't exceed: 0.5 gives the median.
  int64_t Quantile(double share) const;
  // At most `most` bars of equal, round width; the last one takes what is far beyond the rest.
  std::vector<LengthBar> Bars(int most = 12) const;

 private:
  std::map<int64_t, int64_t> counts_;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_LENGTH_HISTOGRAM_H_
