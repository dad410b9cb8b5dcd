#include "lorica/text/chat_template.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/text/chat_messages.h"

namespace lorica {
namespace {

using jinja::ParseJson;
using jinja::Value;
using ::testing::HasSubstr;

class ChatTemplateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/chat_template_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::string folder_;
};

Value Json(const std::string& text) {
  const auto value = ParseJson(text);
  EXPECT_TRUE(value.ok()) << value.status();
  return *value;
}

std::string RenderWith(const ChatTemplate& chat_template, const Value& extra = nullptr,
                       const Value& tools = nullptr) {
  ChatRequest request;
  request.tools = tools;
  request.messages = Json(R"([{"role": "user", "content": "hi"}])");
  request.extra = extra;
  const auto rendered = chat_template.Render(request);
  return rendered.ok() ? rendered->text : std::string(rendered.status().message());
}

TEST_F(ChatTemplateTest, FileWinsOverConfiguration) {
  Write("tokenizer_config.json", R"({"chat_template": "config", "bos_token": "<s>"})");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_)), "config");
  Write("chat_template.jinja", "{{ bos_token }}file {{ messages[0].content }}");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_)), "<s>file hi");
}

TEST_F(ChatTemplateTest, SpecialTokensAsStringsAndObjects) {
  Write("tokenizer_config.json", R"({"bos_token": {"__type": "AddedToken", "content": "<b>"},
      "eos_token": "<e>", "pad_token": null, "chat_template":
      "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ unk_token }}"})");
  Write("special_tokens_map.json", R"({"unk_token": {"content": "<u>"}, "eos_token": "other"})");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_)), "<b><e>False<u>");
}

TEST_F(ChatTemplateTest, NamedTemplates) {
  Write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_)), "D");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_, "tool_use")), "T");
  const auto missing = ChatTemplate::FromModel(folder_, "rag");
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("tool_use, default"));
  Write("additional_chat_templates/rag.jinja", "R");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_, "rag")), "R");
  EXPECT_FALSE(ChatTemplate::FromModel(folder_, "../tokenizer_config").ok());
}

TEST_F(ChatTemplateTest, RequestsWithToolsTakeTheirTemplate) {
  const Value tools = Json(R"([{"name": "f"}])");
  Write("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": [
      {"name": "tool_use", "template": "{{ bos_token }}T"}, {"name": "default", "template": "D"}]})");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_), nullptr, tools), "<s>T");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_, "default"), nullptr, tools), "D");
  EXPECT_EQ(ChatTemplate::FromModel(folder_)->sources(), "D\n{{ bos_token }}T");
  // Files of their own win over the configuration.
  Write("chat_template.jinja", "F");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_), nullptr, tools), "F");
  Write("additional_chat_templates/tool_use.jinja", "FT");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_), nullptr, tools), "FT");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromModel(folder_)), "F");
}

TEST_F(ChatTemplateTest, ChosenByNameOrFile) {
  Write("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": [
      {"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]})");
  const std::string path = Write("other.txt", "{{ bos_token }}O");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromChoice("", folder_)), "D");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromChoice("rag", folder_)), "R");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromChoice(path, folder_)), "<s>O");
  const auto missing = ChatTemplate::FromChoice("rog", folder_).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("(rag, default)"));
}

TEST_F(ChatTemplateTest, NotFoundWhereTheModelHasNone) {
  EXPECT_TRUE(absl::IsNotFound(ChatTemplate::FromModel(folder_).status()));
  Write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_TRUE(absl::IsNotFound(ChatTemplate::FromModel(folder_).status()));
}

TEST_F(ChatTemplateTest, BrokenFilesAreNamed) {
  Write("tokenizer_config.json", "{");
  auto status = ChatTemplate::FromModel(folder_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer_config.json: invalid JSON"));
  Write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_TRUE(absl::IsInvalidArgument(ChatTemplate::FromModel(folder_).status()));
  Write("chat_template.jinja", "a\n{% if %}");
  status = ChatTemplate::FromModel(folder_).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("chat_template.jinja: line 2: "));
}

TEST_F(ChatTemplateTest, OtherFileKeepsTheModelsTokens) {
  Write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  const std::string path = Write("other.txt", "{{ bos_token }}{{ x }}");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromFile(path, folder_), Json(R"({"x": 1})")), "<s>1");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromFile(path, folder_), Json(R"({"bos_token": "q"})")), "q");
  EXPECT_EQ(RenderWith(*ChatTemplate::FromFile(path, "")), "");
  EXPECT_FALSE(ChatTemplate::FromFile(folder_ + "/absent", "").ok());
}

TEST_F(ChatTemplateTest, RenderErrorsNameTheOrigin) {
  const auto chat_template =
      ChatTemplate::FromSource("\n{{ raise_exception('no') }}", "mine.jinja", {});
  ASSERT_TRUE(chat_template.ok());
  EXPECT_EQ(RenderWith(*chat_template), "mine.jinja: line 2: no");
}

