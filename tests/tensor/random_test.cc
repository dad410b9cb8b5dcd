#include "lorica/tensor/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace lorica {
namespace {

// Known answers of the authors' Random123 distribution for philox4x32-10.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(KeysTest, OrderAndBitsMatter) {
  EXPECT_NE(CombineKeys(1, 2), CombineKeys(2, 1));
  EXPECT_NE(CombineKeys(0, 0), CombineKeys(0, 1));
  std::set<uint64_t> seen;
  for (uint64_t a = 0; a < 100; ++a) {
    for (uint64_t b = 0; b < 100; ++b) seen.insert(CombineKeys(a, b));
  }
  EXPECT_EQ(seen.size(), 10000u);
}

TEST(KeysTest, NamesHashStably) {
  EXPECT_EQ(HashName("model.layers.0"), HashName("model.layers.0"));
  EXPECT_NE(HashName("model.layers.0"), HashName("model.layers.1"));
  EXPECT_NE(HashName(""), HashName("a"));
  // FNV-1a of "a", mixed: the value is part of what a seed means.
  EXPECT_EQ(HashName("a"), MixBits(0xAF63DC4C8601EC8Cu));
}

TEST(RandomStreamTest, SeedAndStreamNameTheValues) {
  RandomStream a(1, 2), same(1, 2), other_stream(1, 3), other_seed(2, 2);
  const double first = a.Uniform();
  EXPECT_EQ(first, same.Uniform());
  EXPECT_NE(first, other_stream.Uniform());
  EXPECT_NE(first, other_seed.Uniform());
  EXPECT_NE(first, a.Uniform());
}

TEST(RandomStreamTest, UniformHasTheMomentsOfItsDistribution) {
  RandomStream stream(7, 0);
  constexpr int kCount = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = stream.Uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  // Five standard deviations of the mean.
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
}

TEST(RandomStreamTest, NormalHasTheMomentsOfItsDistribution) {
  RandomStream stream(7, 1);
  constexpr int kCount = 100000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = stream.Normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 5 * std::sqrt(1.0 / kCount));
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(fourth / kCount, 3, 5 * std::sqrt(96.0 / kCount));
}

TEST(RandomStreamTest, BelowCoversItsRangeEvenly) {
  RandomStream stream(3, 4);
  std::vector<int> count(7);
  constexpr int kCount = 70000;
  for (int i = 0; i < kCount; ++i) {
    const uint64_t value = stream.Below(7);
    ASSERT_LT(value, 7u);
    ++count[value];
  }
  for (int c : count) EXPECT_NEAR(c, kCount / 7, 5 * std::sqrt(kCount / 7.0));
  EXPECT_EQ(stream.Below(1), 0u);
}

}  // namespace
}  // namespace lorica
