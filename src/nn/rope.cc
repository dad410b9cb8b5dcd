#include "lorica/nn/rope.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

constexpr double kPi = 3.14159265358979323846;

std::vector<double> DefaultFrequencies(const RopeConfig& config, double theta) {
  const int64_t half = config.channels / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(config.channels);
    frequencies[i] = std::pow(theta, -exponent);
  }
  return frequencies;
}

// The base that spreads `length` positions as the original one spreads original_positions.
double DynamicTheta(const RopeConfig& config, int64_t length) {
  const double ratio = static_cast<double>(std::max(length, config.original_positions)) /
                       static_cast<double>(config.original_positions);
  const double stretch = config.factor * ratio - (config.factor - 1);
  const double channels = static_cast<double>(config.channels);
  return config.theta * std::pow(stretch, channels / (channels - 2));
}

double Llama3Frequency(const RopeConfig& config, double frequency) {
  const double turns = static_cast<double>(config.original_positions) * frequency / (2 * kPi);
  const double low = config.low_frequency_factor, high = config.high_frequency_factor;
  if (turns > high) return frequency;
  if (turns < low) return frequency / config.factor;
  const double smooth = (turns - low) / (high - low);
  return (1 - smooth) * frequency / config.factor + smooth * frequency;
}

// The pair, as a real number, that turns so often in the original positions.
double YarnPair(const RopeConfig& config, double turns) {
  const double positions = static_cast<double>(config.original_positions);
  return static_cast<double>(config.channels) * std::log(positions / (turns * 2 * kPi)) /
         (2 * std::log(config.theta));
}

std::vector<double> YarnFrequencies(const RopeConfig& config) {
  double first = YarnPair(config, config.beta_fast), last = YarnPair(config, config.beta_slow);
  if (config.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(config.channels - 1));
  if (first == last) last += 0.001;
  std::vector<double> frequencies = DefaultFrequencies(config, config.theta);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    frequencies[i] = frequencies[i] / config.factor * ramp + frequencies[i] * (1 - ramp);
  }
  return frequencies;
}

// Rows of cosines and sines, made one by one.
template <typename T>
class TableMaker {
 public:
  TableMaker(int64_t rows, int64_t half, double scale)
      : rows_(rows), half_(half), scale_(scale), cosines_(static_cast<size_t>(rows * half)) {
    sines_.resize(cosines_.size());
  }
  void SetRow(int64_t row, int64_t position, const std::vector<double>& frequencies) {
    for (int64_t i = 0; i < half_; ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      cosines_[row * half_ + i] = static_cast<T>(std::cos(angle) * scale_);
      sines_[row * half_ + i] = static_cast<T>(std::sin(angle) * scale_);
    }
  }
  RopeTable Finish(Backend& backend, bool interleaved) const {
    RopeTable table;
    table.cos = Tensor::FromHost<T>(backend, {rows_, half_}, cosines_);
    table.sin = Tensor::FromHost<T>(backend, {rows_, half_}, sines_);
    table.interleaved = interleaved;
    return table;
  }

 private:
  int64_t rows_, half_;
  double scale_;
  std::vector<T> cosines_, sines_;
};

template <typename Fill>
RopeTable MakeTable(Backend& backend, DType type, const RopeConfig& config, int64_t rows,
                    const Fill& fill) {
  const auto make = [&](auto maker) {
    fill(maker);
    return maker.Finish(backend, config.interleaved);
  };
  const int64_t half = config.channels / 2;
  return type == DType::kF64 ? make(TableMaker<double>(rows, half, config.attention_factor))
                             : make(TableMaker<float>(rows, half, config.attention_factor));
}

bool Serves(const RopeTable& table, Backend& backend, DType type, int64_t rows) {
  return table.cos.defined() && table.cos.dtype() == type && &table.cos.backend() == &backend &&
         table.cos.dim(0) >= rows;
}

}  // namespace

