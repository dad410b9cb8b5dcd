// Tokenizers of GGUF files as tokenizer.json: the same ids.
#include <gtest/gtest.h>

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

Pieces MakePieces(bool user_defined) {
  Pieces pieces;
  pieces.Add("<unk>", 2);
  pieces.Add("<s>", 3);
  pieces.Add("</s>", 3);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
    pieces.Add(text, 6);
  }
  for (const std::string piece : {"ab", "abc", "bc", "aa", "aaa", "é", "éa"}) pieces.Add(piece, 1);
  pieces.Add(kMark + "a", 1);
  pieces.Add(kMark + "ab", 1);
  pieces.Add(kMark + kMark, 1);
  if (user_defined) {
    pieces.Add("<tool>", 4);
    pieces.Add(kMark + kMark + kMark, 4);
  }
  for (const char c : std::string("abcdex.<>")) pieces.Add(std::string(1, c), 1);
  pieces.Add(kMark, 1);
  return pieces;
}

struct Case {
  const char* name;
  bool space_prefix, extra_whitespaces, bos, eos, user_defined;
};

class SentencepieceTextsTest : public ::testing::TestWithParam<Case> {};

TEST_P(SentencepieceTextsTest, GiveTheSameIds) {
  const Case& c = GetParam();
  const Pieces pieces = MakePieces(c.user_defined);
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  metadata.SetString("tokenizer.ggml.model", "llama");
  metadata.SetStrings("tokenizer.ggml.tokens", pieces.tokens);
  metadata.SetF32s("tokenizer.ggml.scores", pieces.scores);
  metadata.SetI32s("tokenizer.ggml.token_type", pieces.types);
  metadata.SetU32("tokenizer.ggml.bos_token_id", 1);
  metadata.SetU32("tokenizer.ggml.eos_token_id", 2);
  metadata.SetU32("tokenizer.ggml.unknown_token_id", 0);
  metadata.SetBool("tokenizer.ggml.add_space_prefix", c.space_prefix);
  metadata.SetBool("tokenizer.ggml.remove_extra_whitespaces", c.extra_whitespaces);
  metadata.SetBool("tokenizer.ggml.add_bos_token", c.bos);
  metadata.SetBool("tokenizer.ggml.add_eos_token", c.eos);
  const TempFolder folder;
  const std::string path = folder / "t.gguf";
  {
    auto out = PosixFiles().Open(path, OpenMode::kReplace);
    ASSERT_TRUE(out.ok()) << out.status();
    auto writer = GgufWriter::Begin(**out, metadata, {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->Finish().ok());
    ASSERT_TRUE((*out)->Close().ok());
  }
  const auto file = GgufFile::Open(path);
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
    EXPECT_EQ(*written->Encode(text), *own->Encode(text));
    EXPECT_EQ(*written->Decode(*own->Encode(text)), *own->Decode(*own->Encode(text)));
  }
  if (!c.user_defined) return;
  for (const std::string text : {"a<tool>b", "a     b<tool>", "<tool>"}) {
    EXPECT_EQ(*written->Encode(text), *own->Encode(text)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SentencepieceTextsTest,
                         ::testing::Values(Case{"llama", true, false, true, false, false},
                                           Case{"no_prefix", false, false, true, false, false},
                                           Case{"gemma", false, false, true, false, true},
                                           Case{"ends", true, false, false, true, false},
                                           Case{"extra", true, true, true, false, false}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lorica::internal
