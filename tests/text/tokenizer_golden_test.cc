// The committed small tokenizers (tests/golden/make_tokenizers.py) against what Hugging Face's
// `tokenizers` makes of the same texts.
#include "text/tokenizer_fixtures.h"

namespace lorica {
namespace {

class TokenizerGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGoldenTest, EncodesAndDecodesAsHuggingFace) {
  const auto tokenizer =
      LoadTokenizerJson(TokenizerFixture(absl::StrCat(GetParam(), ".tokenizer.json")));
  ASSERT_OK(tokenizer);
  const nlohmann::json texts = ReadJson(TokenizerFixture("texts.json"));
  const nlohmann::json rows =
      ReadJson(TokenizerFixture(absl::StrCat(GetParam(), ".expected.json")));
  ASSERT_EQ(texts.size(), rows.size());
  ASSERT_GE(texts.size(), 100u);
  const EncodeOptions plain = {.add_special_tokens = false};
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    const auto expected = rows[i]["ids"].get<std::vector<int32_t>>();
    const auto or_ids = [&](const char* key) {
      return rows[i].value(key, nlohmann::json(expected)).get<std::vector<int32_t>>();
    };
    const auto ids = tokenizer->Encode(text, plain);
    ASSERT_OK(ids);
    EXPECT_EQ(*ids, expected) << "text " << i << ": " << text;
    CheckConsistency(*tokenizer, text, expected, plain);

    const auto with_ends = tokenizer->Encode(text);
    ASSERT_OK(with_ends);
    EXPECT_EQ(*with_ends, or_ids("with_ends")) << "text " << i << ": " << text;

    const auto spelled =
        tokenizer->Encode(text, {.add_special_tokens = false, .parse_special = false});
    ASSERT_OK(spelled);
    EXPECT_EQ(*spelled, or_ids("spelled")) << "text " << i << ": " << text;

    const auto decoded = tokenizer->Decode(expected);
    ASSERT_OK(decoded);
    EXPECT_EQ(*decoded, rows[i]["decoded"].get<std::string>()) << "text " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGoldenTest,
                         testing::Values("gpt2", "smollm", "llama3", "qwen2", "deepseek", "o200k",
                                         "splits", "roberta", "llama2", "metaspace_first",
                                         "metaspace_always", "metaspace_never", "unigram",
                                         "unigram_bytes", "words", "bert", "prepended"),
                         [](const auto& row) { return std::string(row.param); });

TEST(TokenizerSpansTest, CoverTheTextWithoutGapsWhereNothingIsDropped) {
  const auto tokenizer = LoadTokenizerJson(TokenizerFixture("gpt2.tokenizer.json"));
  ASSERT_OK(tokenizer);
  for (const nlohmann::json& row : ReadJson(TokenizerFixture("texts.json"))) {
    const auto text = row.get<std::string>();
    const auto encoding = tokenizer->EncodeWithSpans(text);
    ASSERT_OK(encoding);
    size_t end = 0;
    for (size_t i = 0; i < encoding->ids.size(); ++i) {
      EXPECT_EQ(encoding->spans[i].begin, end) << text;
      end = encoding->spans[i].end;
    }
    EXPECT_EQ(end, text.size());
  }
}

TEST(TokenizerSpansTest, PointIntoTheOriginalThroughNormalizersAndPrefixes) {
  const auto qwen = LoadTokenizerJson(TokenizerFixture("qwen2.tokenizer.json"));
  ASSERT_OK(qwen);
  // e + U+0301 becomes one character: all of its tokens stand for the three bytes.
  const auto composed = qwen->EncodeWithSpans("ae\xCC\x81z");
  ASSERT_OK(composed);
  EXPECT_EQ(composed->spans.front(), (TokenSpan{0, 1}));
  EXPECT_EQ(composed->spans[1], (TokenSpan{1, 4}));
  EXPECT_EQ(composed->spans.back(), (TokenSpan{4, 5}));

  const auto llama = LoadTokenizerJson(TokenizerFixture("llama2.tokenizer.json"));
  ASSERT_OK(llama);
  const auto prefixed = llama->EncodeWithSpans("</s> the");
  ASSERT_OK(prefixed);
  ASSERT_GE(prefixed->ids.size(), 3u);
  EXPECT_EQ(prefixed->spans[0], (TokenSpan{0, 0}));  // BOS
  EXPECT_EQ(prefixed->spans[1], (TokenSpan{0, 4}));
  EXPECT_EQ(prefixed->spans.back().end, 8u);
}

TEST(StreamingDecoderTest, HoldsBackTheBeginningOfACharacter) {
  const auto tokenizer = LoadTokenizerJson(TokenizerFixture("deepseek.tokenizer.json"));
  ASSERT_OK(tokenizer);
  const std::string llama = "\xF0\x9F\xA6\x99";
  const auto ids = tokenizer->Encode(llama);
  ASSERT_OK(ids);
  ASSERT_EQ(ids->size(), 4u);
  StreamingDecoder decoder(*tokenizer);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*decoder.Push((*ids)[i]), "");
  EXPECT_EQ(*decoder.Push((*ids)[3]), llama);
  // A character that never ends comes out with what breaks it, or at the end.
  EXPECT_EQ(*decoder.Push((*ids)[0]), "");
  EXPECT_EQ(*decoder.Push(*tokenizer->TokenToId("a")),
            "\xF0"
            "a");
  EXPECT_EQ(*decoder.Push((*ids)[0]), "");
  EXPECT_EQ(*decoder.Finish(), "\xF0");
  EXPECT_EQ(*decoder.Finish(), "");
}

TEST(TokenizerTest, NamesTheOffsetOfInvalidUtf8) {
  const auto tokenizer = LoadTokenizerJson(TokenizerFixture("gpt2.tokenizer.json"));
  ASSERT_OK(tokenizer);
  const auto ids = tokenizer->Encode("abc\xFF");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().message(), "text isn't valid UTF-8 at byte offset 3");
}

TEST(TokenizerTest, RefusesToDecodeAnIdOutsideTheVocabulary) {
  const auto tokenizer = LoadTokenizerJson(TokenizerFixture("gpt2.tokenizer.json"));
  ASSERT_OK(tokenizer);
  EXPECT_EQ(tokenizer->vocab_size(), 505);  // five added tokens
  for (const int32_t id : {-1, 505, INT32_MAX}) {
    const auto text = tokenizer->Decode({1, id});
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().message(),
              absl::StrCat("token id ", id, " at position 1 isn't in the tokenizer's vocabulary"));
    EXPECT_EQ(tokenizer->IdToPiece(id), "");
  }
  EXPECT_EQ(tokenizer->IdToPiece(*tokenizer->TokenToId("<|im_end|>")), "<|im_end|>");
  EXPECT_TRUE(tokenizer->IsSpecial(*tokenizer->TokenToId("<|im_end|>")));
  EXPECT_FALSE(tokenizer->IsSpecial(*tokenizer->TokenToId("word")));
  EXPECT_EQ(*tokenizer->Decode({*tokenizer->TokenToId("a"), *tokenizer->TokenToId("<|im_end|>")},
                               {.skip_special_tokens = true}),
            "a");
}

}  // namespace
}  // namespace lorica
