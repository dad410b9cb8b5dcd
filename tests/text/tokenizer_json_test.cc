// What a tokenizer.json may hold, and what is refused.
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "text/tokenizer_fixtures.h"

namespace lorica {
namespace {

using nlohmann::json;

// A byte-level tokenizer of a few pieces.
json SmallDocument() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 5, "content": "<s>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
              "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġab": 4},
              "merges": [["a", "b"], ["Ġ", "ab"]]}
  })");
}

absl::StatusOr<Tokenizer> Parse(const json& document, const std::string& config = "") {
  return ParseTokenizerJson(document.dump(), "t.json", config);
}

TEST(TokenizerJsonTest, ReadsBothSpellingsOfMerges) {
  json document = SmallDocument();
  for (const json& merges : {document["model"]["merges"], json{"a b", "Ġ ab"}}) {
    document["model"]["merges"] = merges;
    const auto tokenizer = Parse(document);
    ASSERT_OK(tokenizer);
    EXPECT_EQ(*tokenizer->Encode("ab ab<s>ba"), (std::vector<int32_t>{2, 4, 5, 1, 0}));
    EXPECT_EQ(*tokenizer->Decode({2, 4, 5, 1, 0}), "ab ab<s>ba");
    EXPECT_EQ(tokenizer->vocab_size(), 6);
    EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  }
}

TEST(TokenizerJsonTest, ReadsTheModelBeforeItsVocabularyIsKnown) {
  // Merges before vocabulary, and the model first: the order of keys has no meaning.
  const auto tokenizer = ParseTokenizerJson(
      R"({"model": {"merges": ["a b"], "vocab": {"b": 1, "ab": 2, "a": 0}, "type": "BPE"}})",
      "t.json");
  ASSERT_OK(tokenizer);
  EXPECT_EQ(*tokenizer->Encode("abab"), (std::vector<int32_t>{2, 2}));
  // Without a decoder pieces are joined by spaces.
  EXPECT_EQ(*tokenizer->Decode({2, 2}), "ab ab");
}

TEST(TokenizerJsonTest, TokenizerConfigNamesTheEnds) {
  const json document = SmallDocument();
  const auto tokenizer =
      Parse(document, R"({"bos_token": {"content": "<s>", "__type": "AddedToken"},
                          "eos_token": "ab", "pad_token": "<missing>", "unk_token": null,
                          "add_bos_token": true, "add_eos_token": true, "model_max_length": 1e30})");
  ASSERT_OK(tokenizer);
  EXPECT_EQ(tokenizer->bos_id(), 5);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->pad_id(), std::nullopt);
  EXPECT_TRUE(tokenizer->IsSpecial(2));
  EXPECT_EQ(*tokenizer->Encode("b"), std::vector<int32_t>{1});
}

// As in transformers 5: add_bos_token beside a tokenizer.json changes nothing.
TEST(TokenizerJsonTest, ThePostProcessorAloneDecidesAboutBos) {
  json document = SmallDocument();
  EXPECT_FALSE(Parse(document, R"({"bos_token": "<s>", "add_bos_token": true})")->add_bos());
  document["post_processor"] = json::parse(
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
          {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
          "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}})");
  EXPECT_EQ(*Parse(document)->Encode("a"), (std::vector<int32_t>{5, 0}));
  EXPECT_EQ(*Parse(document, R"({"bos_token": "<s>"})")->Encode("a"), (std::vector<int32_t>{5, 0}));
  EXPECT_TRUE(Parse(document, R"({"bos_token": "<s>"})")->add_bos());
  EXPECT_EQ(*Parse(document, R"({"bos_token": "<s>", "add_bos_token": true})")->Encode("a"),
            (std::vector<int32_t>{5, 0}));
  EXPECT_EQ(*Parse(document, R"({"bos_token": "<s>", "add_bos_token": false})")->Encode("a"),
            (std::vector<int32_t>{5, 0}));
  EXPECT_EQ(*Parse(document)->Encode("a", {.add_special_tokens = false}), std::vector<int32_t>{0});
  const auto encoding = Parse(document)->EncodeWithSpans("a");
  ASSERT_OK(encoding);
  EXPECT_EQ(encoding->spans, (std::vector<TokenSpan>{{0, 0}, {0, 1}}));
}

TEST(TokenizerJsonTest, ConfigAddsTokens) {
  const auto tokenizer = Parse(SmallDocument(), R"({"added_tokens_decoder": {
      "7": {"content": "<x>", "special": true}, "5": {"content": "<s>", "special": false}}})");
  ASSERT_OK(tokenizer);
  EXPECT_EQ(*tokenizer->Encode("a<x>"), (std::vector<int32_t>{0, 7}));
  EXPECT_EQ(tokenizer->vocab_size(), 8);
  EXPECT_TRUE(tokenizer->IsSpecial(7));
  EXPECT_FALSE(tokenizer->IsSpecial(5));
  EXPECT_FALSE(tokenizer->Decode({6}).ok());
}

