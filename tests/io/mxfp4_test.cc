#include "lorica/io/mxfp4.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "io_fixture.h"
#include "lorica/io/json_file.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

std::string Bytes(const Json& json, const char* key) {
  return absl::HexStringToBytes(json.at(key).get<std::string>());
}

// A scale below the normal numbers included; -0 and 0 differ.
TEST(Mxfp4Test, EqualsTransformersInEveryComputeType) {
  const auto golden = ReadJsonFile(LORICA_SOURCE_ROOT "/tests/golden/mxfp4.json");
  ASSERT_OK(golden);
  const std::string blocks = Bytes(*golden, "blocks");
  const std::string scales = Bytes(*golden, "scales");
  const std::string want = Bytes(*golden, "f32");
  const size_t count = scales.size() * kMxfp4Group;
  ASSERT_EQ(want.size(), count * sizeof(float));
  std::vector<float> f32(count);
  DequantiseMxfp4(AsBytes(blocks), AsBytes(scales), DType::kF32, f32.data());
  EXPECT_EQ(AsBytes(f32), AsBytes(want));
  std::vector<double> f64(count);
  DequantiseMxfp4(AsBytes(blocks), AsBytes(scales), DType::kF64, f64.data());
  std::vector<BF16> bf16(count);
  DequantiseMxfp4(AsBytes(blocks), AsBytes(scales), DType::kBF16, bf16.data());
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(f64[i], static_cast<double>(f32[i])) << i;
    ASSERT_EQ(static_cast<float>(bf16[i]), f32[i]) << i;  // exact
  }
}

TEST(Mxfp4Test, ScaleThatIsNoNumberGivesValuesThatAreNone) {
  std::vector<uint8_t> blocks(16, 0x20);  // 0 and 1
  std::vector<float> out(32);
  DequantiseMxfp4(blocks, std::vector<uint8_t>{255}, DType::kF32, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], std::numeric_limits<float>::infinity());
}

TEST(Mxfp4Test, ShapesMustBelongTogether) {
  EXPECT_OK(CheckMxfp4Shapes({2, 6, 3, 16}, {2, 6, 3}, "x"));
  EXPECT_EQ(CheckMxfp4Shapes({2, 6, 3, 16}, {2, 3, 6}, "x").message(),
            "x: expected MXFP4 blocks [..., rows, columns / 32, 16] with scales of the same shape "
            "without the 16, found [2, 6, 3, 16] and [2, 3, 6]");
  EXPECT_FALSE(CheckMxfp4Shapes({2, 6, 3, 8}, {2, 6, 3}, "x").ok());
  EXPECT_FALSE(CheckMxfp4Shapes({6, 16}, {6}, "x").ok());
  EXPECT_FALSE(CheckMxfp4Shapes({}, {}, "x").ok());
  std::vector<float> out(32);
  EXPECT_THROW(
      DequantiseMxfp4(std::vector<uint8_t>(15), std::vector<uint8_t>(1), DType::kF32, out.data()),
      Error);
}

}  // namespace
}  // namespace lorica
