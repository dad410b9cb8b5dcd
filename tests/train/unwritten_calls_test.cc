// Tools and calls that a chat template passes over are found and counted.
#include "lorica/train/unwritten_calls.h"

#include "gmock/gmock.h"
#include "lorica/train/dataset.h"
#include "train/text_fixture.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

constexpr const char* kMessages = R"([
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": {"name": "Ada"}}}]},
    {"role": "tool", "content": "r"},
    {"role": "assistant", "tool_calls": [{"name": "g", "arguments": {}}]}])";
constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";

// Whether tools and calls are unwritten, as two letters.
std::string Unwritten(const std::string& source, const std::string& messages = kMessages,
                      const std::string& tools = kTools) {
  const UnwrittenCalls found = FindUnwrittenCalls(TemplateOf(source), *jinja::ParseJson(messages),
                                                  *jinja::ParseJson(tools), std::nullopt);
  return std::string(found.tools ? "T" : "-") + (found.tool_calls ? "C" : "-");
}

TEST(UnwrittenCalls, AreThoseWhoseNamesATemplateLeavesOut) {
  EXPECT_EQ(Unwritten("{{ tools | tojson }}{{ messages | tojson }}"), "--");
  EXPECT_EQ(Unwritten("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"), "TC");
  EXPECT_EQ(
      Unwritten("{{ tools[0].function.name }}{% for m in messages %}{{ m.role }}{% endfor %}"),
      "-C");
  EXPECT_EQ(Unwritten("{% for m in messages %}{% for c in m.tool_calls or [] %}"
                      "{{ (c.function or c).name }}{% endfor %}{% endfor %}"),
            "T-");
  // A template that writes a call only where there is no content leaves out the first one.
  EXPECT_EQ(Unwritten("{{ tools | tojson }}{% for m in messages %}{% if m.content is not defined %}"
                      "{{ m.tool_calls | tojson }}{% endif %}{% endfor %}"),
            "-C");
}

TEST(UnwrittenCalls, AreNoneWithoutToolsOrCallsOrRendering) {
  EXPECT_EQ(Unwritten("x", R"([{"role": "user", "content": "q", "name": "n"}])", "null"), "--");
  EXPECT_EQ(Unwritten("x", R"([{"role": "assistant", "tool_calls": []}])", "[]"), "--");
  EXPECT_EQ(Unwritten("{{ raise_exception('no') }}"), "--");
}

class UnwrittenInData : public TextFixture {};

TEST_F(UnwrittenInData, IsCountedByRecord) {
  const std::string plain =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])";
  const std::string with_call =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}])";
  const std::string tools = std::string(", \"tools\": ") + kTools + "}\n";
  const std::string path = Write("d.jsonl", plain + "}\n" + plain + tools + with_call + tools);
  const Tokenizer tokenizer = ByteTokenizer();
  const ChatTemplate chat_template = ChatMl();
  DatasetOptions options;
  options.find_unwritten = true;
  const absl::StatusOr<Dataset> data = Dataset::Load({path}, &tokenizer, &chat_template, options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->statistics().unwritten_tools.count, 2);
  EXPECT_THAT(data->statistics().unwritten_tools.first, HasSubstr("d.jsonl, line 2"));
  EXPECT_EQ(data->statistics().unwritten_calls.count, 1);
  EXPECT_THAT(data->statistics().unwritten_calls.first, HasSubstr("d.jsonl, line 3"));
}

}  // namespace
}  // namespace lorica
