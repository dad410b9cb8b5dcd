// The template engine's own promises: limits, error texts, values; what it shares with Python is in
// jinja_cases_test.cc.
#include <ctime>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/tensor/check.h"
#include "lorica/text/jinja/template.h"

namespace lorica::jinja {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> Render(const std::string& source, const Value& context = Dict(),
                                   const RenderOptions& options = {}) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  auto rendered = parsed->Render(context, options);
  if (!rendered.ok()) return rendered.status();
  return std::move(rendered->text);
}

std::string ErrorOf(const std::string& source, const Value& context = Dict()) {
  const auto rendered = Render(source, context);
  return rendered.ok() ? "rendered: " + *rendered : std::string(rendered.status().message());
}

// Every one of these would run for ages, or fill the memory, in Python.
const char* const kEndless[] = {
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "{% set ns = namespace(s='x') %}{% for i in range(99999) %}{% set ns.s = ns.s + ns.s %}{% "
    "endfor "
    "%}",
    "{% set ns = namespace(s=[0]) %}{% for i in range(99999) %}{% set ns.s = ns.s + ns.s %}{% "
    "endfor "
    "%}",
    "{% set ns = namespace(s=[0]) %}{% for i in range(99999) %}{% set ns.s = [ns.s] %}{% endfor %}",
    "{% set ns = namespace(s=[0]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
    "%}{{ ns.s }}",
    "{% set ns = namespace(s=[0], t=[0]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}"
    "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
    "{% set ns = namespace(s=[0]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
    "%}{{ ns.s|tojson }}",
    "{{ 'x' * 1000000000000 }}",
    "{{ [1] * 1000000000000 }}",
    "{{ 'x'|center(100000000000) }}",
    "{{ '%100000000d' % 1 }}",
    "{{ '{:100000000}'.format(1) }}",
    "{{ ['a']|batch(100000000000, 'x')|list }}",
    "{{ ['a']|slice(100000000000)|list }}",
    "{{ 'ab'.replace('', 'x' * 100000) * 100000 }}",
    "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% for x in range(99999) %}{{ 'y' * 99999 }}{% endfor %}",
    "{{ 'a\nb'|indent(100000000000) }}",
    "{{ {'a': 1}|tojson(indent=100000000000) }}",
    "{% set ns = namespace() %}{% set ns.f = namespace(x=ns) %}{% macro m() %}{{ m() }}{% endmacro "
    "%}{{ m() }}",
};

// Processor time, so that a busy machine makes no difference.
double SecondsFor(const std::string& source, const RenderOptions& options, absl::Status* status) {
  const std::clock_t begin = std::clock();
  *status = Render(source, Dict(), options).status();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(JinjaLimitsTest, EndsWhatWouldNeverEnd) {
  RenderOptions options;
  options.limits.steps = 500'000;
  options.limits.bytes = 32 << 20;
  for (const char* source : kEndless) {
    absl::Status status;
    const double seconds = SecondsFor(source, options, &status);
    EXPECT_TRUE(absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status))
        << source << ": " << status;
    EXPECT_LT(seconds, 10) << source;
  }
}

