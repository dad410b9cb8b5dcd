#include "lorica/text/gguf_tokenizer.h"

#include <set>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "lorica/io/gguf.h"
#include "lorica/text/gguf_pretokenizers.h"
#include "text/tokenizer_fixtures.h"

namespace lorica {
namespace {

// The vocabulary of a committed tokenizer.json as GGUF metadata.
GgufTokenizer MetadataOf(const std::string& name) {
  const nlohmann::json document = ReadJson(TokenizerFixture(name + ".tokenizer.json"));
  GgufTokenizer result;
  result.model = "gpt2";
  const auto set = [&](size_t id, const std::string& piece, int32_t type) {
    if (id >= result.tokens.size()) {
      result.tokens.resize(id + 1);
      result.token_types.resize(id + 1, kGgufTokenNormal);
    }
    result.tokens[id] = piece;
    result.token_types[id] = type;
  };
  for (const auto& [piece, id] : document["model"]["vocab"].items()) {
    set(id.get<size_t>(), piece, kGgufTokenNormal);
  }
  for (const nlohmann::json& token : document["added_tokens"]) {
    set(token["id"].get<size_t>(), token["content"].get<std::string>(),
        token["special"].get<bool>() ? kGgufTokenControl : kGgufTokenUserDefined);
  }
  for (const nlohmann::json& merge : document["model"]["merges"]) {
    result.merges.push_back(
        absl::StrCat(merge[0].get<std::string>(), " ", merge[1].get<std::string>()));
  }
  return result;
}

class GgufPreTokenizerTest : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(GgufPreTokenizerTest, GivesTheIdsOfTheTokenizerThatItNames) {
  const auto [pre, fixture] = GetParam();
  GgufTokenizer metadata = MetadataOf(fixture);
  metadata.pre = pre;
  const auto tokenizer = TokenizerFromGguf(std::move(metadata), "t.gguf");
  ASSERT_OK(tokenizer);
  const nlohmann::json texts = ReadJson(TokenizerFixture("texts.json"));
  const nlohmann::json rows = ReadJson(TokenizerFixture(absl::StrCat(fixture, ".expected.json")));
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    const auto expected = rows[i]["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(*tokenizer->Encode(text, {.add_special_tokens = false}), expected) << text;
    EXPECT_EQ(*tokenizer->Decode(expected), rows[i]["decoded"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufPreTokenizerTest,
                         testing::Values(std::pair("smollm", "smollm"),
                                         std::pair("llama-bpe", "llama3"),
                                         std::pair("deepseek-v3", "deepseek"),
                                         std::pair("gpt-4o", "o200k")),
                         [](const auto& row) { return std::string(row.param.second); });

TEST(GgufTokenizerTest, EveryPreTokenizerCutsAsTheTokenizerItStandsFor) {
  const nlohmann::json golden = ReadJson(LORICA_SOURCE_ROOT "/tests/golden/pretokenizers.json");
  for (const auto& [pre, rows] : golden["ids"].items()) {
    GgufTokenizer metadata = MetadataOf("gpt2");
    // Without the added tokens.
    for (int32_t& type : metadata.token_types) type = kGgufTokenNormal;
    metadata.pre = pre;
    const auto tokenizer = TokenizerFromGguf(std::move(metadata), "t.gguf");
    ASSERT_OK(tokenizer);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto text = golden["texts"][i].get<std::string>();
      EXPECT_EQ(*tokenizer->Encode(text, {.add_special_tokens = false}),
                rows[i].get<std::vector<int32_t>>())
          << pre << ": " << text;
    }
  }
}

TEST(GgufTokenizerTest, EveryKnownNameBuilds) {
  const std::vector<std::string> names = absl::StrSplit(GgufPreTokenizerNames(), ", ");
  EXPECT_GE(names.size(), 50u);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    GgufTokenizer metadata = MetadataOf("smollm");
    metadata.pre = name;
    EXPECT_TRUE(TokenizerFromGguf(std::move(metadata), "t.gguf").ok()) << name;
  }
}

TEST(GgufTokenizerTest, EndsAndSpecialTokensComeFromTheMetadata) {
  GgufTokenizer metadata = MetadataOf("smollm");
  const auto end = static_cast<int32_t>(metadata.tokens.size());
  metadata.tokens.push_back("<bos>");
  metadata.token_types.push_back(kGgufTokenNormal);
  metadata.bos_id = end;
  metadata.eos_id = metadata.pad_id = end - 1;  // <|im_end|>
  metadata.add_bos = true;
  const auto tokenizer = TokenizerFromGguf(metadata, "t.gguf");
  ASSERT_OK(tokenizer);
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_FALSE(tokenizer->add_eos());
  EXPECT_EQ(tokenizer->eos_id(), end - 1);
  EXPECT_TRUE(tokenizer->IsSpecial(end));
  const auto a = *tokenizer->TokenToId("a");
  EXPECT_EQ(*tokenizer->Encode("a<|im_end|><bos>"), (std::vector<int32_t>{end, a, end - 1, end}));
  metadata.add_bos.reset();
  EXPECT_FALSE(TokenizerFromGguf(metadata, "t.gguf")->add_bos());
  metadata.pre = "llama-bpe";  // which adds it unless told not to
  EXPECT_TRUE(TokenizerFromGguf(metadata, "t.gguf")->add_bos());
  metadata.add_bos = false;
  EXPECT_FALSE(TokenizerFromGguf(metadata, "t.gguf")->add_bos());
}

// Files made of weights alone name no tokenizer, or say "none".
TEST(GgufTokenizerTest, FilesMayHaveNone) {
  TempFolder folder;
  for (const char* model : {"", "none", "no_vocab", "gpt2"}) {
    GgufMetadata metadata;
    metadata.SetString("general.architecture", "llama");
    if (*model != 0) metadata.SetString("tokenizer.ggml.model", model);
    const std::string path = folder / absl::StrCat(model, "m.gguf");
    auto file = PosixFiles().Open(path, OpenMode::kReplace);
    ASSERT_OK(file);
    auto writer = GgufWriter::Begin(**file, metadata, {});
    ASSERT_OK(writer);
    ASSERT_TRUE(writer->Finish().ok() && (*file)->Close().ok());
    EXPECT_EQ(HasTokenizer(path), absl::string_view(model) == "gpt2") << model;
  }
}

TEST(GgufTokenizerTest, RefusesMetadataThatContradictsItself) {
  const GgufTokenizer good = MetadataOf("smollm");
  const auto message = [&](auto change) {
    GgufTokenizer metadata = good;
    change(metadata);
    const auto tokenizer = TokenizerFromGguf(metadata, "t.gguf");
    EXPECT_FALSE(tokenizer.ok());
    return std::string(tokenizer.status().message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& m) { m.pre = "secret"; }),
              testing::AllOf(HasSubstr("t.gguf: "), HasSubstr("\"secret\""), HasSubstr("smollm"),
                             HasSubstr("llama-bpe")));
  EXPECT_THAT(message([](auto& m) { m.model = "rwkv"; }), HasSubstr("\"rwkv\""));
  EXPECT_THAT(message([](auto& m) { m.token_types.pop_back(); }), HasSubstr("token_type"));
  EXPECT_THAT(message([](auto& m) { m.scores = {1}; }), HasSubstr("scores"));
  EXPECT_THAT(message([](auto& m) { m.bos_id = 100000; }), HasSubstr("bos_token_id is 100000"));
  EXPECT_THAT(message([](auto& m) { m.eos_id = -1; }), HasSubstr("eos_token_id is -1"));
  EXPECT_THAT(message([](auto& m) { m.add_eos = true; }), HasSubstr("EOS"));
  EXPECT_THAT(message([](auto& m) { m.merges[0] = "ab"; }), HasSubstr("merge 0"));
  EXPECT_THAT(message([](auto& m) { m.merges[0] = "a "; }), HasSubstr("merge 0"));
  EXPECT_THAT(message([](auto& m) { m.merges[0] = "qq zz"; }), HasSubstr("merge 0"));
  EXPECT_THAT(message([](auto& m) { m.tokens[3] = "\xFF"; }), HasSubstr("token 3"));
}

}  // namespace
}  // namespace lorica
