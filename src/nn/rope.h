// Rotary position embedding: frequencies of a configuration, and the tables made from them.
// J. Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021.
#ifndef LORICA_NN_ROPE_H_
#define LORICA_NN_ROPE_H_

#include <cstdint>
#include <vector>

#include "lorica/autograd/ops.h"

namespace lorica {

// What a configuration says about rotation. A new kind of scaling is one enumerator and one
// function in rope.cc that gives its frequencies.
struct RopeConfig {
  enum class Kind { kDefault };
  Kind kind = Kind::kDefault;
  double theta = 10000;
  int64_t channels = 0;      // rotated channels of a head, even
  bool interleaved = false;  // pairs (2i, 2i + 1); else (i, i + channels / 2)

  bool operator==(const RopeConfig&) const = default;
};

// Radians per position, [channels / 2], in double. `length` is the number of positions in use
// (some kinds depend on it).
std::vector<double> InverseFrequencies(const RopeConfig& config, int64_t length);

// The table of one model, shared by its layers. Angles, cosines and sines are computed in double
// and rounded once; a value depends on its position alone, however far the table has grown. One
// thread at a time.
class Rotary {
 public:
  explicit Rotary(const RopeConfig& config);

  const RopeConfig& config() const { return config_; }
  // A table of at least `length` positions for values of type `compute`. Tensors handed out before
  // stay valid.
  const RopeTable& Table(Backend& backend, DType compute, int64_t length);

 private:
  RopeConfig config_;
  RopeTable table_;
};

}  // namespace lorica

#endif  // LORICA_NN_ROPE_H_