struct BadCase {
  const char* name;
  const char* pointer;  // what is replaced in the small document
  const char* value;
  const char* message;  // part of the error
};

class BadTokenizerJsonTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadTokenizerJsonTest, IsRefusedByName) {
  const BadCase& bad = GetParam();
  json document = SmallDocument();
  document[json::json_pointer(bad.pointer)] = json::parse(bad.value);
  const auto tokenizer = Parse(document);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokenizer.status().message()), testing::StartsWith("t.json: "));
  EXPECT_THAT(tokenizer.status().message(), testing::HasSubstr(bad.message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTokenizerJsonTest,
    testing::Values(
        BadCase{"UnknownKey", "/extra", "1", "\"extra\""},
        BadCase{"Version", "/version", "\"2.0\"", "\"2.0\""},
        BadCase{"VersionType", "/version", "1", "\"version\" that is number"},
        BadCase{"NoModel", "/model", "null", "has no \"model\""},
        BadCase{"ModelIsAList", "/model", "[]", "model is array instead of an object"},
        BadCase{"ModelType", "/model/type", "\"WordPiece\"", "\"WordPiece\""},
        BadCase{"ModelOption", "/model/new_option", "true", "\"new_option\""},
        BadCase{"Dropout", "/model/dropout", "0.1", "dropout"},
        BadCase{"UnknownUnk", "/model/unk_token", "\"<unk>\"", "\"<unk>\""},
        BadCase{"VocabList", "/model/vocab", "[[\"a\", 0.5]]", "\"vocab\" of pieces and their ids"},
        BadCase{"VocabNumber", "/model/vocab", "3", "\"vocab\""},
        BadCase{"VocabIdText", "/model/vocab/a", "\"0\"", "in its vocabulary"},
        BadCase{"VocabIdFraction", "/model/vocab/a", "0.5", "in its vocabulary"},
        BadCase{"VocabIdNull", "/model/vocab/a", "null", "in its vocabulary"},
        BadCase{"VocabIdNested", "/model/vocab/a", "{}", "in its vocabulary"},
        BadCase{"VocabIdNegative", "/model/vocab/a", "-1", "token id -1"},
        BadCase{"VocabIdHuge", "/model/vocab/a", "18446744073709551615", "token id"},
        BadCase{"VocabIdTooLarge", "/model/vocab/a", "4000000000", "token id 4000000000"},
        BadCase{"VocabIdTwice", "/model/vocab/a", "1", "token id 1 belongs to two pieces"},
        BadCase{"NoMerges", "/model/merges", "null", "merges"},
        BadCase{"MergesNumber", "/model/merges", "[1]", "merge 0"},
        BadCase{"MergeOfOne", "/model/merges", "[\"ab\"]", "merge 0 (\"ab\")"},
        BadCase{"MergeOfThree", "/model/merges", "[\"a b a\"]", "merge 0 (\"a b a\")"},
        BadCase{"MergeListOfOne", "/model/merges", "[[\"a\"]]", "in merge 0"},
        BadCase{"MergeListOfThree", "/model/merges", "[[\"a\", \"b\", \"a\"]]", "in merge"},
        BadCase{"MergeNested", "/model/merges", "[[[\"a\"]]]", "in merge 0"},
        BadCase{"MergeOfUnknown", "/model/merges", "[[\"a\", \"x\"]]", "the piece \"x\""},
        BadCase{"MergeToUnknown", "/model/merges", "[[\"b\", \"a\"]]", "the piece \"ba\""},
        BadCase{"AddedNoId", "/added_tokens/0/id", "null", "added_tokens[0] has no \"id\""},
        BadCase{"AddedIdText", "/added_tokens/0/id", "\"5\"", "\"id\""},
        BadCase{"AddedIdNegative", "/added_tokens/0/id", "-5", "id -5"},
        BadCase{"AddedIdHuge", "/added_tokens/0/id", "1e9", "\"id\""},
        BadCase{"AddedIdTooLarge", "/added_tokens/0/id", "99999999999", "99999999999"},
        BadCase{"AddedIdTaken", "/added_tokens/0/id", "0", "\"<s>\" has id 0"},
        BadCase{"AddedOtherId", "/added_tokens/0/content", "\"ab\"", "id 2 in the vocabulary"},
        BadCase{"AddedOption", "/added_tokens/0/bold", "true", "\"bold\""},
        BadCase{"AddedFlag", "/added_tokens/0/special", "1", "\"special\""},
        BadCase{"AddedMap", "/added_tokens", "{}", "added_tokens is object"},
        BadCase{"AddedTwice", "/added_tokens/1", R"({"id": 6, "content": "<s>"})", "two ids"},
        BadCase{"AddedSameId", "/added_tokens/1", R"({"id": 5, "content": "<t>"})",
                "both have id 5"},
        BadCase{"Normalizer", "/normalizer", R"({"type": "Folding"})", "\"Folding\""},
        BadCase{"NormalizerOption", "/normalizer", R"({"type": "NFC", "form": "D"})", "\"form\""},
        BadCase{"NormalizerInner", "/normalizer",
                R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Magic"}]})",
                "normalizer.normalizers[1]"},
        BadCase{"NormalizerNoType", "/normalizer", "{}", "normalizer has no \"type\""},
        BadCase{"NormalizerText", "/normalizer", "\"NFC\"", "normalizer has no \"type\""},
        BadCase{"Charsmap", "/normalizer",
                R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})",
                "precompiled_charsmap"},
        BadCase{"CharsmapText", "/normalizer",
                R"({"type": "Precompiled", "precompiled_charsmap": "!!"})", "base64"},
        BadCase{"Replace", "/normalizer",
                R"({"type": "Replace", "pattern": {"String": ""}, "content": "x"})",
                "empty string"},
        BadCase{"PreTokenizer", "/pre_tokenizer", R"({"type": "UnicodeScripts"})",
                "\"UnicodeScripts\""},
        BadCase{"PreTokenizerOption", "/pre_tokenizer/trim", "true", "\"trim\""},
        BadCase{"Regex", "/pre_tokenizer",
                R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"})",
                "pre_tokenizer has a pattern: regular expression"},
        BadCase{"RegexKind", "/pre_tokenizer",
                R"({"type": "Split", "pattern": {"Glob": "a"}, "behavior": "Isolated"})",
                "\"pattern\""},
        BadCase{"Behavior", "/pre_tokenizer",
                R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolate"})",
                "\"Isolate\""},
        BadCase{"Scheme", "/pre_tokenizer",
                R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
                "\"last\""},
        BadCase{"Replacement", "/pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})",
                "one character"},
        BadCase{"PostProcessor", "/post_processor", R"({"type": "Magic"})", "\"Magic\""},
        BadCase{"TemplateToken", "/post_processor",
                R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}},
                    {"Sequence": {"id": "A"}}], "special_tokens": {}})",
                "special token \"x\""},
        BadCase{"TemplateId", "/post_processor",
                R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}},
                    {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"ids": [77]}}})",
                "special token id 77"},
        BadCase{"TemplateNegativeId", "/post_processor",
                R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}},
                    {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"ids": [-1]}}})",
                "bad id"},
        BadCase{"TemplateWithoutText", "/post_processor",
                R"({"type": "TemplateProcessing", "single": [], "special_tokens": {}})", "0 times"},
        BadCase{"Decoder", "/decoder", R"({"type": "CTC"})", "\"CTC\""},
        BadCase{"DecoderOption", "/decoder/speed", "1", "\"speed\""},
        BadCase{"DecoderStrip", "/decoder",
                R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})", "negative"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(TokenizerJsonTest, RefusesBytesThatAreNotAWholeDocument) {
  const std::string whole = SmallDocument().dump();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseTokenizerJson(whole.substr(0, size), "t.json").ok()) << size;
  }
  for (const char* text : {"", "[]", "null", "3", "\"x\"", "{}", "{\"model\"", "\xFF", "{} {}"}) {
    const auto tokenizer = ParseTokenizerJson(text, "t.json");
    ASSERT_FALSE(tokenizer.ok()) << text;
    EXPECT_THAT(std::string(tokenizer.status().message()), testing::StartsWith("t.json: ")) << text;
  }
  // Keys that come twice.
  for (const std::string key : {"version", "merges", "vocab", "\"b\""}) {
    const std::string quoted = key[0] == '"' ? key : absl::StrCat("\"", key, "\"");
    const std::string doubled =
        absl::StrReplaceAll(whole, {{quoted + ":", absl::StrCat(quoted, ":",
                                                                key == "vocab"     ? "{}"
                                                                : key == "merges"  ? "[]"
                                                                : key == "version" ? "\"1.0\""
                                                                                   : "9",
                                                                ",", quoted, ":")}});
    ASSERT_NE(doubled, whole);
    EXPECT_FALSE(ParseTokenizerJson(doubled, "t.json").ok()) << key;
  }
}

