#include "lorica/train/text_model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/train/records.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

jinja::Value Json(const std::string& text) {
  const auto value = jinja::ParseJson(text);
  EXPECT_TRUE(value.ok()) << value.status();
  return *value;
}

TEST(PromptFromJsonTest, MessagesAreBroughtIntoTheFormOfTrainingData) {
  const std::string text = R"({"messages": [
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "tool_calls": null, "reasoning": "why"},
      {"role": "user", "content": "q"}], "tools": "[{\"name\": \"f\"}]"})";
  const auto prompt = PromptFromJson(Json(text), "chat.json");
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  const auto record = ParseRecord(Json(text), std::nullopt, "chat.json");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(*jinja::ToJson(prompt->messages), *jinja::ToJson(record->messages));
  EXPECT_EQ(*jinja::ToJson(prompt->tools), *jinja::ToJson(record->tools));
  EXPECT_TRUE(prompt->messages.as_list()[0].Get("content").is_list());  // templates may read it
  EXPECT_EQ(prompt->messages.as_list()[1].Get("reasoning_content").as_string(), "why");
  EXPECT_EQ(prompt->tools.as_list().size(), 1u);
}

TEST(PromptFromJsonTest, EveryFormOfAPrompt) {
  EXPECT_EQ(
      PromptFromJson(Json(R"([{"role": "user", "content": "a"}])"), "f")->messages.as_list().size(),
      1u);
  EXPECT_EQ(PromptFromJson(Json(R"({"prompt": "a"})"), "f")->text, "a");
  EXPECT_TRUE(PromptFromJson(Json(R"({"prompt": [{"role": "user", "content": "a"}]})"), "f")
                  ->messages.is_list());
  EXPECT_EQ(PromptFromJson(Json(R"({"input_ids": [1, 2]})"), "f")->ids,
            (std::vector<int32_t>{1, 2}));
}

TEST(PromptFromJsonTest, WhatIsWrongIsNamed) {
  for (const auto& [text, message] :
       std::vector<std::pair<const char*, const char*>>{{"{}", "\"messages\""},
                                                        {R"([{"content": "a"}])", "message 1"},
                                                        {R"({"messages": [5]})", "message 1"},
                                                        {R"({"input_ids": [-1]})", "input_ids"},
                                                        {R"({"messages": [{"role": "user"}],
                                                             "tools": "{"})",
                                                         "tools"}}) {
    const auto status = PromptFromJson(Json(text), "chat.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chat.json"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace lorica
