// Every case of tests/golden/jinja_cases.json: what Python's jinja2 renders for it, or that it
// fails.
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "lorica/text/jinja/template.h"

namespace lorica::jinja {
namespace {

Value LoadCases() {
  std::ifstream file(LORICA_SOURCE_ROOT "/tests/golden/jinja_cases.json");
  std::stringstream text;
  text << file.rdbuf();
  auto json = ParseJson(text.str());
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : Value();
}

absl::StatusOr<RenderResult> RenderCase(const Value& entry) {
  const auto parsed = Template::Parse(entry.Get("template").as_string());
  if (!parsed.ok()) return parsed.status();
  RenderOptions options;
  std::tm now{};
  now.tm_year = 124;  // as NOW in make_jinja.py
  now.tm_mon = 1;
  now.tm_mday = 29;
  now.tm_hour = 13;
  now.tm_min = 5;
  now.tm_sec = 9;
  options.now = now;
  return parsed->Render(entry.Get("context"), options);
}

TEST(JinjaCasesTest, RendersWhatPythonRenders) {
  const Value cases = LoadCases().Get("cases");
  ASSERT_TRUE(cases.is_list());
  size_t compared = 0;
  for (const Value& entry : cases.as_list()) {
    if (entry.Get("expect").is_undefined()) continue;
    SCOPED_TRACE(entry.Get("name").as_string() + ": " + entry.Get("template").as_string());
    const auto rendered = RenderCase(entry);
    ++compared;
    if (!rendered.ok()) {
      ADD_FAILURE() << rendered.status();
      continue;
    }
    EXPECT_EQ(rendered->text, entry.Get("expect").as_string());
    const Value spans = entry.Get("spans");
    const size_t expected = spans.is_list() ? spans.as_list().size() : 0;
    ASSERT_EQ(rendered->generation_spans.size(), expected);
    for (size_t i = 0; i < expected; ++i) {
      const List& span = spans.as_list()[i].as_list();
      EXPECT_EQ(static_cast<int64_t>(rendered->generation_spans[i].begin), span[0].as_int());
      EXPECT_EQ(static_cast<int64_t>(rendered->generation_spans[i].end), span[1].as_int());
    }
  }
  EXPECT_GE(compared, 150u);
}

TEST(JinjaCasesTest, FailsWherePythonFails) {
  const Value cases = LoadCases().Get("cases");
  ASSERT_TRUE(cases.is_list());
  size_t compared = 0;
  for (const Value& entry : cases.as_list()) {
    const Value error = entry.Get("error");
    if (error.is_undefined()) continue;
    SCOPED_TRACE(entry.Get("name").as_string() + ": " + entry.Get("template").as_string());
    const auto rendered = RenderCase(entry);
    ++compared;
    if (rendered.ok()) {
      ADD_FAILURE() << "rendered " << rendered->text << ", but Python: " << error.as_string();
      continue;
    }
    EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(rendered.status().message());
    EXPECT_EQ(message.rfind("line ", 0), 0u) << message;
    if (const Value line = entry.Get("line"); line.is_int()) {
      EXPECT_EQ(message.rfind("line " + std::to_string(line.as_int()) + ": ", 0), 0u) << message;
    }
  }
  EXPECT_GE(compared, 80u);
}

}  // namespace
}  // namespace lorica::jinja
