#include "lorica/train/records.h"

#include "gmock/gmock.h"
#include "train/text_fixture.h"

namespace lorica {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RecordsTest : public TextFixture {
 protected:
  absl::StatusOr<std::vector<Record>> ReadAll(const std::vector<std::string>& paths) {
    auto reader = RecordReader::Open(paths);
    if (!reader.ok()) return reader.status();
    std::vector<Record> records;
    while (true) {
      auto record = reader->Next();
      if (!record.ok()) return record.status();
      if (!record->has_value()) return records;
      records.push_back(**std::move(record));
    }
  }

  absl::StatusOr<std::vector<Record>> ReadText(const std::string& name, const std::string& text) {
    return ReadAll({Write(name, text)});
  }

  Record Only(const std::string& line) {
    auto records = ReadText("one.jsonl", line);
    EXPECT_TRUE(records.ok()) << records.status();
    EXPECT_EQ(records->size(), 1u);
    return records->at(0);
  }

  std::string ErrorOf(const std::string& name, const std::string& text) {
    const auto records = ReadText(name, text);
    EXPECT_FALSE(records.ok()) << text;
    std::string message(records.status().message());
    // Without the folder, which differs each time.
    const size_t at = message.find(folder_ + "/");
    if (at != std::string::npos) message.erase(at, folder_.size() + 1);
    return message;
  }
};

std::string Json(const jinja::Value& value) { return *jinja::ToJson(value); }

TEST_F(RecordsTest, Messages) {
  const Record record = Only(
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "x": null}], "tools": "[{\"name\": \"f\"}]", "id": 7})");
  EXPECT_EQ(record.format, RecordFormat::kMessages);
  EXPECT_TRUE(record.has_messages);
  EXPECT_EQ(Json(record.messages),
            R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}])");
  EXPECT_EQ(Json(record.tools), R"([{"name": "f"}])");
  EXPECT_EQ(record.prompt_messages, 0u);
}

TEST_F(RecordsTest, Conversations) {
  const Record record = Only(
      R"({"system": "S", "conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"}, {"from": "observation", "value": "r"}, {"from": "gpt", "value": "a"}]})");
  EXPECT_EQ(record.format, RecordFormat::kConversations);
  EXPECT_EQ(
      Json(record.messages),
      R"([{"role": "system", "content": "S"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]}, {"role": "tool", "content": "r"}, {"role": "assistant", "content": "a"}])");
}

TEST_F(RecordsTest, PromptAndCompletion) {
  Record record = Only(R"({"prompt": "p", "completion": "c"})");
  EXPECT_EQ(record.format, RecordFormat::kPromptCompletion);
  EXPECT_FALSE(record.has_messages);
  EXPECT_EQ(record.prompt, "p");
  EXPECT_EQ(record.completion, "c");
  record = Only(
      R"({"prompt": [{"role": "user", "content": "p"}], "completion": [{"role": "assistant", "content": "c"}]})");
  EXPECT_TRUE(record.has_messages);
  EXPECT_EQ(record.prompt_messages, 1u);
  EXPECT_EQ(record.messages.as_list().size(), 2u);
}

TEST_F(RecordsTest, Instruction) {
  const Record record = Only(
      R"({"instruction": "Add", "input": "1 2", "output": "3", "system": "S", "history": [["q", "a"]]})");
  EXPECT_EQ(record.format, RecordFormat::kInstruction);
  EXPECT_EQ(
      Json(record.messages),
      R"([{"role": "system", "content": "S"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "Add\n1 2"}, {"role": "assistant", "content": "3"}])");
  EXPECT_EQ(Json(Only(R"({"instruction": "Hi", "input": "", "output": "yo"})").messages),
            R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "yo"}])");
}

TEST_F(RecordsTest, QuestionAndAnswerAreAnInstruction) {
  const Record record = Only(R"({"question": "1 + 1?", "answer": "2"})");
  EXPECT_EQ(record.format, RecordFormat::kInstruction);
  EXPECT_EQ(Json(record.messages),
            R"([{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}])");
}

TEST_F(RecordsTest, TextAndTokens) {
  EXPECT_EQ(Only(R"({"text": "abc"})").text, "abc");
  Record record = Only(R"({"input_ids": [1, 2, 3]})");
  EXPECT_EQ(record.format, RecordFormat::kTokens);
  EXPECT_THAT(record.labels, ElementsAre(1, 2, 3));
  record = Only(
      R"({"input_ids": [0, 5, 6, 7, 0], "labels": [-100, -100, 6, 9, -100], "attention_mask": [0, 1, 1, 1, 0]})");
  EXPECT_THAT(record.ids, ElementsAre(5, 6, 7));
  EXPECT_THAT(record.labels, ElementsAre(-100, 6, 9));
}

TEST_F(RecordsTest, ArraysAndLinesAndLooseObjects) {
  const std::string a = R"({"text": "a [{\"\\"})";
  const std::string b = R"({"text": "b\n}]"})";
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"x.jsonl", a + "\n\n" + b + "\n"},
           {"x.jsonl", "\xEF\xBB\xBF" + a + "\r\n  \r\n" + b},
           {"x.json", "[" + a + "," + b + "]"},
           {"x.jsonl", "[\n" + a + ",\n" + b + "\n]\n"},
           {"x.json", "\xEF\xBB\xBF \n[ " + a + " , " + b + " ] \n"},
           {"x.json", a + "\n" + b},
           {"x.json", "\n{\n\"text\":\n\"a [{\\\"\\\\\"\n}\n" + b}}) {
    const auto records = ReadText(name, text);
    ASSERT_TRUE(records.ok()) << records.status() << text;
    ASSERT_EQ(records->size(), 2u) << text;
    EXPECT_EQ(records->at(0).text, "a [{\"\\");
    EXPECT_EQ(records->at(1).text, "b\n}]");
    EXPECT_EQ(records->at(1).index, 1);
  }
}

