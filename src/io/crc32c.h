// CRC-32C (Castagnoli), as in iSCSI and RFC 3720: reflected polynomial 0x82F63B78, start and end
// inverted.
#ifndef LORICA_IO_CRC32C_H_
#define LORICA_IO_CRC32C_H_

#include <cstdint>

#include "absl/types/span.h"

namespace lorica {

// The checksum of bytes whose checksum so far is `crc` (0 for none) followed by `bytes`. Uses the
// CPU's instruction where it has one.
uint32_t ExtendCrc32c(uint32_t crc, absl::Span<const uint8_t> bytes);

inline uint32_t Crc32c(absl::Span<const uint8_t> bytes) { return ExtendCrc32c(0, bytes); }

namespace internal {

// The two ways to the same number, for tests. The hardware one only where HasHardwareCrc32c().
bool HasHardwareCrc32c();
uint32_t ExtendCrc32cHardware(uint32_t crc, absl::Span<const uint8_t> bytes);
uint32_t ExtendCrc32cSoftware(uint32_t crc, absl::Span<const uint8_t> bytes);

}  // namespace internal
}  // namespace lorica

#endif  // LORICA_IO_CRC32C_H_
