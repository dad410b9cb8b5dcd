// The table of docs/peft.md against the parser and against PEFT's own list of keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lorica/peft/peft_config.h"

namespace lorica {
namespace {

using ::nlohmann::json;
using ::testing::HasSubstr;

struct Row {
  json standard;
  std::string here;  // "used", "neutral", "ignored"
  std::string refused;
};

std::string Cell(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  absl::ConsumePrefix(&text, "`");
  absl::ConsumeSuffix(&text, "`");
  return std::string(text);
}

std::map<std::string, Row> Table() {
  std::map<std::string, Row> table;
  std::ifstream file(LORICA_SOURCE_ROOT "/docs/peft.md");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 6) continue;
    table[Cell(cells[1])] = {json::parse(Cell(cells[2])), Cell(cells[3]), Cell(cells[4])};
  }
  return table;
}

absl::Status Parse(const std::string& key, const json& value) {
  json config = {{"peft_type", "LORA"}, {"target_modules", {"q_proj"}}};
  config[key] = value;
  return ParsePeftConfig(config.dump(), "config").status();
}

TEST(PeftKeysTest, TableHasEveryKeyOfPeftWithItsDefault) {
  std::ifstream file(LORICA_SOURCE_ROOT "/tests/golden/peft_variants/keys.json");
  const json keys = json::parse(file)["defaults"];
  std::map<std::string, Row> table = Table();
  for (const auto& [key, standard] : keys.items()) {
    ASSERT_EQ(table.count(key), 1u) << key;
    EXPECT_EQ(table.at(key).standard, standard) << key;
    table.erase(key);
  }
  for (const auto& [key, row] : table) ADD_FAILURE() << key << " is no key of PEFT";
}

TEST(PeftKeysTest, DefaultsAreAccepted) {
  for (const auto& [key, row] : Table()) {
    if (key == "target_modules") continue;  // must name something
    EXPECT_TRUE(Parse(key, row.standard).ok()) << key << ": " << Parse(key, row.standard);
    EXPECT_TRUE(key == "peft_type" || Parse(key, nullptr).ok()) << key;
  }
}

TEST(PeftKeysTest, RefusedValuesAreRefusedByName) {
  for (const auto& [key, row] : Table()) {
    if (row.here == "ignored") {
      EXPECT_EQ(row.refused, "") << key;
      for (const json& any : {json(3), json("text"), json::array({1}), json{{"a", 1}}}) {
        EXPECT_TRUE(Parse(key, any).ok()) << key << " " << any;
      }
      continue;
    }
    ASSERT_TRUE(row.here == "used" || row.here == "neutral") << key;
    ASSERT_NE(row.refused, "") << key;
    const absl::Status status = Parse(key, json::parse(row.refused));
    EXPECT_FALSE(status.ok()) << key;
    EXPECT_THAT(std::string(status.message()), HasSubstr(key));
    EXPECT_TRUE(row.here == "used" || absl::IsUnimplemented(status)) << key;
  }
}

TEST(PeftKeysTest, LayersNeedAListOfNames) {
  const auto parse = [](json config) {
    config["peft_type"] = "LORA";
    return ParsePeftConfig(config.dump(), "config");
  };
  EXPECT_THAT(
      std::string(
          parse({{"target_modules", ".*q_proj"}, {"layers_to_transform", 1}}).status().message()),
      HasSubstr("layers_to_transform: expected a list of names"));
  const auto plain =
      parse({{"target_modules", {"q_proj", "a.0.b.1.k_proj"}}, {"layers_to_transform", {0, 10}}});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(plain->Adapts("model.layers.0.q_proj"));
  EXPECT_TRUE(plain->Adapts("model.layers.10.x.3.q_proj"));
  EXPECT_FALSE(plain->Adapts("model.layers.1.x.0.q_proj"));
  EXPECT_FALSE(plain->Adapts("layers.0.q_proj"));  // one name before the number
  EXPECT_FALSE(plain->Adapts("model.q_proj"));
  EXPECT_TRUE(plain->Adapts("a.0.b.1.k_proj"));
  const auto pattern = parse({{"target_modules", {"q_proj"}},
                              {"layers_to_transform", {0}},
                              {"layers_pattern", {"h|blocks", "layers"}}});
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_TRUE(pattern->Adapts("layers.0.q_proj"));
  EXPECT_TRUE(pattern->Adapts("model.1.layers.0.q_proj"));
  EXPECT_FALSE(pattern->Adapts("model.layers.1.layers.0.q_proj"));
}

TEST(PeftKeysTest, SavedModulesAreNeverAdapted) {
  const auto config = ParsePeftConfig(
      R"({"peft_type": "LORA", "target_modules": "all-linear", "modules_to_save": ["lm_head"]})",
      "config");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->Saves("lm_head"));
  EXPECT_TRUE(config->Saves("model.lm_head"));
  EXPECT_FALSE(config->Saves("not_lm_head"));
  EXPECT_FALSE(config->Adapts("lm_head"));
  EXPECT_FALSE(config->Adapts("lm_head.inner"));
  EXPECT_TRUE(config->Adapts("model.q_proj"));
}

}  // namespace
}  // namespace lorica
