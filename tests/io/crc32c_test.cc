#include "lorica/io/crc32c.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "io_fixture.h"

namespace lorica {
namespace {

struct Way {
  const char* name;
  uint32_t (*extend)(uint32_t crc, absl::Span<const uint8_t> bytes);
};

class Crc32cTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam().extend == internal::ExtendCrc32cHardware && !internal::HasHardwareCrc32c()) {
      GTEST_SKIP() << "this CPU has no CRC instruction";
    }
  }
  uint32_t Of(absl::Span<const uint8_t> bytes) const { return GetParam().extend(0, bytes); }
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
    EXPECT_EQ(GetParam().extend(Of(all.subspan(0, cut)), all.subspan(cut)), Of(all)) << cut;
    EXPECT_EQ(Of(all.subspan(cut)), Crc32c(all.subspan(cut))) << "unaligned start " << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Crc32cTest,
                         testing::Values(Way{"Software", internal::ExtendCrc32cSoftware},
                                         Way{"Hardware", internal::ExtendCrc32cHardware}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lorica