TEST_F(ChatTemplateTest, AbsentToolsAreNone) {
  const auto chat_template = ChatTemplate::FromSource(
      "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}", "t", {});
  EXPECT_EQ(RenderWith(*chat_template), "TrueTrueFalse");
}

std::string SharedPath(const std::string& name) {
  const char* shared = std::getenv("LORICA_SHARED_DIR");
  return std::string(shared != nullptr ? shared : LORICA_SOURCE_ROOT "/../shared") + "/" + name;
}

TEST_F(ChatTemplateTest, PublicTemplatesRender) {
  for (const char* model : {"qwen3", "deepseek_v3"}) {
    const std::string folder = SharedPath(std::string("data/tokenizers/") + model);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " isn't there";
    const auto chat_template = ChatTemplate::FromModel(folder);
    ASSERT_TRUE(chat_template.ok()) << chat_template.status();
    ChatRequest request;
    request.messages =
        Json(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                                {"role": "assistant", "content": "A"}])");
    const auto rendered = chat_template->Render(request);
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    const std::string expected =
        std::string(model) == "qwen3"
            ? "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>"
              "assistant\n"
              "<think>\n\n</think>\n\nA<|im_end|>\n"
            : "<｜begin▁of▁sentence｜>S<｜User｜>U<｜Assistant｜>A<｜end▁of▁sentence｜>";
    EXPECT_EQ(rendered->text, expected);
  }
}

// ---- messages

TEST(ChatMessagesTest, NormalFormOfAMessage) {
  const auto normal = NormalizeMessages(Json(R"([
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "value": "b"}, "c"]},
      {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}]},
      {"role": "assistant", "content": null, "tool_calls": null, "reasoning": "why", "name": "n"}])"),
                                        "here");
  ASSERT_TRUE(normal.ok()) << normal.status();
  EXPECT_EQ(
      *jinja::ToJson(*normal),
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "value": )"
      R"("b", "text": "b"}, "c"]}, {"role": "user", "content": [{"type": "image"}, )"
      R"({"type": "text", "text": "a"}]}, {"thinking": "why", "role": "assistant", "reasoning": )"
      R"("why", "name": "n", "reasoning_content": "why"}])");
  EXPECT_EQ(
      *jinja::ToJson(WithTextContent(*normal)),
      R"([{"role": "user", "content": "abc"}, {"role": "user", "content": [{"type": "image"}, )"
      R"({"type": "text", "text": "a"}]}, {"thinking": "why", "role": "assistant", "reasoning": )"
      R"("why", "name": "n", "reasoning_content": "why"}])");
}

// A template that reads parts may put each in a place of its own; one that doesn't would write the
// list as Python prints it.
TEST(ChatMessagesTest, PartsStayForTemplatesThatReadThem) {
  const char* reads =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}[{{ p.text | trim }}]{% endfor %}{% endif %}{% endfor %}";
  const char* user_only =
      "{% for m in messages %}{% if m.role == 'user' %}{% for p in m.content %}{{ p.text }}"
      "{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  const char* plain = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}";
  const Value messages = Json(R"([{"role": "user", "content": [{"type": "text", "text": " a "},
                                                               {"type": "text", "text": "b"}]}])");
  const auto render = [&](const char* source) {
    const auto chat_template = ChatTemplate::FromSource(source, "t", {});
    EXPECT_TRUE(chat_template.ok()) << chat_template.status();
    ChatRequest request;
    request.messages = chat_template->Readable(messages, nullptr);
    const auto rendered = chat_template->Render(request);
    return rendered.ok() ? rendered->text : std::string(rendered.status().message());
  };
  EXPECT_EQ(render(reads), "[a][b]");
  EXPECT_EQ(render(plain), "user:  a b");
  EXPECT_EQ(render(user_only), "");  // not for every speaker: it gets strings
}

TEST(ChatMessagesTest, ErrorsNameTheMessage) {
  for (const char* text : {"5", "{}", "[5]", R"([{"content": "a"}])", R"([{"role": 5}])"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(NormalizeMessages(Json(text), "w").status())) << text;
  }
  EXPECT_EQ(NormalizeMessages(Json(R"([{"role": "user"}, {}])"), "f, line 2").status().message(),
            "f, line 2: message 2 has no role");
}

TEST(ChatMessagesTest, ToolsInEveryForm) {
  EXPECT_TRUE(NormalizeTools(Value(), "w")->is_none());
  EXPECT_TRUE(NormalizeTools(nullptr, "w")->is_none());
  EXPECT_TRUE(NormalizeTools("", "w")->is_none());
  EXPECT_TRUE(NormalizeTools("[]", "w")->is_none());
  EXPECT_TRUE(NormalizeTools(R"([{"name": "f"}])", "w")->is_list());
  EXPECT_FALSE(NormalizeTools("{", "w").ok());
  EXPECT_FALSE(NormalizeTools(R"({"a": 1})", "w").ok());
}

}  // namespace
}  // namespace lorica