TEST_F(RecordsTest, RecordsAcrossTheReadersPieces) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += R"({"text": ")" + std::string(20011, static_cast<char>('a' + i % 26)) + "\"}\n";
  }
  const auto records = ReadText("x.jsonl", text);
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 40u);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(records->at(i).text, std::string(20011, static_cast<char>('a' + i % 26)));
  }
}

TEST_F(RecordsTest, SeveralFilesCountOn) {
  const auto records =
      ReadAll({Write("a.jsonl", R"({"text": "a"})"), Write("b.json", R"([{"text": "b"}])")});
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ(records->at(1).index, 1);
  EXPECT_THAT(records->at(1).where, HasSubstr("b.json, record 1"));
}

TEST_F(RecordsTest, MixedFormatsAreRefused) {
  EXPECT_EQ(
      ErrorOf("x.jsonl", "{\"text\": \"a\"}\n\n{\"prompt\": \"a\", \"completion\": \"b\"}\n"),
      "x.jsonl, line 3: the record holds prompt and completion, the first one text; all must be "
      "of one format");
}

TEST_F(RecordsTest, ErrorsNamePlaceAndReason) {
  const auto expect = [&](const std::string& name, const std::string& text,
                          const std::string& part) {
    EXPECT_THAT(ErrorOf(name, text), HasSubstr(part)) << text;
  };
  expect("x.jsonl", "", "x.jsonl: no records");
  expect("x.jsonl", "\n \n", "x.jsonl: no records");
  expect("x.json", "[]", "x.json: no records");
  expect("x.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\n", "x.jsonl, line 2: invalid JSON at byte");
  expect("x.jsonl", "{\"text\": \"\xFF\"}", "x.jsonl, line 1: invalid JSON at byte");
  expect("x.jsonl", "5", "line 1: expected a JSON object");
  expect("x.jsonl", "{}", "found no keys");
  expect("x.jsonl", R"({"question": "q", "reply": "a"})", "found \"question\", \"reply\"");
  expect("x.json", R"([{"text": "a"})", "isn't closed behind record 1");
  expect("x.json", R"([{"text": "a"} {"text": "b"}])", "expected ',' or ']' behind record 1");
  expect("x.json", R"([{"text": "a"}] x)", "expected the end of the file");
  expect("x.json", R"([{"text": "a)", "ends inside record 1");
  expect("x.json", R"([{"text": "a"},])", "record 2: invalid JSON");
  expect("x.json", R"(]{"text": "a"})", "record 1: invalid JSON");
  expect("x.jsonl", R"({"text": 5})", "expected \"text\" to be a string");
  expect("x.jsonl", R"({"messages": {}})", "expected a list of messages");
  expect("x.jsonl", R"({"messages": []})", "no messages");
  expect("x.jsonl", R"({"messages": [{"content": "a"}]})", "message 1 has no role");
  expect("x.jsonl", R"({"messages": [{"role": "user"}], "tools": 5})", "tools");
  expect("x.jsonl", R"({"conversations": [{"from": "alien", "value": "a"}]})",
         "turn 1 is from \"alien\"");
  expect("x.jsonl", R"({"conversations": [{"from": "human"}]})", "expected turn 1");
  expect("x.jsonl", R"({"conversations": [{"from": "function_call", "value": "call f"}]})",
         "turn 1: a function call isn't JSON");
  expect("x.jsonl", R"({"prompt": "a", "completion": []})", "two strings or two lists");
  expect("x.jsonl", R"({"instruction": "a", "output": 5})", "expected \"output\" to be a string");
  expect("x.jsonl", R"({"instruction": "a", "output": "b", "history": [["c"]]})", "pairs");
  expect("x.jsonl", R"({"input_ids": []})", "no tokens");
  expect("x.jsonl", R"({"input_ids": [1, -5]})", "element 1 of \"input_ids\"");
  expect("x.jsonl", R"({"input_ids": [1.5]})", "element 0");
  expect("x.jsonl", R"({"input_ids": [99999999999]})", "element 0");
  expect("x.jsonl", R"({"input_ids": [1, 2], "labels": [1]})", "2 input_ids, but 1 labels");
  expect("x.jsonl", R"({"input_ids": [1], "labels": [-5]})", "the label -5");
  expect("x.jsonl", R"({"input_ids": [1, 2, 3], "attention_mask": [1, 0, 1]})", "attention_mask");
  expect("x.jsonl", R"({"input_ids": [1], "attention_mask": [1, 1]})", "attention_mask of 2");
  expect("x.jsonl", std::string(100000, '['), "");
  expect("x.jsonl", "{\"text\":" + std::string(100000, '['), "levels");
}

TEST_F(RecordsTest, FilesThatCannotBeRead) {
  EXPECT_TRUE(absl::IsNotFound(RecordReader::Open({folder_ + "/absent"}).status()));
  EXPECT_FALSE(RecordReader::Open({folder_}).ok());
  EXPECT_FALSE(RecordReader::Open({}).ok());
}

}  // namespace
}  // namespace lorica
