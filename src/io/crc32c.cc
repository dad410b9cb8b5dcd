#include "lorica/io/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace lorica {
namespace internal {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;

// kTables[k][b]: the effect of byte b followed by k zero bytes, so that eight bytes are eight
// independent look-ups.
constexpr std::array<std::array<uint32_t, 256>, 8> MakeTables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? kPolynomial : 0u);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (uint32_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 0xFFu];
    }
  }
  return tables;
}
constexpr auto kTables = MakeTables();

}  // namespace

uint32_t ExtendCrc32cSoftware(uint32_t crc, absl::Span<const uint8_t> bytes) {
  crc = ~crc;
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint32_t low;
    std::memcpy(&low, at, sizeof(low));
    low ^= crc;
    crc = kTables[7][low & 0xFFu] ^ kTables[6][(low >> 8) & 0xFFu] ^
          kTables[5][(low >> 16) & 0xFFu] ^ kTables[4][low >> 24] ^ kTables[3][at[4]] ^
          kTables[2][at[5]] ^ kTables[1][at[6]] ^ kTables[0][at[7]];
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xFFu];
  return ~crc;
}

#if defined(__x86_64__)

bool HasHardwareCrc32c() { return __builtin_cpu_supports("sse4.2") != 0; }

// One dependent chain: 8 bytes in 3 cycles, about 8 GB/s at 3 GHz, beyond any disk. Three
// interleaved chains would need a combining step for nothing.
__attribute__((target("sse4.2"))) uint32_t ExtendCrc32cHardware(uint32_t crc,
                                                                absl::Span<const uint8_t> bytes) {
  uint64_t state = static_cast<uint32_t>(~crc);
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    state = _mm_crc32_u64(state, word);
  }
  uint32_t tail = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++at) tail = _mm_crc32_u8(tail, *at);
  return ~tail;
}

#else

bool HasHardwareCrc32c() { return false; }

uint32_t ExtendCrc32cHardware(uint32_t crc, absl::Span<const uint8_t> bytes) {
  return ExtendCrc32cSoftware(crc, bytes);
}

#endif

}  // namespace internal

uint32_t ExtendCrc32c(uint32_t crc, absl::Span<const uint8_t> bytes) {
  return internal::HasHardwareCrc32c() ? internal::ExtendCrc32cHardware(crc, bytes)
                                       : internal::ExtendCrc32cSoftware(crc, bytes);
}

}  // namespace lorica
