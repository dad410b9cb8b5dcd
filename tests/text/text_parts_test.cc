// The small parts of tokenizers: UTF-8, the byte alphabet, rewriting with a map back, vocabularies,
// decoders.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/text/added_tokens.h"
#include "lorica/text/byte_alphabet.h"
#include "lorica/text/decoder.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/pieces.h"
#include "lorica/text/utf8.h"
#include "lorica/text/vocabulary.h"

namespace lorica {
namespace {

TEST(Utf8Test, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FirstInvalidUtf8("a\xC3\xA9\xE4\xB8\x96\xF0\x9F\xA6\x99"), 10u);
  // A continuation alone, overlong, a surrogate, above U+10FFFF, cut off, broken in the middle.
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF0\x8F\xBF\xBF",
        "\xE4\xB8", "\xC3", "\xE4\xB8z", "\xF8\x88", "\xFF"}) {
    EXPECT_EQ(FirstInvalidUtf8(std::string("ab") + bad), 2u) << bad;
  }
}

TEST(Utf8Test, HoldsBackOnlyWhatMayStillBecomeACharacter) {
  EXPECT_EQ(FinishedUtf8(""), 0u);
  EXPECT_EQ(FinishedUtf8("ab"), 2u);
  EXPECT_EQ(FinishedUtf8("a\xF0\x9F\xA6"), 1u);
  EXPECT_EQ(FinishedUtf8("a\xE4\xB8"), 1u);
  EXPECT_EQ(FinishedUtf8("a\xC3"), 1u);
  EXPECT_EQ(FinishedUtf8("a\xE4\xB8\x96"), 4u);
  EXPECT_EQ(FinishedUtf8("a\xED\xA0"), 3u);  // a surrogate never becomes one
  EXPECT_EQ(FinishedUtf8("\x80\x80\x80\x80"), 4u);
  EXPECT_EQ(FinishedUtf8("a\xFF"), 2u);
}

TEST(Utf8Test, EncodesWhatItDecodes) {
  for (const uint32_t c : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    AppendUtf8(c, &text);
    EXPECT_EQ(FirstInvalidUtf8(text), text.size());
    EXPECT_EQ(DecodeUtf8(text, 0), c);
    EXPECT_EQ(Utf8Length(text[0]), text.size());
    EXPECT_EQ(PreviousUtf8("x" + text, text.size() + 1), 1u);
  }
}

TEST(ByteAlphabetTest, IsReversible) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    const absl::string_view character = AlphabetOf(static_cast<unsigned char>(byte));
    EXPECT_EQ(FirstInvalidUtf8(character), character.size());
    std::string bytes;
    EXPECT_TRUE(AppendAlphabetBytes(character, &bytes));
    EXPECT_EQ(bytes, std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(AlphabetOf(' '), "\xC4\xA0");  // U+0120, the well-known one
  EXPECT_EQ(AlphabetOf('\n'), "\xC4\x8A");
  EXPECT_EQ(AlphabetOf('a'), "a");
  std::string bytes = "kept";
  EXPECT_FALSE(AppendAlphabetBytes("a b", &bytes));  // a space isn't in the alphabet
  EXPECT_EQ(bytes, "kept");
}

TEST(MappedTextTest, KnowsWhereRewrittenBytesCameFrom) {
  MappedText text("abcdef", size_t{10}, true);
  EXPECT_FALSE(text.at_start());
  TextRewriter first(text);
  first.Replace(0, 0, "<<");  // put before
  first.Keep(0, 2);           // ab
  first.Replace(2, 4, "X");   // cd
  first.Replace(4, 5, "");    // e taken out
  first.Keep(5, 6);           // f
  MappedText once = first.Finish();
  EXPECT_EQ(once.text(), "<<abXf");
  EXPECT_EQ(once.OriginalOf({0, 2}), (ByteRange{10, 10}));
  EXPECT_EQ(once.OriginalOf({2, 4}), (ByteRange{10, 12}));
  EXPECT_EQ(once.OriginalOf({4, 5}), (ByteRange{12, 14}));
  EXPECT_EQ(once.OriginalOf({5, 6}), (ByteRange{15, 16}));
  TextRewriter second(once);
  second.Replace(3, 5, "YYY");  // b and X
  second.Keep(5, 6);
  const MappedText twice = second.Finish();
  EXPECT_EQ(twice.text(), "YYYf");
  EXPECT_EQ(twice.OriginalOf({1, 2}), (ByteRange{11, 14}));
  EXPECT_EQ(twice.Slice({3, 4}).OriginalOf({0, 1}), (ByteRange{15, 16}));
}

TEST(MappedTextTest, KnowsWhetherItsBeginningIsTheTexts) {
  MappedText text("  a", size_t{0}, false);
  EXPECT_TRUE(text.at_start());
  EXPECT_FALSE(text.Slice({1, 2}).at_start());
  TextRewriter prefixed(text);
  prefixed.Replace(0, 0, "_");
  prefixed.Keep(0, 3);
  EXPECT_TRUE(prefixed.Finish().at_start());
  TextRewriter stripped(text);
  stripped.Keep(2, 3);
  EXPECT_FALSE(stripped.Finish().at_start());
}

TEST(NormalizerTest, KeepsLongRunsOfMarksInTime) {
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";  // 230, 220
  MappedText mapped(absl::string_view(text), size_t{0}, false);
  Regex::Scratch scratch;
  ASSERT_TRUE(MakeUnicodeNormalizer(NormalForm::kNfc)->Apply(&mapped, &scratch).ok());
  EXPECT_EQ(mapped.text().substr(0, 5), "\xE1\xBA\xA1\xCC\xA3");  // U+1EA1, then the dots below
}

