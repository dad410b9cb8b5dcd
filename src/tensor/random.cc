#include "lorica/tensor/random.h"

#include <cmath>

namespace lorica {

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  // Multipliers and key increments of the paper, table 2 (Weyl constants: golden ratio and sqrt(3)
  // - 1).
  constexpr uint64_t kM0 = 0xD2511F53u, kM1 = 0xCD9E8D57u;
  constexpr uint32_t kW0 = 0x9E3779B9u, kW1 = 0xBB67AE85u;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c = {
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kM0 * c[0], p1 = kM1 * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kW0;
    k1 += kW1;
  }
  return c;
}

uint64_t MixBits(uint64_t value) {
  value ^= value >> 30;
  value *= 0xBF58476D1CE4E5B9u;
  value ^= value >> 27;
  value *= 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

uint64_t CombineKeys(uint64_t a, uint64_t b) {
  return MixBits(MixBits(a + 0x9E3779B97F4A7C15u) + b);
}

uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return MixBits(hash);
}

uint64_t RandomStream::Next64() {
  const auto words = Philox(key_, position_++, 0);
  return uint64_t{words[0]} << 32 | words[1];
}

double RandomStream::Uniform() { return static_cast<double>(Next64() >> 11) * 0x1.0p-53; }

double RandomStream::Normal() {
  const auto w = Philox(key_, position_++, 0);
  // u in (0, 1], so that the logarithm is finite.
  const double u = (static_cast<double>((uint64_t{w[0]} << 32 | w[1]) >> 11) + 1.0) * 0x1.0p-53;
  const double v = static_cast<double>((uint64_t{w[2]} << 32 | w[3]) >> 11) * 0x1.0p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

uint64_t RandomStream::Below(uint64_t bound) {
  // Values under `limit` fall evenly into `bound` classes; the rest is drawn again.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  uint64_t value = Next64();
  while (value >= limit) value = Next64();
  return value % bound;
}

}  // namespace lorica
