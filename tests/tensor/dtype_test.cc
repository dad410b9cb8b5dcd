#include "lorica/tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace lorica {
namespace {

TEST(DTypeTest, SizesNamesAndAccumulators) {
  EXPECT_EQ(SizeOf(DType::kF32), 4u);
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kF64), 8u);
  EXPECT_EQ(SizeOf(DType::kBool), 1u);
  EXPECT_EQ(Name(DType::kBF16), "bf16");
  EXPECT_EQ(AccumulatorOf(DType::kBF16), DType::kF32);
  EXPECT_EQ(AccumulatorOf(DType::kF64), DType::kF64);
  EXPECT_TRUE(IsCompute(DType::kF64));
  EXPECT_FALSE(IsCompute(DType::kF16));
}

TEST(BF16Test, EveryValueSurvivesF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    BF16 value;
    value.bits = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(BF16(wide))));
    } else {
      ASSERT_EQ(BF16(wide).bits, bits);
    }
  }
}

TEST(BF16Test, RoundsToNearestTiesToEven) {
  const auto bits = [](uint32_t f32) { return BF16(std::bit_cast<float>(f32)).bits; };
  EXPECT_EQ(bits(0x3F807FFF), 0x3F80);
  EXPECT_EQ(bits(0x3F808000), 0x3F80);
  EXPECT_EQ(bits(0x3F808001), 0x3F81);
  EXPECT_EQ(bits(0x3F818000), 0x3F82);
  EXPECT_EQ(bits(0x7F7FFFFF), 0x7F80);  // rounds to infinity
  EXPECT_EQ(bits(0xFF800000), 0xFF80);
  EXPECT_EQ(bits(0x7F800001) & 0x7FC0, 0x7FC0);  // a NaN whose payload lies in the lost half
}

TEST(HalfTest, EveryValueSurvivesF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float wide = HalfToFloat(half);
    if (std::isnan(wide)) {
      EXPECT_EQ(half & 0x7C00, 0x7C00);
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(wide))));
    } else {
      ASSERT_EQ(FloatToHalf(wide), half);
    }
  }
}

TEST(HalfTest, KnownValues) {
  EXPECT_EQ(HalfToFloat(0x3C00), 1.0f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x7BFF), 65504.0f);
  EXPECT_EQ(HalfToFloat(0xFC00), -INFINITY);
}

TEST(HalfTest, RoundsToNearestTiesToEven) {
  EXPECT_EQ(FloatToHalf(1 + 0x1p-11f), 0x3C00);
  EXPECT_EQ(FloatToHalf(1 + 0x3p-11f), 0x3C02);
  EXPECT_EQ(FloatToHalf(1 + 0x1p-11f + 0x1p-20f), 0x3C01);
  EXPECT_EQ(FloatToHalf(65519.f), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.f), 0x7C00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);  // a tie between 0 and the smallest
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToHalf(-0x3p-25f), 0x8002);
}

}  // namespace
}  // namespace lorica
