#include "lorica/io/crc32c.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "io_fixture.h"

namespace lorica {
namespace {

using Extend = uint32_t (*)(uint32_t, absl::Span<const uint8_t>);

class Crc32cTest : public testing::TestWithParam<std::pair<const char*, Extend>> {
 protected:
  void SetUp() override {
    if (GetParam().second == internal::ExtendCrc32cHardware && !internal::HasHardwareCrc32c()) {
      GTEST_SKIP() << "this CPU has no CRC instruction";
    }
  }
  uint32_t Of(absl::Span<const uint8_t> bytes) const { return GetParam().second(0, bytes); }
};

// RFC 3720, B.4, and the check value of the polynomial's catalogue entry.
TEST_P(Crc32cTest, KnownVectors) {
  EXPECT_EQ(Of({}), 0u);
  EXPECT_EQ(Of(AsBytes("123456789")), 0xE3069283u);
  EXPECT_EQ(Of(std::vector<uint8_t>(32, 0)), 0x8A9136AAu);
  EXPECT_EQ(Of(std::vector<uint8_t>(32, 0xFF)), 0x62A8AB43u);
  std::vector<uint8_t> rising(32);
  std::iota(rising.begin(), rising.end(), 0);
  EXPECT_EQ(Of(rising), 0x46DD794Eu);
  EXPECT_EQ(Of(std::vector<uint8_t>(rising.rbegin(), rising.rend())), 0x113FDB5Cu);
}

TEST_P(Crc32cTest, ExtendingEqualsWhole) {
  std::vector<uint8_t> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i + 3 * i);
  const absl::Span<const uint8_t> all = bytes;
  for (size_t cut : {0, 1, 7, 8, 9, 500, 999, 1000}) {
    EXPECT_EQ(GetParam().second(Of(all.subspan(0, cut)), all.subspan(cut)), Of(all)) << cut;
    EXPECT_EQ(Of(all.subspan(cut)), Crc32c(all.subspan(cut))) << "unaligned start " << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Crc32cTest,
                         testing::Values(std::pair("Software", internal::ExtendCrc32cSoftware),
                                         std::pair("Hardware", internal::ExtendCrc32cHardware)),
                         [](const auto& test) { return std::string(test.param.first); });

}  // namespace
}  // namespace lorica
