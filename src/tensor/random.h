// Counter-based random numbers: a value is a pure function of its key and position, so it depends
// neither on threads, nor on the order of calls, nor on what else is in the batch.
//
// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011.
#ifndef LORICA_TENSOR_RANDOM_H_
#define LORICA_TENSOR_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace lorica {

// Four independent 32-bit words for (key, counter).
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// Spreads every bit of `value` over the result (the finaliser of SplitMix64); a bijection.
uint64_t MixBits(uint64_t value);
// An order-dependent combination of two keys.
uint64_t CombineKeys(uint64_t a, uint64_t b);
// A stable 64-bit hash of a name (FNV-1a, mixed), for keys made from module paths.
uint64_t HashName(absl::string_view name);

// A stream of values for initialisation and sampling: (seed, stream) names it, `position` counts
// values taken.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t stream) : key_(CombineKeys(seed, stream)) {}

  // Uniform in [0, 1) with 53 random bits.
  double Uniform();
  // Standard normal, by Box and Muller's transform, one value a call.
  double Normal();
  // Uniform integer in [0, bound), without bias; bound > 0.
  uint64_t Below(uint64_t bound);

 private:
  uint64_t Next64();

  uint64_t key_;
  uint64_t position_ = 0;
};

}  // namespace lorica

#endif  // LORICA_TENSOR_RANDOM_H_