TEST(VocabularyTest, RefusesDoubleIdsAndPieces) {
  Vocabulary vocabulary;
  ASSERT_TRUE(vocabulary.Add("a", 3).ok());
  EXPECT_FALSE(vocabulary.Add("a", 4).ok());
  EXPECT_FALSE(vocabulary.Add("b", 3).ok());
  EXPECT_FALSE(vocabulary.Add("b", -1).ok());
  EXPECT_FALSE(vocabulary.Add("b", Vocabulary::kLargestId + 1).ok());
  ASSERT_TRUE(vocabulary.AddDuplicate("a", 0).ok());
  EXPECT_EQ(vocabulary.IdOf("a"), 3);
  EXPECT_EQ(vocabulary.PieceOf(0), "a");
  EXPECT_EQ(vocabulary.IdOf("b"), -1);
  EXPECT_FALSE(vocabulary.HasId(1));
  EXPECT_EQ(vocabulary.PieceOf(1), "");
  EXPECT_EQ(vocabulary.id_limit(), 4);
  EXPECT_EQ(vocabulary.size(), 2u);
}

std::string Decoded(const PieceDecoder& decoder, const std::vector<std::string>& pieces) {
  std::vector<PieceDecoder::Piece> list;
  for (const std::string& piece : pieces) list.push_back({piece, false});
  const auto text = decoder.Decode(list);
  return text.ok() ? *text : text.status().ToString();
}

TEST(PieceDecoderTest, TakesStepsInOrder) {
  EXPECT_EQ(Decoded(PieceDecoder(), {"a", "b"}), "a b");
  const DecodeStep fuse{DecodeStep::kFuse, {}, false, {}, {}, 0, 0};
  const DecodeStep bytes{DecodeStep::kByteFallback, {}, false, {}, {}, 0, 0};
  const DecodeStep strip{DecodeStep::kStrip, " ", false, {}, {}, 1, 0};
  const DecodeStep both{DecodeStep::kStrip, "_", false, {}, {}, 1, 2};
  const DecodeStep suffix{DecodeStep::kSuffix, "</w>", false, {}, {}, 0, 0};
  const DecodeStep meta{DecodeStep::kMetaspace, "_", true, {}, {}, 0, 0};
  EXPECT_EQ(Decoded(PieceDecoder({bytes, fuse, strip}), {"<0x20>", " a", "<0xF0>", "<0x9f>"}),
            " a\xF0\x9F");
  EXPECT_EQ(Decoded(PieceDecoder({fuse, strip}), {"", " ", " a"}), " a");
  EXPECT_EQ(Decoded(PieceDecoder({both, fuse}), {"__a___", "_"}), "_a_");
  EXPECT_EQ(Decoded(PieceDecoder({suffix, fuse}), {"a</w>", "b", "c</w>"}), "a bc");
  EXPECT_EQ(Decoded(PieceDecoder({meta, fuse}), {"_a", "_b"}), "a b");
  EXPECT_EQ(Decoded(PieceDecoder({bytes, fuse}), {"<0xG0>", "<0x1>", "<0x41>"}), "<0xG0><0x1>A");
  EXPECT_TRUE(PieceDecoder({bytes, fuse, strip}).streams());
  EXPECT_FALSE(PieceDecoder({suffix, fuse}).streams());
  EXPECT_FALSE(PieceDecoder({fuse, both}).streams());
  EXPECT_FALSE(PieceDecoder({bytes, strip}).streams());
}

TEST(PieceDecoderTest, LeavesAddedTokensOutOfTheByteAlphabet) {
  const PieceDecoder decoder({{DecodeStep::kByteLevel, {}, false, {}, {}, 0, 0}});
  const auto text = decoder.Decode({{"\xC3\xA9", true}, {"\xC3\xA9", false}});
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "\xC3\xA9\xE9");
}

std::vector<std::string> Cut(const AddedTokens& tokens, absl::string_view text) {
  std::vector<AddedTokens::Part> parts;
  tokens.Cut(text, false, true, &parts);
  std::vector<std::string> result;
  for (const auto& part : parts) {
    const std::string piece(text.substr(part.range.begin, part.range.size()));
    result.push_back(part.token != nullptr ? "[" + piece + "]" : piece);
  }
  return result;
}

TEST(AddedTokensTest, TakeSpacesAndStandAlone) {
  AddedTokens tokens;
  ASSERT_TRUE(tokens.Add({.content = "<l>", .id = 0, .lstrip = true}).ok());
  ASSERT_TRUE(tokens.Add({.content = "<r>", .id = 1, .rstrip = true}).ok());
  ASSERT_TRUE(tokens.Add({.content = "one", .id = 2, .single_word = true}).ok());
  ASSERT_TRUE(tokens.Finish([](std::string*) { return absl::OkStatus(); }).ok());
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Cut(tokens, "a \n<l> b <r>\xE3\x80\x80 c"),
            (Strings{"a", "[ \n<l>]", " b ", "[<r>\xE3\x80\x80 ]", "c"}));
  EXPECT_EQ(Cut(tokens, "<r>  <l>"), (Strings{"[<r>  ]", "[<l>]"}));
  EXPECT_EQ(Cut(tokens, "one onetwo \xC3\xA9one one"),
            (Strings{"[one]", " onetwo \xC3\xA9one ", "[one]"}));
}

}  // namespace
}  // namespace lorica
