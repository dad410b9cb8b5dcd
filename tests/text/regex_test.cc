#include "lorica/text/regex.h"

#include <ctime>

#include "io/io_fixture.h"

namespace lorica {
namespace {

std::vector<std::string> Matches(absl::string_view pattern, absl::string_view text) {
  const auto regex = Regex::Compile(pattern);
  if (!regex.ok()) return {regex.status().ToString()};
  Regex::Scratch scratch;
  std::vector<ByteRange> ranges;
  const absl::Status status = regex->FindAll(text, &scratch, &ranges);
  if (!status.ok()) return {status.ToString()};
  std::vector<std::string> result;
  for (const ByteRange& range : ranges) {
    result.emplace_back(text.substr(range.begin, range.size()));
  }
  return result;
}

using Strings = std::vector<std::string>;

TEST(RegexTest, WhiteSpaceIsUnicodes) {
  // U+180E was white space once and still is to PCRE2; U+0085 and U+2003 are.
  EXPECT_EQ(Matches(R"(\s+)", "a\xE1\xA0\x8E \xC2\x85\xE2\x80\x83z"),
            Strings{" \xC2\x85\xE2\x80\x83"});
  EXPECT_EQ(Matches(R"([^\S ]+)", "a \t\nz"), Strings{"\t\n"});
}

TEST(RegexTest, WordsHoldMarksAndConnectors) {
  EXPECT_EQ(Matches(R"(\w+)", "e\xCC\x81t\xE2\x80\xBFx-y"),
            (Strings{"e\xCC\x81t\xE2\x80\xBFx", "y"}));
  EXPECT_EQ(Matches(R"(\bx)", "e\xCC\x81x x"), Strings{"x"});
  EXPECT_EQ(Matches(R"(\Bx)", "e\xCC\x81x x"), Strings{"x"});
}

TEST(RegexTest, KnowsLettersOfUnicode16) {
  EXPECT_EQ(Matches(R"(\p{L}+)", "a\xF0\xB1\x8D\x90-"), Strings{"a\xF0\xB1\x8D\x90"});
  EXPECT_EQ(Matches(R"([^\p{L}]+)", "a\xF0\xB1\x8D\x90-"), Strings{"-"});
  EXPECT_EQ(Matches(R"(\P{L}+)", "a\xF0\xB1\x8D\x90-"), Strings{"-"});
}

TEST(RegexTest, HasOnigurumasSyntax) {
  EXPECT_EQ(Matches(R"([a-z&&[^aeiou]]+)", "banana"), (Strings{"b", "n", "n"}));
  EXPECT_EQ(Matches(R"([[a-c][x-z]]+)", "abxkyz"), (Strings{"abx", "yz"}));
  EXPECT_EQ(Matches(R"([^[a-c][x-z]]+)", "abxkyz"), Strings{"k"});
  EXPECT_EQ(Matches(R"(\h+)", "xBEEF0g"), Strings{"BEEF0"});
  EXPECT_EQ(Matches(R"(ab{,2}c)", "ac abbc abbbc"), (Strings{"ac", "abbc"}));
  EXPECT_EQ(Matches(R"(\d{2}+)", "12345"), Strings{"1234"});  // repeated, not possessive
  EXPECT_EQ(Matches(R"([[:alpha:]_]+)", "ab_1"), Strings{"ab_"});
  EXPECT_EQ(Matches(R"((?i:'s|'t)|(?:x))", "'S x'T"), (Strings{"'S", "x", "'T"}));
  EXPECT_EQ(Matches(R"(^a$)", "a\nb\na"), (Strings{"a", "a"}));
  EXPECT_EQ(Matches(R"(\p{Han}+|\p{^L}+)", "x\xE4\xB8\x96 1"), (Strings{"\xE4\xB8\x96", " 1"}));
  EXPECT_EQ(Matches("a{", "a{"), Strings{"a{"});
}

TEST(RegexTest, PassesOverAnEmptyMatchBehindAMatch) {
  EXPECT_EQ(Matches("a*", "baac"), (Strings{"", "aa", ""}));
  EXPECT_EQ(Matches("", "\xC3\xA9"), (Strings{"", ""}));
}

TEST(RegexTest, RefusesWhatHasNoEquivalentByName) {
  for (const char* pattern : {R"((a)\1)", R"((?<n>a))", R"(\K)", R"(\X)", "(*FAIL)", "(?~ab)",
                              R"(\p{In_Arrows})", R"(a(?i)b)", "[]a]", R"([a)", R"(\xFF)", R"(\)",
                              "(", R"(\p{Nonsense})", "a**", R"(\p{Cn})", R"((?x: a))"}) {
    const auto regex = Regex::Compile(pattern);
    EXPECT_FALSE(regex.ok()) << pattern;
    EXPECT_THAT(regex.status().message(), testing::HasSubstr("regular expression")) << pattern;
  }
  EXPECT_FALSE(Regex::Compile(std::string(100'000, 'a')).ok());
  EXPECT_FALSE(Regex::Compile("\xFF").ok());
  EXPECT_FALSE(Regex::Compile(std::string(1000, '[')).ok());
  EXPECT_FALSE(Regex::Compile(std::string(1000, '(')).ok());
}

TEST(RegexTest, EndsAPatternThatBacktracksForever) {
  const std::string text(2000, 'a');
  for (const char* pattern : {"(a+)+b", "(a|aa)+b", "a*a*a*a*a*b", "(?:a?){50}b", "(.*)*x"}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_OK(regex);
    Regex::Scratch scratch;
    std::vector<ByteRange> ranges;
    const std::clock_t began = std::clock();
    const absl::Status status = regex->FindAll(text, &scratch, &ranges);
    const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 10) << pattern;
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    }
  }
}

TEST(RegexTest, TakesLongRunsInPublishedPatterns) {
  constexpr char kGpt2[] =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  constexpr char kLines[] = R"(\s*[\r\n]+|\s+(?!\S)|\s+|\S+)";
  for (const char* pattern : {kGpt2, kLines}) {
    for (const char* unit : {" ", "a", "1", "-", "\n", "\xE4\xB8\x96"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const auto matches = Matches(pattern, text + "x");
      ASSERT_GE(matches.size(), 1u);
      size_t size = 0;
      for (const std::string& match : matches) size += match.size();
      EXPECT_EQ(size, text.size() + 1) << pattern << " on " << unit;
    }
  }
}

}  // namespace
}  // namespace lorica
