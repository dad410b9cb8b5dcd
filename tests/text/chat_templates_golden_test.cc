// Templates of the shapes that public models have (tests/golden/chat_templates): what Python
// renders for each conversation (chat_templates.json), or that it fails.
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "lorica/text/jinja/template.h"

namespace lorica::jinja {
namespace {

std::string ReadGolden(const std::string& name) {
  std::ifstream file(LORICA_SOURCE_ROOT "/tests/golden/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Value LoadDocument() {
  auto json = ParseJson(ReadGolden("chat_templates.json"));
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : Value();
}

std::tm Now() {
  std::tm now{};
  now.tm_year = 124;  // as NOW in make_jinja.py
  now.tm_mon = 1;
  now.tm_mday = 29;
  now.tm_hour = 13;
  now.tm_min = 5;
  now.tm_sec = 9;
  return now;
}

TEST(ChatTemplatesGoldenTest, RenderWhatPythonRenders) {
  const Value document = LoadDocument();
  const Value cases = document.Get("cases");
  ASSERT_TRUE(cases.is_list());
  RenderOptions options;
  options.now = Now();
  size_t rendered = 0, failed = 0, spans = 0;
  for (const Value& entry : cases.as_list()) {
    const std::string& name = entry.Get("template").as_string();
    const std::string& context = entry.Get("context").as_string();
    SCOPED_TRACE(name + " with " + context);
    const auto parsed = Template::Parse(ReadGolden("chat_templates/" + name + ".jinja"));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const auto result = parsed->Render(document.Get("contexts").Get(context), options);
    if (const Value error = entry.Get("error"); error.is_string()) {
      ++failed;
      ASSERT_FALSE(result.ok()) << "Python: " << error.as_string();
      const std::string message(result.status().message());
      EXPECT_EQ(message.rfind("line ", 0), 0u) << message;
      // What the template raises comes through word for word.
      if (!entry.Get("raised").is_undefined()) {
        EXPECT_NE(message.find(": " + error.as_string()), std::string::npos) << message;
      }
      continue;
    }
    ++rendered;
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->text, entry.Get("expect").as_string());
    const Value expected = entry.Get("spans");
    if (!expected.is_list()) continue;
    ++spans;
    ASSERT_EQ(result->generation_spans.size(), expected.as_list().size());
    for (size_t i = 0; i < expected.as_list().size(); ++i) {
      const List& span = expected.as_list()[i].as_list();
      EXPECT_EQ(static_cast<int64_t>(result->generation_spans[i].begin), span[0].as_int());
      EXPECT_EQ(static_cast<int64_t>(result->generation_spans[i].end), span[1].as_int());
    }
  }
  EXPECT_GE(rendered, 150u);
  EXPECT_GE(failed, 20u);
  EXPECT_GE(spans, 10u);
}

}  // namespace
}  // namespace lorica::jinja
