// Rotary position embedding: frequencies of a configuration, and the tables made from them.
// J. Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021.
#ifndef LORICA_NN_ROPE_H_
#define LORICA_NN_ROPE_H_

#include <cstdint>
#include <vector>

#include "lorica/autograd/ops.h"
#include "lorica/nn/forward_context.h"

namespace lorica {

// What a configuration says about rotation. With f = theta^(-2i / channels) for pair i, L the
// original positions and s the factor:
//   kDefault   f
//   kLinear    f / s
//   kDynamic   f of a theta that grows with the sequence from L positions on
//   kLlama3    f where a turn takes less than L / high positions, f / s where it takes more than
//              L / low, a blend between
//   kYarn      f for pairs that turn more than beta_fast times in L positions, f / s for those
//              below beta_slow, a blend between. B. Peng et al., "YaRN", 2023
//   kLongRope  f / short_factors[i] in sequences of at most L positions, f / long_factors[i] in
//              longer ones. Y. Ding et al., "LongRoPE", 2024
// A new kind is one enumerator and one function in rope.cc that gives its frequencies.
struct RopeConfig {
  enum class Kind { kDefault, kLinear, kDynamic, kLlama3, kYarn, kLongRope };
  Kind kind = Kind::kDefault;
  double theta = 10000;
  int64_t channels = 0;      // rotated channels of a head, even, the first ones
  bool interleaved = false;  // pairs (2i, 2i + 1); else (i, i + channels / 2)

  double factor = 1;
  int64_t original_positions = 0;
  double attention_factor = 1;  // of cosines and sines: kYarn, kLongRope
  double mscale_all_dim = 0;    // kYarn: latent attention scales its scores by it; 0: it doesn't
  double low_frequency_factor = 1, high_frequency_factor = 4;
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;                             // kYarn: whole pairs begin and end the blend
  std::vector<double> short_factors, long_factors;  // [channels / 2]

  bool operator==(const RopeConfig&) const = default;
};

// Radians per position, [channels / 2], in double, in a sequence of `length` positions (which only
// kDynamic and kLongRope look at).
std::vector<double> InverseFrequencies(const RopeConfig& config, int64_t length);

// A table and each token's row in it.
struct RotaryRows {
  RopeTable table;
  absl::Span<const int32_t> rows;  // [T]; valid until the next call of Rotary
};

// The tables of one model, shared by its layers. Angles, cosines and sines are computed in double
// and rounded once. A value depends on its position alone, however far the table has grown; with
// kDynamic and kLongRope on the length of its own sequence besides, never on other sequences of the
// batch. (Keys in a KvCache stay as they were rotated when the sequence was shorter.) One thread at
// a time.
class Rotary {
 public:
  explicit Rotary(const RopeConfig& config);

  const RopeConfig& config() const { return config_; }
  // For the tokens of a pass, values of type `compute`.
  RotaryRows Rows(Backend& backend, DType compute, const ForwardContext& context);
  // A table of at least `length` positions for sequences of up to the original positions. Tensors
  // handed out before stay valid.
  const RopeTable& Table(Backend& backend, DType compute, int64_t length);

 private:
  // The shortest length with the frequencies that `length` has.
  int64_t Regime(int64_t length) const;

  RopeConfig config_;
  RopeTable table_;
  // The last pass that had longer sequences: a row per token.
  std::vector<int32_t> pass_positions_, pass_offsets_, pass_rows_;
  RopeTable pass_table_;
};

}  // namespace lorica

#endif  // LORICA_NN_ROPE_H_
