#include "lorica/train/report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/train/html_text.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ReportData Data() {
  ReportData data;
  data.title = "runs/one";
  data.plan.model = "model<b>";
  data.plan.modules = {{"model.layers.0.self_attn.q_proj", {60, 30}, 4, 8}};
  data.plan.by_name = {{"q_proj", 1}};
  data.plan.first_records = {{{"<|user|> hi", false}, {"bye </pre><script>", true}}};
  data.plan.data = DataSummary{.format = "messages",
                               .records = 12,
                               .duplicates = 3,
                               .lengths = {{10, 19, 7}, {20, 29, 5}},
                               .median_length = 17,
                               .p95_length = 26,
                               .max_length = 29,
                               .files = {{"a<b>.jsonl", 12, 0.5, 6}}};
  for (int64_t step = 1; step <= 5000; ++step) {
    data.metrics.steps.push_back({.step = step,
                                  .loss = 2.0 / static_cast<double>(step) + 0.5,
                                  .lr = 1e-4,
                                  .grad_norm = 1,
                                  .tokens = 100,
                                  .seconds = 0.1,
                                  .tokens_per_second = 1000,
                                  .peak_rss_bytes = 123456789});
  }
  data.metrics.evaluations = {{2500, 0.9, 10}, {5000, 0.8, 10}};
  data.samples = {{"2 < 3 & \"x\"?", "no\xFF", "<yes>"}};
  data.config = "lr = 1 # <tag>";
  return data;
}

TEST(Report, HasCurvesTablesAndSamplesAndNothingFromElsewhere) {
  const std::string html = FormatReport(Data());
  EXPECT_THAT(html, HasSubstr("<!DOCTYPE html>"));
  for (const char* part :
       {"Loss (nats per trained token)", "Learning rate", "Gradient norm", "Tokens per second",
        "Peak memory", "held-out", "q_proj", "Records by length", "7 records of 10 to 19 tokens",
        "median 17, 95% have at most 26, longest 29", "3, trained all the same", "a&lt;b&gt;.jsonl",
        "12 records × 0.5: 6 an epoch", "60 × 30", "12 records", "Answers before and after",
        "prefers-color-scheme: dark"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  for (const char* foreign : {"http:", "https:", "<script", "src=", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(foreign)));
  }
  // 5,000 steps don't make 5,000 points.
  EXPECT_LT(html.size(), 120000u);
}

TEST(Report, EscapesEveryText) {
  const std::string html = FormatReport(Data());
  EXPECT_THAT(html, HasSubstr("2 &lt; 3 &amp; &quot;x&quot;?"));
  EXPECT_THAT(html, HasSubstr("&lt;yes&gt;"));
  EXPECT_THAT(html, HasSubstr("model&lt;b&gt;"));
  EXPECT_THAT(html, HasSubstr("<mark>bye &lt;/pre&gt;&lt;script&gt;</mark>"));
  EXPECT_THAT(html, HasSubstr("no\xEF\xBF\xBD"));
  EXPECT_THAT(html, Not(HasSubstr("\xFF")));
}

TEST(Report, AnEmptyRunIsAReportToo) { EXPECT_THAT(FormatReport({}), HasSubstr("</html>")); }

TEST(HtmlText, KeepsUnicodeAndNewlinesAndReplacesTheRest) {
  EXPECT_EQ(HtmlText("ü🦀\n\t'"), "ü🦀\n\t&#39;");
  EXPECT_EQ(HtmlText(absl::string_view("a\0b\x7F", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(HtmlText("\xC3"), "\xEF\xBF\xBD");
}

TEST(LoadMap, ShadesEachExpertOverTheMeanOfItsLayer) {
  // Of the mean 8: none, an eighth, the same, twice and more.
  const std::string map = FormatLoadMap("t", {{"model.layers.3.mlp", {0, 1, 8, 23}}, {"odd", {}}});
  EXPECT_THAT(map, HasSubstr("<path class=\"idle\""));
  for (const char* shade : {"\"0.125\" d=", "\"0.5\" d=", "\"1\" d="}) {
    EXPECT_THAT(map, HasSubstr(std::string("<path class=\"bar\" fill-opacity=") + shade));
  }
  EXPECT_THAT(map, HasSubstr(">layer 3<"));
  EXPECT_THAT(map, HasSubstr("expert 3 has the most tokens, 23 (2.88 times the mean)"));
  EXPECT_THAT(FormatLoadMap("t", {{"a", {0, 0}}}), Not(HasSubstr("nan")));
  EXPECT_THAT(FormatLoadMap("t", {}), HasSubstr("</svg>"));
  // A page with one of 61 layers of 256 experts stays small.
  ExpertLoads large(61, {"model.layers.7.mlp", std::vector<int64_t>(256, 9)});
  EXPECT_LT(FormatLoadMap("t", large).size(), 800000u);
}

TEST(Report, ShowsExpertsWhereThereAreSome) {
  ReportData data = Data();
  EXPECT_THAT(FormatReport(data), Not(HasSubstr("<h2>Experts</h2>")));
  data.metrics.steps[3].loads = {{"model.layers.1.mlp", {1, 3}}};
  EXPECT_THAT(FormatReport(data), HasSubstr("<h2>Experts</h2>"));
  EXPECT_THAT(FormatReport(data), Not(HasSubstr("Balancing loss")));
  data.metrics.steps[3].aux_loss = 1;
  EXPECT_THAT(FormatReport(data), HasSubstr("Balancing loss"));
}

TEST(Chart, SurvivesOddValues) {
  const std::string chart = FormatChart(
      "t", "x", {{"a", {1, 2, 3, 4}, {1, NAN, INFINITY, 2}}, {"b", {1}, {5}, true}, {"c", {}, {}}});
  EXPECT_THAT(chart, HasSubstr("class=\"line s0\""));
  EXPECT_THAT(chart, HasSubstr("<circle"));
  EXPECT_THAT(chart, Not(HasSubstr("nan")));
  EXPECT_THAT(chart, Not(HasSubstr("inf")));
  EXPECT_THAT(FormatChart("t", "x", {{"constant", {1, 2}, {3, 3}}}), Not(HasSubstr("nan")));
  EXPECT_THAT(FormatChart("t", "x", {{"zero", {0, 1}, {0, 0}}}), Not(HasSubstr("nan")));
  EXPECT_THAT(FormatChart("t", "x", {{"huge", {1, 2}, {1e300, -1e300}}}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace lorica