std::vector<double> InverseFrequencies(const RopeConfig& config, int64_t length) {
  using Kind = RopeConfig::Kind;
  const double theta = config.kind == Kind::kDynamic ? DynamicTheta(config, length) : config.theta;
  std::vector<double> frequencies = DefaultFrequencies(config, theta);
  switch (config.kind) {
    case Kind::kDefault:
    case Kind::kDynamic:
      return frequencies;
    case Kind::kLinear:
      for (double& f : frequencies) f /= config.factor;
      return frequencies;
    case Kind::kLlama3:
      for (double& f : frequencies) f = Llama3Frequency(config, f);
      return frequencies;
    case Kind::kYarn:
      return YarnFrequencies(config);
    case Kind::kLongRope: {
      const bool is_long = length > config.original_positions;
      const std::vector<double>& factors = is_long ? config.long_factors : config.short_factors;
      for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= factors[i];
      return frequencies;
    }
  }
  Fail("[rope] unknown kind");
}

Rotary::Rotary(const RopeConfig& config) : config_(config) {
  LORICA_CHECK(config.channels > 0 && config.channels % 2 == 0,
               "[rope] an even number of channels expected, found ", config.channels);
}

int64_t Rotary::Regime(int64_t length) const {
  const int64_t original = config_.original_positions;
  if (length <= original) return 0;
  if (config_.kind == RopeConfig::Kind::kDynamic) return length;
  if (config_.kind == RopeConfig::Kind::kLongRope &&
      config_.short_factors != config_.long_factors) {
    return original + 1;
  }
  return 0;
}

const RopeTable& Rotary::Table(Backend& backend, DType compute, int64_t length) {
  const DType type = AccumulatorOf(compute);
  if (Serves(table_, backend, type, length)) return table_;
  // Doubling: decoding adds one position at a time.
  int64_t capacity = 256;
  while (capacity < length) capacity *= 2;
  const std::vector<double> frequencies = InverseFrequencies(config_, 0);
  table_ = MakeTable(backend, type, config_, capacity, [&](auto& maker) {
    for (int64_t p = 0; p < capacity; ++p) maker.SetRow(p, p, frequencies);
  });
  return table_;
}

RotaryRows Rotary::Rows(Backend& backend, DType compute, const ForwardContext& context) {
  const std::vector<int32_t>& positions = context.positions;
  const Sequences& sequences = context.sequences;
  std::vector<int64_t> regimes(static_cast<size_t>(sequences.groups()), 0);
  int64_t longest = 0;
  bool plain = true;
  for (int s = 0; s < sequences.groups(); ++s) {
    if (sequences.size(s) == 0) continue;
    const auto begin = positions.begin() + sequences.begin(s);
    const int64_t length = 1 + *std::max_element(begin, begin + sequences.size(s));
    longest = std::max(longest, length);
    regimes[s] = Regime(length);
    plain = plain && regimes[s] == 0;
  }
  if (plain) return {Table(backend, compute, longest), positions};

  const DType type = AccumulatorOf(compute);
  const int64_t tokens = sequences.rows();
  const bool same_pass = pass_positions_ == positions && pass_offsets_ == sequences.offsets &&
                         Serves(pass_table_, backend, type, tokens);
  if (!same_pass) {
    std::map<int64_t, std::vector<double>> frequencies;
    for (int64_t regime : regimes) {
      if (frequencies.count(regime) == 0) {
        frequencies[regime] = InverseFrequencies(config_, regime);
      }
    }
    pass_table_ = MakeTable(backend, type, config_, tokens, [&](auto& maker) {
      for (int s = 0; s < sequences.groups(); ++s) {
        for (int64_t t = sequences.begin(s); t < sequences.offsets[s + 1]; ++t) {
          maker.SetRow(t, positions[t], frequencies.at(regimes[s]));
        }
      }
    });
    pass_positions_ = positions;
    pass_offsets_ = sequences.offsets;
    pass_rows_.resize(static_cast<size_t>(tokens));
    std::iota(pass_rows_.begin(), pass_rows_.end(), 0);
  }
  return {pass_table_, pass_rows_};
}

}  // namespace lorica
