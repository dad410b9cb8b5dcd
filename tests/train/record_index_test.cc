#include "lorica/train/record_index.h"

#include <filesystem>

#include "gtest/gtest.h"
#include "lorica/train/duplicates.h"
#include "lorica/train/length_histogram.h"
#include "train/temp_folder.h"

namespace lorica {
namespace {

constexpr int64_t kPiece = 4096;

RecordIndex Numbered(const std::string& folder, int64_t count, int64_t in_memory,
                     uint64_t different) {
  RecordIndex index(folder, in_memory);
  for (int64_t i = 0; i < count; ++i) {
    const IndexedRecord record = {.offset = 7 * i,
                                  .hash = static_cast<uint64_t>(i) % different * 0x9E3779B97F4A7C15,
                                  .number = i,
                                  .tokens = static_cast<uint32_t>(i)};
    EXPECT_TRUE(index.Append(record).ok());
  }
  return index;
}

TEST(RecordIndex, GivesWhatWasAppendedFromMemoryAndFromTheDisk) {
  TempFolder folder;
  for (const int64_t in_memory : {int64_t{0}, kPiece, 100 * kPiece}) {
    const int64_t count = 3 * kPiece + 5;
    const RecordIndex index = Numbered(folder.path(), count, in_memory, 1000);
    ASSERT_EQ(index.size(), count);
    for (const int64_t i : {int64_t{0}, kPiece - 1, kPiece, count - 6, count - 1, int64_t{17}}) {
      EXPECT_EQ(index.At(i).number, i);
      EXPECT_EQ(index.At(i).offset, 7 * i);
    }
    EXPECT_ANY_THROW(index.At(count));
    // Nothing shows in the folder while it is used.
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

TEST(RecordIndex, SaysWhereNoFileCanBeMade) {
  RecordIndex index("/nowhere/at/all", 0);
  absl::Status status;
  for (int64_t i = 0; i < kPiece && status.ok(); ++i) status = index.Append({});
  EXPECT_TRUE(absl::IsInternal(status));
}

TEST(Duplicates, AreCountedAndTheFirstAreNamed) {
  TempFolder folder;
  const RecordIndex index = Numbered(folder.path(), 10, 100, 4);
  const Duplicates found = FindDuplicates(index, 3, true);
  EXPECT_EQ(found.count, 6);
  EXPECT_EQ(found.first, (std::vector<std::pair<int64_t, int64_t>>{{4, 0}, {5, 1}, {6, 2}}));
  EXPECT_EQ(found.marks, (std::vector<bool>{0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(FindDuplicates(Numbered(folder.path(), 10, 100, 100), 3, false).count, 0);
}

TEST(Duplicates, OfAMillionEqualRecords) {
  TempFolder folder;
  const int64_t count = (int64_t{1} << 20) + 100;
  const RecordIndex index = Numbered(folder.path(), count, kPiece, 3);
  const Duplicates found = FindDuplicates(index, 2, false);
  EXPECT_EQ(found.count, count - 3);
  EXPECT_EQ(found.first, (std::vector<std::pair<int64_t, int64_t>>{{3, 0}, {4, 1}}));
}

TEST(LengthHistogram, QuantilesAreExact) {
  LengthHistogram lengths;
  EXPECT_EQ(lengths.Quantile(0.5), 0);
  EXPECT_TRUE(lengths.Bars().empty());
  for (int64_t i = 1; i <= 100; ++i) lengths.Add(i);
  EXPECT_EQ(lengths.Quantile(0.5), 50);
  EXPECT_EQ(lengths.Quantile(0.95), 95);
  EXPECT_EQ(lengths.Quantile(1), 100);
  EXPECT_EQ(lengths.longest(), 100);
}

TEST(LengthHistogram, BarsTakeEveryRecordOnceAndGiantsTogether) {
  LengthHistogram lengths;
  for (int64_t i = 0; i < 1000; ++i) lengths.Add(30 + i % 170);
  lengths.Add(1'000'000);
  const std::vector<LengthBar> bars = lengths.Bars(10);
  ASSERT_LE(bars.size(), 10u);
  ASSERT_GE(bars.size(), 5u);
  int64_t records = 0;
  for (size_t i = 0; i < bars.size(); ++i) {
    records += bars[i].records;
    if (i > 0) {
      EXPECT_EQ(bars[i].from, bars[i - 1].to + 1);
    }
  }
  EXPECT_EQ(records, 1001);
  EXPECT_EQ(bars.front().from, 30);
  EXPECT_EQ(bars.back().to, 1'000'000);
  EXPECT_LT(bars[0].records, 500);

  LengthHistogram one;
  one.Add(5);
  ASSERT_EQ(one.Bars().size(), 1u);
  EXPECT_EQ(one.Bars()[0].from, 5);
  EXPECT_EQ(one.Bars()[0].to, 5);
}

}  // namespace
}  // namespace lorica
