#include "lorica/train/dataset.h"

#include "gmock/gmock.h"
#include "train/text_fixture.h"

namespace lorica {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatasetTest : public TextFixture {
 protected:
  absl::StatusOr<Dataset> Load(const std::string& text, const DatasetOptions& options = {}) {
    return Dataset::Load({Write("x.jsonl", text)}, &tokenizer_, &chat_template_, options);
  }

  Tokenizer tokenizer_ = ByteTokenizer();
  ChatTemplate chat_template_ = ChatMl();
};

constexpr const char* kTexts = "{\"text\": \"abc\"}\n{\"text\": \"abcdefgh\"}\n{\"text\": \"x\"}\n";

TEST_F(DatasetTest, TargetsAreShiftedLabels) {
  const auto dataset = Load(R"({"input_ids": [5, 6, 7, 8], "labels": [5, -100, 9, 8]})");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(dataset->Read(0).value().ids, ElementsAre(5, 6, 7, 8));
  // labels[0] counts nowhere; position 1 predicts labels[2].
  EXPECT_EQ(dataset->Read(0).value().trained_tokens(), 2);
  EXPECT_LT(dataset->Read(0).value().targets[0], 0);
  EXPECT_EQ(dataset->Read(0).value().targets[1], 9);
  EXPECT_EQ(dataset->Read(0).value().targets[2], 8);
  EXPECT_LT(dataset->Read(0).value().targets[3], 0);
}

TEST_F(DatasetTest, CountsWhatItReads) {
  const auto dataset = Load(kTexts);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetStatistics& statistics = dataset->statistics();
  EXPECT_EQ(statistics.format, RecordFormat::kText);
  EXPECT_EQ(statistics.records, 3);
  EXPECT_EQ(statistics.tokens, 4 + 9 + 2);
  EXPECT_EQ(statistics.trained_tokens, 3 + 8 + 1);
  EXPECT_EQ(statistics.longest, 9);
  EXPECT_EQ(statistics.untrained, 0);
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->tokens(1), 9);
  EXPECT_EQ(dataset->trained_tokens(1), 8);
  EXPECT_EQ(dataset->Read(2)->tokens(), 2);
}

TEST_F(DatasetTest, OverlongRecords) {
  DatasetOptions options;
  options.max_length = 4;
  auto dataset = Load(kTexts, options);
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ(dataset->statistics().truncated, 1);
  EXPECT_THAT(dataset->Read(1).value().ids, ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_EQ(dataset->statistics().longest, 4);

  options.overlong = Overlong::kDrop;
  dataset = Load(kTexts, options);
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ(dataset->statistics().dropped, 1);
  EXPECT_EQ(dataset->statistics().records, 3);
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->record_index(1), 2);

  options.overlong = Overlong::kError;
  const auto status = Load(kTexts, options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("x.jsonl, line 2: the record has 9 tokens, at most 4 are allowed"));

  options.overlong = Overlong::kDrop;
  options.max_length = 1;
  EXPECT_TRUE(absl::IsFailedPrecondition(Load(kTexts, options).status()));
}

TEST_F(DatasetTest, NothingTrainedIsRefused) {
  const std::string text = R"({"messages": [{"role": "user", "content": "q"}]})";
  const auto status = Load(text).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no token"));
  DatasetOptions options;
  options.require_trained = false;
  const auto dataset = Load(text, options);
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ(dataset->statistics().untrained, 1);
  EXPECT_FALSE(Load(R"({"input_ids": [1, 2], "labels": [1, -100]})").ok());
}

TEST_F(DatasetTest, IdsBeyondTheVocabulary) {
  DatasetOptions options;
  options.vocab_size = 100;
  EXPECT_TRUE(Load(R"({"input_ids": [1, 99]})", options).ok());
  const auto status = Load("{\"input_ids\": [1, 99]}\n{\"input_ids\": [1, 100]}", options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 2: token 1 is 100"));
  EXPECT_FALSE(Load(R"({"input_ids": [1, 9], "labels": [1, 100]})", options).ok());
}

TEST_F(DatasetTest, FingerprintTellsDataApart) {
  const std::string a = Load(kTexts)->fingerprint();
  EXPECT_EQ(a.size(), 16u);
  EXPECT_EQ(Load(kTexts)->fingerprint(), a);
  EXPECT_NE(
      Load("{\"text\": \"abcdefgh\"}\n{\"text\": \"abc\"}\n{\"text\": \"x\"}\n")->fingerprint(), a);
  EXPECT_NE(Load(R"({"input_ids": [1, 2], "labels": [1, 2]})")->fingerprint(),
            Load(R"({"input_ids": [1, 2], "labels": [1, 3]})")->fingerprint());
}

TEST_F(DatasetTest, PoliciesByName) {
  EXPECT_EQ(*ParseOverlong("drop"), Overlong::kDrop);
  EXPECT_THAT(std::string(ParseOverlong("cut").status().message()), HasSubstr("\"cut\""));
}

}  // namespace
}  // namespace lorica
