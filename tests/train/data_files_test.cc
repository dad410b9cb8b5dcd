#include "lorica/train/data_files.h"

#include "gmock/gmock.h"
#include "train/text_fixture.h"

namespace lorica {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MATCHER_P2(FileOf, path, weight, "") { return arg.path == path && arg.weight == weight; }

class DataFilesTest : public TextFixture {};

TEST_F(DataFilesTest, FoldersHaveTrainValidAndTestFiles) {
  EXPECT_TRUE(absl::IsNotFound(FindDataFiles({folder_}).status()));
  EXPECT_TRUE(absl::IsNotFound(FindDataFiles({folder_ + "/absent"}).status()));
  const std::string train = Write("d/train.json", "[]");
  const std::string valid = Write("d/validation.jsonl.zst", "");
  const std::string test = Write("d/test.jsonl", "");
  const std::string other = Write("other.jsonl", "");
  const auto files = FindDataFiles({folder_ + "/d", other});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->train, ElementsAre(FileOf(train, 1), FileOf(other, 1)));
  EXPECT_THAT(files->valid, ElementsAre(valid));
  EXPECT_THAT(files->test, ElementsAre(test));

  EXPECT_THAT(*FindHeldOutFiles({folder_ + "/d", other}), ElementsAre(valid, other));
  EXPECT_THAT(*FindPlainFiles({folder_ + "/d", other}), ElementsAre(train, other));
  std::filesystem::remove(valid);
  EXPECT_THAT(*FindHeldOutFiles({folder_ + "/d"}), ElementsAre(test));
}

TEST_F(DataFilesTest, AFolderWithTwoTrainFilesIsRefused) {
  Write("train.jsonl", "");
  Write("train.jsonl.gz", "");
  const absl::Status status = FindDataFiles({folder_}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("train.jsonl and train.jsonl.gz"));
}

TEST_F(DataFilesTest, PatternsNameFilesInTheOrderOfTheirNames) {
  const std::string b = Write("b.jsonl", ""), a = Write("a.jsonl", ""), c = Write("c.json", "");
  Write("x.jsonl/inside", "");  // a folder that matches
  auto files = FindDataFiles({folder_ + "/*.jsonl@2"});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->train, ElementsAre(FileOf(a, 2), FileOf(b, 2)));
  EXPECT_THAT(FindDataFiles({folder_ + "/[bc].*"})->train, ElementsAre(FileOf(b, 1), FileOf(c, 1)));
  EXPECT_TRUE(absl::IsNotFound(FindDataFiles({folder_ + "/*.txt"}).status()));
  // A name that exists is no pattern.
  const std::string odd = Write("[ab].jsonl", "");
  EXPECT_THAT(FindDataFiles({odd})->train, ElementsAre(FileOf(odd, 1)));
}

TEST_F(DataFilesTest, WeightsStandBehindNames) {
  const std::string a = Write("a.jsonl", "");
  EXPECT_THAT(FindDataFiles({a + "@0.25"})->train, ElementsAre(FileOf(a, 0.25)));
  for (const char* wrong : {"@0", "@-1", "@nan", "@inf", "@1e9"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FindDataFiles({a + wrong}).status())) << wrong;
  }
  EXPECT_TRUE(absl::IsNotFound(FindDataFiles({a + "@x"}).status()));
  // A name that exists is taken as it stands.
  const std::string odd = Write("a@2", "");
  EXPECT_THAT(FindDataFiles({odd})->train, ElementsAre(FileOf(odd, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(FindHeldOutFiles({a + "@2"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(FindPlainFiles({a + "@2"}).status()));
}

}  // namespace
}  // namespace lorica
