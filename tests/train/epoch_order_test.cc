#include "lorica/train/epoch_order.h"

#include <algorithm>
#include <map>
#include <set>

#include "gtest/gtest.h"

namespace lorica {
namespace {

std::map<uint32_t, int> Counts(const RecordNumbers& order) {
  std::map<uint32_t, int> counts;
  for (const uint32_t record : order) ++counts[record];
  return counts;
}

TEST(EpochOrder, IsAPermutationOfItsOwnForEverySeedAndEpoch) {
  EXPECT_EQ(EpochOrder(4, false, 1, 5), (RecordNumbers{0, 1, 2, 3}));
  std::set<RecordNumbers> orders;
  for (uint64_t seed : {1, 2}) {
    for (int64_t epoch : {0, 1, 2}) {
      RecordNumbers order = EpochOrder(20, true, seed, epoch);
      EXPECT_EQ(order, EpochOrder(20, true, seed, epoch));
      orders.insert(order);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, EpochOrder(20, false, seed, epoch));
    }
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST(EpochOrder, AMixtureOfWeightOneIsTheOrderWithoutOne) {
  EXPECT_EQ(EpochOrder({{0, 7, 1}, {7, 20, 1}}, true, 3, 2), EpochOrder(20, true, 3, 2));
}

TEST(EpochOrder, WholePartsRepeatAndFractionsTakeAShare) {
  const std::vector<MixturePart> parts = {{0, 10, 0.3}, {10, 14, 2}, {14, 18, 1.5}};
  EXPECT_EQ(EpochLength(parts), 3 + 8 + 6);
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    const RecordNumbers order = EpochOrder(parts, true, 1, epoch);
    EXPECT_EQ(static_cast<int64_t>(order.size()), EpochLength(parts));
    EXPECT_EQ(order, EpochOrder(parts, true, 1, epoch));
    int first = 0, third = 0;
    for (const auto& [record, count] : Counts(order)) {
      if (record < 10) {
        EXPECT_EQ(count, 1) << record;
        ++first;
      } else if (record < 14) {
        EXPECT_EQ(count, 2) << record;
      } else {
        EXPECT_TRUE(count == 1 || count == 2) << record;
        third += count == 2 ? 1 : 0;
      }
    }
    EXPECT_EQ(first, 3);
    EXPECT_EQ(third, 2);
  }
}

TEST(EpochOrder, FractionsComeToEveryRecordInTurn) {
  const std::vector<MixturePart> parts = {{5, 15, 0.3}};
  std::map<uint32_t, int> counts;
  std::set<RecordNumbers> orders;
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    const RecordNumbers order = EpochOrder(parts, false, 9, epoch);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    orders.insert(order);
    for (const uint32_t record : order) ++counts[record];
  }
  EXPECT_EQ(orders.size(), 10u);
  ASSERT_EQ(counts.size(), 10u);
  for (const auto& [record, count] : counts) EXPECT_EQ(count, 3) << record;
  EXPECT_NE(EpochOrder(parts, false, 9, 0), EpochOrder(parts, false, 8, 0));
}

}  // namespace
}  // namespace lorica