TEST(TokenizerJsonTest, RefusesAMillionBrackets) {
  for (const char* bracket :
       {"[", "{\"a\":", "{\"model\":{\"merges\":[", "{\"model\":{\"vocab\":["}) {
    std::string text;
    for (int i = 0; i < 1'000'000; ++i) text += bracket;
    EXPECT_FALSE(ParseTokenizerJson(text, "t.json").ok());
  }
}

TEST(TokenizerJsonTest, RefusesBadConfigurations) {
  const json document = SmallDocument();
  for (const auto& [config, message] : std::vector<std::pair<const char*, const char*>>{
           {"[]", "object"},
           {"{", "JSON"},
           {R"({"eos_token": "<none>"})", "eos_token \"<none>\""},
           {R"({"add_bos_token": 1})", "add_bos_token"},
           {R"({"bos_token": 5})", "bos_token"},
           {R"({"split_special_tokens": true})", "split_special_tokens"},
           {R"({"added_tokens_decoder": {"x": {"content": "y"}}})", "token id"},
           {R"({"added_tokens_decoder": {"5": {"content": "y"}}})", "both have id 5"}}) {
    const auto tokenizer = Parse(document, config);
    ASSERT_FALSE(tokenizer.ok()) << config;
    EXPECT_THAT(tokenizer.status().message(), testing::HasSubstr(message)) << config;
    EXPECT_THAT(tokenizer.status().message(), testing::HasSubstr("t.json")) << config;
  }
}

