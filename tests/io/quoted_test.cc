#include "lorica/io/quoted.h"

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "io_fixture.h"
#include "lorica/io/json_file.h"

namespace lorica {
namespace {

TEST(QuotedTest, EscapesAndCuts) {
  EXPECT_EQ(Quoted("a.b"), "\"a.b\"");
  EXPECT_EQ(Quoted("it's \xC3\xA9"), "\"it's \xC3\xA9\"");
  EXPECT_EQ(Quoted("a\n\x1B[0m\""), "\"a\\n\\033[0m\\\"\"");
  EXPECT_EQ(Quoted("\xC3\xA9\xFF"), "\"\\xc3\\xa9\\xff\"");
  const std::string cut = Quoted(std::string(119, 'x') + "\xC3\xA9\xC3\xA9");
  EXPECT_EQ(cut, "\"" + std::string(119, 'x') + "...\"") << "never half a character";
  EXPECT_LT(Quoted(std::string(100000, 'x')).size(), 200u);
}

TEST(QuotedTest, Shapes) {
  EXPECT_EQ(ShapeText({8, 512}), "[8, 512]");
  EXPECT_EQ(ShapeText({}), "[]");
}

TEST(NearestNameTest, FindsLikelySlipsOnly) {
  const std::vector<std::string> names = {"lora_rank", "lora_alpha", "lr"};
  EXPECT_EQ(NearestName("lora_rnak", names), "lora_rank");
  EXPECT_EQ(NearestName("lora-alpha", names), "lora_alpha");
  EXPECT_EQ(NearestName("something_else", names), "");
  EXPECT_EQ(NearestName(std::string(5000, 'x'), names), "");
}

// Against the check that the JSON library makes when it writes a string.
TEST(IsUtf8Test, AgreesWithTheJsonLibrary) {
  std::mt19937 random(3);
  const std::string pieces[] = {
      "a",        "\xC3\xA9",        "\xE2\x82\xAC",     "\xF0\x9F\x98\x80", "\x80",
      "\xC0",     "\xED\xA0\x80",    "\xF4\x90\x80\x80", "\xE0\x80\x80",     "\xF0\x80\x80\x80",
      "\xE2\x82", "\xF4\x8F\xBF\xBF"};
  int valid = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (size_t k = random() % 4; k > 0; --k) text += pieces[random() % std::size(pieces)];
    if (random() % 4 == 0) text += static_cast<char>(random());
    const bool want = JsonQuoted(text, "x").ok();
    EXPECT_EQ(IsUtf8(text), want) << Quoted(text);
    valid += want;
  }
  EXPECT_GT(valid, 100);
}

}  // namespace
}  // namespace lorica