TEST(JinjaLimitsTest, DefaultLimitsEndALoopInSeconds) {
  absl::Status status;
  EXPECT_LT(SecondsFor(kEndless[0], {}, &status), 60);  // 1 s; the rest is for sanitizers
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(JinjaLimitsTest, SmallLimitsAreKept) {
  RenderOptions options;
  options.limits.steps = 1000;
  const auto slow = Render("{% for i in range(2000) %}{% endfor %}", Dict(), options);
  EXPECT_TRUE(absl::IsResourceExhausted(slow.status()));
  EXPECT_THAT(std::string(slow.status().message()), HasSubstr("1000 steps"));
  options = {};
  options.limits.bytes = 1000;
  const auto large = Render("{{ 'x' * 2000 }}", Dict(), options);
  EXPECT_TRUE(absl::IsResourceExhausted(large.status()));
  options = {};
  options.limits.depth = 20;
  EXPECT_TRUE(absl::IsResourceExhausted(
      Render("{{ ((((((((((((((((((((1 + 1) + 1) + 1) + 1) + 1) + 1) + 1) + 1) + 1) + 1) + 1) + 1) "
             "+ 1) + 1) + 1) + 1) + 1) + 1) + 1) + 1) + 1 }}",
             Dict(), options)
          .status()));
}

TEST(JinjaLimitsTest, DeepSourceIsRefused) {
  const auto repeat = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  constexpr int kMany = 100000;
  for (const std::string& source :
       {"{{ " + repeat("(", kMany) + "1" + repeat(")", kMany) + " }}",
        "{{ " + repeat("[", kMany) + repeat("]", kMany) + " }}",
        "{{ 1" + repeat("+1", kMany) + " }}", "{{ " + repeat("-", kMany) + "1 }}",
        "{{ " + repeat("not ", kMany) + "1 }}", "{{ x" + repeat("|upper", kMany) + " }}",
        "{{ x" + repeat(".a", kMany) + " }}", "{{ x" + repeat("()", kMany) + " }}",
        "{{ 1" + repeat(" if 1 else 1", kMany) + " }}", repeat("{% if 1 %}", kMany),
        repeat("{% for x in y %}", kMany), "{% for " + repeat("(", kMany) + "a in b %}{% endfor %}",
        "{{ 1" + repeat(" ** 1", kMany) + " }}", "{{ x" + repeat("[0]", kMany) + " }}"}) {
    const auto parsed = Template::Parse(source);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << source.substr(0, 40);
  }
}

TEST(JinjaLimitsTest, LongFlatSourceIsFine) {
  std::string source;
  for (int i = 0; i < 20000; ++i)
    source += "{% if x %}a{% elif y %}b{% else %}{{ 1 ~ 2 }}{% endif %}\n";
  const auto rendered = Render(source);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(rendered->size(), 40000u);
}

TEST(JinjaLimitsTest, CyclesAreFreed) {  // shown by the leak checker
  EXPECT_TRUE(
      Render(
          "{% set ns = namespace() %}{% set ns.me = ns %}{% macro m() %}{{ ns.x }}{% endmacro %}"
          "{% set ns.m = m %}{% for i in [1, 2] %}{% macro n() %}{{ loop }}{% endmacro %}"
          "{% set ns.n = n %}{% set ns.loop = loop %}{% if loop.changed([ns, loop]) %}{% endif %}"
          "{% endfor %}{{ ns.n is callable }}")
          .ok());
  EXPECT_FALSE(
      Render("{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = [loop] %}"
             "{% if loop.changed(ns.l) %}{% endif %}{{ raise_exception('x') }}{% endfor %}")
          .ok());
}

TEST(JinjaErrorsTest, NameLineAndReason) {
  EXPECT_EQ(ErrorOf("a\n\n{{ x.y }}"), "line 3: 'x' is undefined");
  EXPECT_EQ(ErrorOf("{{ m['a'].b }}", Dict({{"m", Dict()}})),
            "line 1: 'dict object' has no attribute 'a'");
  EXPECT_EQ(ErrorOf("\n{{ m[3].b }}", Dict({{"m", List()}})),
            "line 2: list object has no element 3");
  EXPECT_EQ(ErrorOf("{% if x %}\n{{ 1"),
            "line 2: unexpected end of template, expected 'end of print statement'");
  EXPECT_EQ(ErrorOf("\n\n{{ raise_exception('Only user and assistant') }}"),
            "line 3: Only user and assistant");
  EXPECT_EQ(ErrorOf("{{ 1 + 'a' }}"), "line 1: unsupported operand type(s) for +: 'int' and 'str'");
  EXPECT_THAT(ErrorOf("{% if true %}\nx"), HasSubstr("endif"));
  EXPECT_THAT(ErrorOf("{{ 'a'|random }}"), HasSubstr("random"));
  EXPECT_THAT(ErrorOf("{{ 99999999999999999999 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(ErrorOf("{{ 9223372036854775807 + 1 }}"), HasSubstr("overflow"));
  EXPECT_THAT(ErrorOf("{{ 3 ** 100 }}"), HasSubstr("overflow"));
}

TEST(JinjaErrorsTest, LineIsThatOfTheCallBehindAMacro) {
  EXPECT_EQ(ErrorOf("{% macro f() %}\n\n{{ 1 }}{% endmacro %}\n{{ f() ~ (1 + 'a') }}").substr(0, 7),
            "line 4:");
}

TEST(JinjaErrorsTest, SourceMustBeUtf8) {
  const auto parsed = Template::Parse("ab\xFFgh");
  EXPECT_TRUE(absl::IsInvalidArgument(parsed.status()));
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("byte 2"));
}

TEST(JinjaGenerationTest, CapturedBlocksAreReported) {
  const auto parsed = Template::Parse(
      "{% macro m() %}{% generation %}a{% endgeneration %}{% endmacro %}x{{ m() }}"
      "{% generation %}b{% endgeneration %}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->has_generation_blocks());
  const auto rendered = parsed->Render(Dict());
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(rendered->text, "xab");
  EXPECT_TRUE(rendered->generation_captured);
  ASSERT_EQ(rendered->generation_spans.size(), 1u);
  EXPECT_EQ(rendered->generation_spans[0].begin, 2u);
  EXPECT_EQ(rendered->generation_spans[0].end, 3u);
}

TEST(JinjaTimeTest, NowIsInjected) {
  RenderOptions options;
  std::tm now{};
  now.tm_year = 99;
  now.tm_mon = 11;
  now.tm_mday = 31;
  options.now = now;
  const auto rendered = Render("{{ strftime_now('%a %d %B %Y%z %f') }}", Dict(), options);
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(*rendered, "Fri 31 December 1999 000000");
  EXPECT_TRUE(Render("{{ strftime_now('%Y') }}").ok());
}

TEST(JinjaThreadsTest, ATemplateRendersTwiceTheSame) {
  const auto parsed =
      Template::Parse("{% set c = cycler(1, 2) %}{{ c.next() }}{{ x|map('string')|list }}");
  ASSERT_TRUE(parsed.ok());
  const Value context = Dict({{"x", List({1, 2})}});
  EXPECT_EQ(parsed->Render(context)->text, parsed->Render(context)->text);
}

// ---- values

TEST(JinjaValueTest, DictKeepsOrderAndReplacesInPlace) {
  Dict dict({{"b", 1}, {"a", 2}, {"b", 3}});
  ASSERT_EQ(dict.size(), 2u);
  EXPECT_EQ(dict.entries()[0].first.as_string(), "b");
  EXPECT_EQ(dict.entries()[0].second.as_int(), 3);
  for (int i = 0; i < 1000; ++i) dict.Set(i, i);
  for (int i = 0; i < 1000; i += 3) dict.Set(static_cast<double>(i), -i);
  EXPECT_EQ(dict.size(), 1002u);
  EXPECT_EQ(dict.Find(Value(999))->as_int(), -999);
  EXPECT_EQ(dict.Find(Value(998))->as_int(), 998);
  EXPECT_EQ(dict.FindText("a")->as_int(), 2);
  EXPECT_EQ(dict.FindText("zz"), nullptr);
  EXPECT_EQ(dict.Find(Value(1000)), nullptr);
}

TEST(JinjaValueTest, NestingIsBounded) {
  Value value = 1;
  for (int i = 0; i < Value::kMaxNesting; ++i) value = List({value});
  EXPECT_EQ(value.nesting(), Value::kMaxNesting);
  EXPECT_THROW(value = List({value}), Error);
}

TEST(JinjaJsonTest, RoundTrips) {
  const std::string text =
      R"({"z": [1, -2, 2.5, 1e+20, true, null], "a": {"é": "\"\\\n\u0001"}, "big": 9223372036854775807})";
  const auto value = ParseJson(text);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*ToJson(*value), text);
  EXPECT_EQ(value->Get("z").as_list()[1].as_int(), -2);
  EXPECT_TRUE(value->Get("nope").is_undefined());
}

TEST(JinjaJsonTest, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "\"\xFF\"", "nul", "1 2", "{\"a\":1}}",
                           "\"\\ud800\"", "'a'"}) {
    const auto value = ParseJson(text);
    EXPECT_TRUE(absl::IsInvalidArgument(value.status())) << text;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ParseJson(std::string(100000, '[')).status()));
  EXPECT_THAT(std::string(ParseJson("{\"a\": tru}").status().message()), HasSubstr("byte"));
}

TEST(JinjaJsonTest, ManyKeysAreNotQuadratic) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += "\"k" + std::to_string(i) + "\":1,";
  text += "\"last\":2}";
  const auto value = ParseJson(text);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->as_dict().size(), 200001u);
  EXPECT_EQ(value->Get("last").as_int(), 2);
}

}  // namespace
}  // namespace lorica::jinja