TEST(TokenizerJsonTest, LongWordsTakeNoQuadraticTime) {
  const auto bpe = LoadTokenizerJson(TokenizerFixture("llama2.tokenizer.json"));
  ASSERT_OK(bpe);
  const auto unigram = LoadTokenizerJson(TokenizerFixture("unigram.tokenizer.json"));
  ASSERT_OK(unigram);
  // Without a pre-tokenizer the whole text is one word.
  for (const char* unit : {"a", "the ", "x\n", "\xE4\xB8\x96"}) {
    std::string text;
    while (text.size() < 500'000) text += unit;
    for (const auto& tokenizer : {*bpe, *unigram}) {
      const auto ids = tokenizer.Encode(text);
      ASSERT_OK(ids);
      EXPECT_GT(ids->size(), 1000u);
    }
  }
}

TEST(LoadTokenizerTest, TakesFoldersAndFiles) {
  TempFolder folder;
  EXPECT_FALSE(HasTokenizer(folder.path()));
  const auto missing = LoadTokenizer(folder.path());
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), testing::HasSubstr("tokenizer.json"));
  EXPECT_FALSE(LoadTokenizer(folder / "none.gguf").ok());
  EXPECT_FALSE(LoadTokenizer(folder / "none").ok());

  WriteOrDie(folder / "tokenizer.json", SmallDocument().dump());
  EXPECT_TRUE(HasTokenizer(folder.path()));
  EXPECT_EQ(LoadTokenizer(folder.path())->bos_id(), std::nullopt);
  WriteOrDie(folder / "special_tokens_map.json", R"({"eos_token": "b"})");
  EXPECT_EQ(LoadTokenizer(folder.path())->eos_id(), 1);
  WriteOrDie(folder / "tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": true})");
  for (const std::string& path : {folder.path(), folder / "tokenizer.json"}) {
    const auto tokenizer = LoadTokenizer(path);
    ASSERT_OK(tokenizer);
    EXPECT_EQ(tokenizer->bos_id(), 5);
  }
  EXPECT_EQ(LoadTokenizerJson(folder / "tokenizer.json")->bos_id(), std::nullopt);

  WriteOrDie(folder / "tokenizer.txt", "x");
  EXPECT_THAT(LoadTokenizer(folder / "tokenizer.txt").status().message(),
              testing::HasSubstr(".json, .model or .gguf"));
  WriteOrDie(folder / "bad.gguf", "GGUF");
  EXPECT_FALSE(LoadTokenizer(folder / "bad.gguf").ok());
}

}  // namespace
}  // namespace lorica
