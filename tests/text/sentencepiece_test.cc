// The committed sentencepiece models (tests/golden/make_tokenizers.py) against the ids of
// sentencepiece itself, from their own files and as GGUF metadata.
#include "gmock/gmock.h"
#include "lorica/text/gguf_tokenizer.h"
#include "lorica/text/sentencepiece_pipeline.h"
#include "lorica/text/sentencepiece_tokenizer.h"
#include "lorica/text/string_finder.h"
#include "text/tokenizer_fixtures.h"

namespace lorica {
namespace {

constexpr EncodeOptions kPlain = {.add_special_tokens = false, .parse_special = false};

class SentencepieceTest : public testing::TestWithParam<const char*> {};

TEST_P(SentencepieceTest, GivesTheIdsOfSentencepiece) {
  const auto tokenizer = LoadTokenizer(TokenizerFixture(absl::StrCat(GetParam(), ".model")));
  ASSERT_OK(tokenizer);
  const nlohmann::json texts = ReadJson(TokenizerFixture("texts.json"));
  const nlohmann::json rows =
      ReadJson(TokenizerFixture(absl::StrCat(GetParam(), ".expected.json")));
  ASSERT_EQ(texts.size(), rows.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    const auto ids = tokenizer->Encode(text, kPlain);
    ASSERT_OK(ids);
    EXPECT_EQ(*ids, rows[i].get<std::vector<int32_t>>()) << "text " << i << ": " << text;
    CheckConsistency(*tokenizer, text, *ids, kPlain);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SentencepieceTest,
                         testing::Values("sp_bpe", "sp_bpe_suffix", "sp_unigram",
                                         "sp_unigram_bytes"),
                         [](const auto& row) { return std::string(row.param); });

TEST(SentencepieceTest, DecodesToTheExactBytes) {
  const auto tokenizer = LoadTokenizer(TokenizerFixture("sp_bpe.model"));
  ASSERT_OK(tokenizer);
  for (const nlohmann::json& row : ReadJson(TokenizerFixture("texts.json"))) {
    const auto text = row.get<std::string>();
    if (text.find("\xE2\x96\x81") != std::string::npos) continue;  // a mark is a space
    EXPECT_EQ(*tokenizer->Decode(*tokenizer->Encode(text, kPlain)), text);
  }
}

TEST(SentencepieceTest, AddsTheEndsThatTheModelHas) {
  const std::string path = TokenizerFixture("sp_bpe.model");
  const auto tokenizer = LoadTokenizer(path);
  ASSERT_OK(tokenizer);
  EXPECT_EQ(tokenizer->unk_id(), 0);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->pad_id(), std::nullopt);
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_FALSE(tokenizer->add_eos());
  EXPECT_TRUE(tokenizer->IsSpecial(1));
  const auto ids = tokenizer->Encode("the</s>");
  ASSERT_OK(ids);
  EXPECT_EQ(ids->front(), 1);
  EXPECT_EQ(ids->back(), 2);
  const auto configured = TokenizerFromSentencepiece(
      ReadOrDie(path), path, R"({"add_bos_token": false, "add_eos_token": true})");
  ASSERT_OK(configured);
  EXPECT_FALSE(configured->add_bos());
  EXPECT_TRUE(configured->add_eos());
}

TEST(SentencepieceTest, GgufMetadataGivesTheSameIds) {
  const auto tokenizer = LoadTokenizer(TokenizerFixture("sp_bpe.model"));
  ASSERT_OK(tokenizer);
  GgufTokenizer metadata;
  metadata.model = "llama";
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    const std::string piece(tokenizer->IdToPiece(id));
    metadata.tokens.push_back(piece);
    const bool byte = id >= 3 && id < 259;
    metadata.token_types.push_back(id == 0  ? kGgufTokenUnknown
                                   : id < 3 ? kGgufTokenControl
                                   : byte   ? kGgufTokenByte
                                            : kGgufTokenNormal);
    metadata.scores.push_back(id < 259 ? 0.0f : static_cast<float>(259 - id));
  }
  metadata.bos_id = 1;
  metadata.eos_id = 2;
  const auto from_gguf = TokenizerFromGguf(metadata, "t.gguf");
  ASSERT_OK(from_gguf);
  EXPECT_TRUE(from_gguf->add_bos());
  for (const nlohmann::json& row : ReadJson(TokenizerFixture("texts.json"))) {
    const auto text = row.get<std::string>();
    EXPECT_EQ(*from_gguf->Encode(text), *tokenizer->Encode(text)) << text;
  }
  metadata.scores.clear();
  EXPECT_THAT(TokenizerFromGguf(metadata, "t.gguf").status().message(),
              testing::HasSubstr("scores"));
}

TEST(SentencepieceTest, RefusesWhatIsNoModel) {
  const std::string whole = ReadOrDie(TokenizerFixture("sp_unigram.model"));
  EXPECT_FALSE(TokenizerFromSentencepiece("", "t.model").ok());
  EXPECT_FALSE(TokenizerFromSentencepiece("no model", "t.model").ok());
  EXPECT_THAT(TokenizerFromSentencepiece("\x0A\xFF", "t.model").status().message(),
              testing::HasSubstr("t.model: isn't a sentencepiece model"));
  // Cut anywhere it's refused, or a smaller model.
  for (size_t size = 0; size < whole.size(); size += 7) {
    const auto tokenizer = TokenizerFromSentencepiece(whole.substr(0, size), "t.model");
    if (tokenizer.ok()) {
      EXPECT_OK(tokenizer->Encode("the way"));
    }
  }
  // One byte changed.
  for (size_t at = 0; at < whole.size(); at += 5) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x15);
    const auto tokenizer = TokenizerFromSentencepiece(changed, "t.model");
    if (tokenizer.ok()) {
      EXPECT_OK(tokenizer->Encode("e\xCC\x81 the <tool> way\t"));
    }
  }
}

TEST(StringFinderTest, FindsTheLeftmostOfThoseTheLongest) {
  StringFinder finder;
  EXPECT_TRUE(finder.empty());
  finder.Add("b", 1);
  finder.Add("abc", 2);
  finder.Add("ab", 3);
  finder.Add("abc", 4);  // the first one counts
  EXPECT_FALSE(finder.empty());
  const auto match = finder.Find("xxabcabx", 0);
  EXPECT_EQ(match.value, 2);
  EXPECT_EQ(match.begin, 2u);
  EXPECT_EQ(match.end, 5u);
  EXPECT_EQ(finder.Find("xxabcabx", 3).value, 1);
  EXPECT_EQ(finder.Find("xxabcabx", 4).value, 3);
  EXPECT_EQ(finder.Find("xxabcabx", 7).value, -1);
  EXPECT_EQ(finder.FindAt("ab", 0).value, 3);
  EXPECT_EQ(finder.FindAt("xab", 0).value, -1);
}

}  // namespace
}  // namespace lorica
