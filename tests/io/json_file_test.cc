#include "lorica/io/json_file.h"

#include <nlohmann/json.hpp>
#include <string>

#include "io_fixture.h"

namespace lorica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(absl::string_view text, const JsonOptions& options = {}) {
  const auto json = ParseJson(text, "x.json", options);
  return json.ok() ? "no error" : std::string(json.status().message());
}

TEST(JsonFileTest, ParsesEveryKindOfValue) {
  const auto json = ParseJson(R"({"a": [1, -2, 2.5, true, null, "s"], "b": {"c": {}}})", "x");
  ASSERT_OK(json);
  EXPECT_EQ(json->dump(), R"({"a":[1,-2,2.5,true,null,"s"],"b":{"c":{}}})");
}

TEST(JsonFileTest, SkipsByteOrderMark) {
  const auto json = ParseJson("\xEF\xBB\xBF[1]", "x");
  ASSERT_OK(json);
  EXPECT_EQ(json->dump(), "[1]");
}

TEST(JsonFileTest, ErrorsCarryPathAndByteOffset) {
  EXPECT_THAT(ErrorOf(R"({"a": 1,})"), HasSubstr("x.json: JSON at byte 8: "));
  EXPECT_THAT(ErrorOf("\xEF\xBB\xBF{\"a\": 1,}"), HasSubstr("at byte 11: "));
  EXPECT_THAT(ErrorOf("[1] 2"), HasSubstr("at byte 4: "));
  EXPECT_THAT(ErrorOf(""), HasSubstr("at byte 0: "));
  EXPECT_THAT(ErrorOf("[1e999]"), HasSubstr("number overflow"));
}

TEST(JsonFileTest, RefusesInvalidUtf8) {
  EXPECT_THAT(ErrorOf("[\"\xFF\"]"), HasSubstr("at byte 2: "));
  EXPECT_THAT(ErrorOf("[\"\xC0\x80\"]"), HasSubstr("x.json"));
  EXPECT_THAT(ErrorOf(R"(["\ud800"])"), HasSubstr("x.json"));
}

TEST(JsonFileTest, BoundsDepth) {
  const std::string deep(200000, '[');
  EXPECT_THAT(ErrorOf(deep), HasSubstr("at byte 65: nested deeper than 64 levels"));
  EXPECT_EQ(ErrorOf("[[[]]]", {.max_depth = 3}), "no error");
  EXPECT_THAT(ErrorOf("[[[]]]", {.max_depth = 2}), HasSubstr("nested deeper than 2 levels"));
  EXPECT_THAT(ErrorOf(R"({"a":{"b":{}}})", {.max_depth = 2}), HasSubstr("nested deeper"));
}

TEST(JsonFileTest, BoundsSizeAndCount) {
  EXPECT_THAT(ErrorOf("[1, 2]", {.max_bytes = 5}), HasSubstr("at most 5 bytes of JSON, found 6"));
  EXPECT_EQ(ErrorOf("[1, 2]", {.max_values = 3}), "no error");
  EXPECT_THAT(ErrorOf("[1, 2, 3]", {.max_values = 3}), HasSubstr("at most 3 values"));
}

TEST(JsonFileTest, RefusesRepeatedKeys) {
  EXPECT_THAT(ErrorOf(R"({"a": 1, "b": {"a": 2}, "a": 3})"),
              HasSubstr("key \"a\" occurs twice in one object"));
  EXPECT_EQ(ErrorOf(R"({"a": 1, "b": {"a": 2}})"), "no error");
  const auto json = ParseJson(R"({"a": 1, "a": 2})", "x", {.unique_keys = false});
  ASSERT_OK(json);
  EXPECT_EQ(json->dump(), R"({"a":2})");
}

TEST(JsonFileTest, OrderedKeepsFileOrder) {
  const auto json = ParseOrderedJson(R"({"z": 1, "a": {"y": 1, "b": 2}})", "x");
  ASSERT_OK(json);
  EXPECT_EQ(json->dump(), R"({"z":1,"a":{"y":1,"b":2}})");
  EXPECT_FALSE(ParseOrderedJson("[" + std::string(120000, ' ') + "]]", "x").ok());
}

TEST(JsonFileTest, ReadsFilesAndNamesAbsentOnes) {
  const TempFolder folder;
  WriteOrDie(folder / "a.json", "{\"k\": 7}");
  const auto json = ReadJsonFile(folder / "a.json");
  ASSERT_OK(json);
  EXPECT_EQ((*json)["k"], 7);
  const auto absent = ReadJsonFile(folder / "b.json");
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr(folder / "b.json"));
}

class JsonObjectTest : public testing::Test {
 protected:
  const Json json_ = Json::parse(R"({
    "s": "text", "i": 16, "n": -3, "f": 2.5, "w": 16.0, "b": true, "null": null, "big": 18446744073709551615,
    "o": {"x": {"y": "no"}}, "strings": ["a", "b"], "mixed": ["a", 1], "ints": [1, 2.0], "floats": [1, 2.5]
  })");
  const JsonObject object_ = *JsonObject::Of(json_, "c.json");
};

TEST_F(JsonObjectTest, ReadsFieldsByType) {
  EXPECT_EQ(*object_.String("s"), "text");
  EXPECT_EQ(*object_.Int("i"), 16);
  EXPECT_EQ(*object_.Int("n"), -3);
  EXPECT_EQ(*object_.Int("w"), 16);
  EXPECT_EQ(*object_.Double("f"), 2.5);
  EXPECT_EQ(*object_.Double("i"), 16.0);
  EXPECT_EQ(*object_.Bool("b"), true);
  EXPECT_THAT(*object_.Strings("strings"), ElementsAre("a", "b"));
  EXPECT_THAT(*object_.Ints("ints"), ElementsAre(1, 2));
  EXPECT_THAT(*object_.Doubles("floats"), ElementsAre(1.0, 2.5));
}

TEST_F(JsonObjectTest, NullCountsAsAbsent) {
  EXPECT_FALSE(object_.Has("null"));
  EXPECT_EQ(*object_.IntOr("null", 5), 5);
  EXPECT_EQ(*object_.IntOr("absent", 6), 6);
  EXPECT_EQ(*object_.IntOr("i", 7), 16);
  EXPECT_EQ(*object_.StringOr("absent", "d"), "d");
  EXPECT_FALSE(object_.IntOr("s", 5).ok());
}

TEST_F(JsonObjectTest, ErrorsNameKeyAndTypes) {
  EXPECT_EQ(object_.Int("s").status().message(),
            "c.json: s: expected an integer, found a string (\"text\")");
  EXPECT_EQ(object_.Int("f").status().message(),
            "c.json: f: expected an integer, found a fractional number (2.5)");
  EXPECT_EQ(object_.Int("absent").status().message(),
            "c.json: absent: expected an integer, found nothing");
  EXPECT_EQ(object_.String("null").status().message(),
            "c.json: null: expected a string, found null");
  EXPECT_EQ(object_.Strings("mixed").status().message(),
            "c.json: mixed: expected an array of strings, found an integer at index 1");
  EXPECT_FALSE(object_.Int("big").ok());
  EXPECT_EQ(object_.Object("o")->Object("x")->Int("y").status().message(),
            "c.json: o.x.y: expected an integer, found a string (\"no\")");
  EXPECT_EQ(JsonObject::Of(Json::array(), "c.json").status().message(),
            "c.json: expected a JSON object, found an array");
}

}  // namespace
}  // namespace lorica
