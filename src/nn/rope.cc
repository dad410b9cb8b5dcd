#include "lorica/nn/rope.h"

#include <algorithm>
#include <cmath>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

std::vector<double> DefaultFrequencies(const RopeConfig& config) {
  const int64_t half = config.channels / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(config.channels);
    frequencies[i] = std::pow(config.theta, -exponent);
  }
  return frequencies;
}

template <typename T>
RopeTable MakeTable(Backend& backend, const std::vector<double>& frequencies, int64_t length) {
  const int64_t half = static_cast<int64_t>(frequencies.size());
  std::vector<T> cosines(static_cast<size_t>(length * half)), sines(cosines.size());
  for (int64_t p = 0; p < length; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      cosines[p * half + i] = static_cast<T>(std::cos(angle));
      sines[p * half + i] = static_cast<T>(std::sin(angle));
    }
  }
  RopeTable table;
  table.cos = Tensor::FromHost<T>(backend, {length, half}, cosines);
  table.sin = Tensor::FromHost<T>(backend, {length, half}, sines);
  return table;
}

}  // namespace

std::vector<double> InverseFrequencies(const RopeConfig& config, int64_t length) {
  switch (config.kind) {
    case RopeConfig::Kind::kDefault:
      return DefaultFrequencies(config);
  }
  Fail("[rope] unknown kind");
}

Rotary::Rotary(const RopeConfig& config) : config_(config) {
  LORICA_CHECK(config.channels > 0 && config.channels % 2 == 0,
               "[rope] an even number of channels expected, found ", config.channels);
}

const RopeTable& Rotary::Table(Backend& backend, DType compute, int64_t length) {
  const DType type = AccumulatorOf(compute);
  const bool usable = table_.cos.defined() && table_.cos.dtype() == type &&
                      &table_.cos.backend() == &backend && table_.cos.dim(0) >= length;
  if (usable) return table_;
  // Doubling: decoding adds one position at a time.
  int64_t capacity = 256;
  while (capacity < length) capacity *= 2;
  const std::vector<double> frequencies = InverseFrequencies(config_, length);
  table_ = type == DType::kF64 ? MakeTable<double>(backend, frequencies, capacity)
                               : MakeTable<float>(backend, frequencies, capacity);
  table_.interleaved = config_.interleaved;
  return table_;
}

}  // namespace lorica
