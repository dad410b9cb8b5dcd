// Tokenizers of GGUF files as tokenizer.json: the same ids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lorica/io/gguf.h"
#include "lorica/text/gguf_tokenizer.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/model_folder.h"
#include "train/temp_folder.h"

namespace lorica::internal {
namespace {

const std::string kMark = "\xE2\x96\x81";

// A small vocabulary of sentencepiece: an unknown token, two controls, bytes, letters, words that
// can be joined in several ways, and what a user defined.
struct Pieces {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;

  void Add(const std::string& piece, int32_t type) {
    // Later pieces are worse, as in trained models.
    scores.push_back(type == 1 ? -static_cast<float>(tokens.size()) : 0);
    tokens.push_back(piece);
    types.push_back(type);
  }
};

struct Case {
  const char* name;
  bool space_prefix = true, extra_whitespaces = false, bos = true, eos = false;
  bool user_defined = false;
  bool bytes = true, unknown = true;  // whether it has pieces for them
  bool shuffled = false;              // scores in another order than ids
};

Pieces MakePieces(const Case& c) {
  Pieces pieces;
  pieces.Add("<unk>", c.unknown ? 2 : 3);
  pieces.Add("<s>", 3);
  pieces.Add("</s>", 3);
  for (int byte = 0; c.bytes && byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
    pieces.Add(text, 6);
  }
  for (const std::string piece : {"ab", "abc", "bc", "aa", "aaa", "é", "éa"}) pieces.Add(piece, 1);
  pieces.Add(kMark + "a", 1);
  pieces.Add(kMark + "ab", 1);
  pieces.Add(kMark + kMark, 1);
  if (c.user_defined) {
    pieces.Add("<tool>", 4);
    pieces.Add(kMark + kMark + kMark, 4);
  }
  for (const char letter : std::string("abcdex.<>")) pieces.Add(std::string(1, letter), 1);
  pieces.Add(kMark, 1);
  for (size_t i = 0; c.shuffled && i < pieces.scores.size(); ++i) {
    if (pieces.types[i] == 1) pieces.scores[i] = -static_cast<float>(i * 37 % 101);
  }
  return pieces;
}

GgufMetadata MakeMetadata(const Case& c, const Pieces& pieces) {
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  metadata.SetString("tokenizer.ggml.model", "llama");
  metadata.SetStrings("tokenizer.ggml.tokens", pieces.tokens);
  metadata.SetF32s("tokenizer.ggml.scores", pieces.scores);
  metadata.SetI32s("tokenizer.ggml.token_type", pieces.types);
  metadata.SetU32("tokenizer.ggml.bos_token_id", 1);
  metadata.SetU32("tokenizer.ggml.eos_token_id", 2);
  if (c.unknown) metadata.SetU32("tokenizer.ggml.unknown_token_id", 0);
  metadata.SetBool("tokenizer.ggml.add_space_prefix", c.space_prefix);
  metadata.SetBool("tokenizer.ggml.remove_extra_whitespaces", c.extra_whitespaces);
  metadata.SetBool("tokenizer.ggml.add_bos_token", c.bos);
  metadata.SetBool("tokenizer.ggml.add_eos_token", c.eos);
  return metadata;
}

GgufMetadata MakeMetadata(const Case& c) { return MakeMetadata(c, MakePieces(c)); }

// The metadata as a file, read again.
absl::StatusOr<GgufFile> FileOf(const GgufMetadata& metadata, const std::string& path) {
  auto out = PosixFiles().Open(path, OpenMode::kReplace);
  EXPECT_TRUE(out.ok()) << out.status();
  auto writer = GgufWriter::Begin(**out, metadata, {});
  EXPECT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_TRUE((*out)->Close().ok());
  return GgufFile::Open(path);
}

class SentencepieceTextsTest : public ::testing::TestWithParam<Case> {};

TEST_P(SentencepieceTextsTest, GiveTheSameIds) {
  const Case& c = GetParam();
  const TempFolder folder;
  const auto file = FileOf(MakeMetadata(c), folder / "t.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto texts = TokenizerTextsOfGguf(*file);
  ASSERT_TRUE(texts.ok()) << texts.status();
  const auto written = ParseTokenizerJson(texts->tokenizer, "t", texts->config);
  ASSERT_TRUE(written.ok()) << written.status();
  const auto own = TokenizerFromGguf(*ReadGgufTokenizer(*file), "t");
  ASSERT_TRUE(own.ok()) << own.status();
  for (const std::string text :
       {"", "a", " ", "   ", "abc ab", "aaaa aaa", "  two  spaces ", "éa é z ß\n", "<s>a b</s>",
        "a.b<x>", "tabs\t\t", "abcabcabc", "a    b     c"}) {
    SCOPED_TRACE(text);
    const auto want = own->Encode(text), got = written->Encode(text);
    ASSERT_EQ(got.ok(), want.ok()) << got.status() << " " << want.status();
    if (!want.ok()) continue;
    EXPECT_EQ(*got, *want);
    EXPECT_EQ(*written->Decode(*want), *own->Decode(*want));
  }
  if (!c.user_defined) return;
  for (const std::string text : {"a<tool>b", "a     b<tool>", "<tool>"}) {
    EXPECT_EQ(*written->Encode(text), *own->Encode(text)) << text;
  }
}

TEST(SentencepieceTextsOfGgufTest, OrderOfScoresDecides) {
  const TempFolder folder;
  std::vector<std::vector<int32_t>> ids;
  for (const bool shuffled : {false, true}) {
    const auto file = FileOf(MakeMetadata({.name = "", .shuffled = shuffled}), folder / "t.gguf");
    ASSERT_TRUE(file.ok()) << file.status();
    const auto texts = TokenizerTextsOfGguf(*file);
    ASSERT_TRUE(texts.ok()) << texts.status();
    const auto written = ParseTokenizerJson(texts->tokenizer, "t", texts->config);
    ASSERT_TRUE(written.ok()) << written.status();
    ids.push_back(*written->Encode("abcabcabc aaaa"));
  }
  EXPECT_NE(ids[0], ids[1]);
}

// Of equals sentencepiece joins what is further left; a list of merges has one of them first.
TEST(SentencepieceTextsOfGgufTest, EqualScoresOfOverlappingTokensAreRefused) {
  const TempFolder folder;
  const auto status_with = [&](const std::string& one, const std::string& other) {
    const Case c = {.name = ""};
    Pieces pieces = MakePieces(c);
    const auto score = [&](const std::string& piece) -> float& {
      const auto at = std::find(pieces.tokens.begin(), pieces.tokens.end(), piece);
      return pieces.scores[static_cast<size_t>(at - pieces.tokens.begin())];
    };
    score(one) = score(other);
    const GgufMetadata metadata = MakeMetadata(c, pieces);
    const auto file = FileOf(metadata, folder / "t.gguf");
    EXPECT_TRUE(file.ok()) << file.status();
    return TokenizerTextsOfGguf(*file).status();
  };
  const absl::Status refused = status_with("ab", "bc");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("the token \"ab\""));
  EXPECT_EQ(status_with("bc", "ab").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status_with("aa", "ab").code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(status_with("aa", "bc").ok());  // no text lets them overlap
}

// tokenizer.json could not say what the rules do before the text is cut.
TEST(SentencepieceTextsOfGgufTest, RulesOfTheirOwnAreRefused) {
  const TempFolder folder;
  GgufMetadata metadata = MakeMetadata({.name = ""});
  std::vector<int32_t> rules = {0, 4, 0, 0};  // the size of a table of 256 units, without entries
  rules.resize(4 + 1024 + 1);
  metadata.SetI32s("tokenizer.ggml.precompiled_charsmap", rules);
  const auto file = FileOf(metadata, folder / "t.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(TokenizerFromGguf(*ReadGgufTokenizer(*file), "t").ok());
  const absl::Status refused = TokenizerTextsOfGguf(*file).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("can't be written as tokenizer.json"));
}

INSTANTIATE_TEST_SUITE_P(
    All, SentencepieceTextsTest,
    ::testing::Values(Case{.name = "llama"}, Case{.name = "no_prefix", .space_prefix = false},
                      Case{.name = "gemma", .space_prefix = false, .user_defined = true},
                      Case{.name = "ends", .bos = false, .eos = true},
                      Case{.name = "extra", .extra_whitespaces = true},
                      Case{.name = "shuffled", .shuffled = true},
                      Case{.name = "shuffled_gemma",
                           .space_prefix = false,
                           .user_defined = true,
                           .shuffled = true},
                      Case{.name = "no_bytes", .bytes = false},
                      Case{.name = "no_unknown", .unknown = false},
                      Case{.name = "neither", .bytes = false, .unknown = false}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lorica::internal
