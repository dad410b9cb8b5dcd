#include "lorica/train/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lorica/train/html_text.h"

namespace lorica {
namespace {

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --page: #fcfcfa; --card: #ffffff; --text: #1c1e21; --faint: #6a6f76;
  --rule: #dfe2e6; --c0: #2563b0; --c1: #c2570c; --good: #e8f2e4; }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --card: #1f2226; --text: #e6e8ea;
  --faint: #9aa1a9; --rule: #363b42; --c0: #7ab4f5; --c1: #f0a35e; --good: #24331f; } }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; padding: 0; list-style: none; }
.tiles li { background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  padding: .5rem .9rem; }
.tiles b { display: block; font-size: 1.15rem; } .tiles span { color: var(--faint); }
.chart { width: 100%; height: auto; background: var(--card); border: 1px solid var(--rule);
  border-radius: 6px; margin: .4rem 0; }
.chart text { fill: var(--text); font: 12px system-ui, sans-serif; }
.chart .name { font-weight: 600; } .chart .tick { fill: var(--faint); }
.chart .grid { stroke: var(--rule); fill: none; }
.chart .bar { fill: var(--c0); } .chart .idle { fill: var(--c1); }
.chart .cover { fill: transparent; }
.chart .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.chart .line.s0 { stroke: var(--c0); } .chart .line.s1 { stroke: var(--c1); }
.chart .dot.s0, .chart .legend.s0 { fill: var(--c0); }
.chart .dot.s1, .chart .legend.s1 { fill: var(--c1); }
table { border-collapse: collapse; width: 100%; background: var(--card); }
th, td { border: 1px solid var(--rule); padding: .3rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: .8rem;
  overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
mark { background: var(--good); color: inherit; } summary { cursor: pointer; }
)";

std::string Bytes(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (value >= 1e9) return absl::StrFormat("%.2f GB", value / 1e9);
  if (value >= 1e6) return absl::StrFormat("%.1f MB", value / 1e6);
  return absl::StrFormat("%.1f kB", value / 1e3);
}

std::string Grouped(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), "\u202f");
  }
  return digits;
}

void Tile(std::string& html, const std::string& name, const std::string& value) {
  absl::StrAppend(&html, "<li><span>", HtmlText(name), "</span><b>", HtmlText(value),
                  "</b></li>\n");
}

void Row(std::string& html, const std::string& name, const std::string& value) {
  absl::StrAppend(&html, "<tr><th>", HtmlText(name), "</th><td>", HtmlText(value), "</td></tr>\n");
}

void Tiles(std::string& html, const ReportData& data) {
  const MetricsLog& log = data.metrics;
  html += "<ul class=\"tiles\">\n";
  if (!log.steps.empty()) {
    const StepMetrics& last = log.steps.back();
    Tile(html, "steps", absl::StrCat(last.step, data.stopped_early ? " (stopped early)" : ""));
    Tile(html, "training loss", absl::StrFormat("%.4f → %.4f", log.steps.front().loss, last.loss));
    double seconds = 0, tokens = 0;
    int64_t memory = 0;
    for (const StepMetrics& step : log.steps) {
      seconds += step.seconds;
      tokens += static_cast<double>(step.tokens);
      memory = std::max(memory, step.peak_rss_bytes);
    }
    if (seconds > 0) Tile(html, "tokens per second", absl::StrFormat("%.0f", tokens / seconds));
    Tile(html, "time in steps", absl::StrFormat("%.0f s", seconds));
    Tile(html, "peak memory", Bytes(memory));
  }
  if (!log.evaluations.empty()) {
    const EvalMetrics& first = log.evaluations.front();
    const EvalMetrics& last = log.evaluations.back();
    Tile(html, "held-out loss",
         log.evaluations.size() == 1
             ? absl::StrFormat("%.4f", last.eval_loss)
             : absl::StrFormat("%.4f → %.4f", first.eval_loss, last.eval_loss));
    Tile(html, "perplexity", absl::StrFormat("%.3f", last.perplexity()));
  }
  html += "</ul>\n";
}

ChartSeries Series(const std::string& name, const std::vector<StepMetrics>& steps,
                   double (*value)(const StepMetrics&)) {
  ChartSeries series;
  series.name = name;
  for (const StepMetrics& step : steps) {
    series.x.push_back(static_cast<double>(step.step));
    series.y.push_back(value(step));
  }
  return series;
}

void Charts(std::string& html, const MetricsLog& log) {
  std::vector<ChartSeries> loss = {
      Series("training", log.steps, [](const StepMetrics& m) { return m.loss; })};
  if (!log.evaluations.empty()) {
    ChartSeries held_out;
    held_out.name = "held-out";
    held_out.dots = log.evaluations.size() <= 100;
    for (const EvalMetrics& evaluation : log.evaluations) {
      held_out.x.push_back(static_cast<double>(evaluation.step));
      held_out.y.push_back(evaluation.eval_loss);
    }
    loss.push_back(std::move(held_out));
  }
  html += "<h2>Curves</h2>\n";
  html += FormatChart("Loss (nats per trained token)", "step", loss);
  html += FormatChart("Learning rate", "step",
                      {Series("lr", log.steps, [](const StepMetrics& m) { return m.lr; })});
  html +=
      FormatChart("Gradient norm before clipping", "step",
                  {Series("norm", log.steps, [](const StepMetrics& m) { return m.grad_norm; })});
  html += FormatChart(
      "Tokens per second", "step",
      {Series("tokens/s", log.steps, [](const StepMetrics& m) { return m.tokens_per_second; })});
  html += FormatChart("Peak memory (bytes)", "step",
                      {Series("memory", log.steps, [](const StepMetrics& m) {
                        return static_cast<double>(m.peak_rss_bytes);
                      })});
}

// Where tokens of the whole run went.
void Experts(std::string& html, const MetricsLog& log) {
  ExpertLoads sum;
  ChartSeries imbalance;
  imbalance.name = "busiest";
  imbalance.dots = true;
  bool balanced = false;
  for (const StepMetrics& step : log.steps) {
    balanced = balanced || step.aux_loss != 0;
    if (step.loads.empty()) continue;
    AddLoads(step.loads, sum);
    imbalance.x.push_back(static_cast<double>(step.step));
    imbalance.y.push_back(WorstImbalance(step.loads));
  }
  if (sum.empty()) return;
  html += "<h2>Experts</h2>\n";
  html += FormatLoadMap("Tokens of each expert, over the whole run", sum);
  html += FormatChart("Load of the busiest expert over the mean of its layer", "step", {imbalance});
  if (!balanced) return;
  html += FormatChart(
      "Balancing loss before its coefficient", "step",
      {Series("balancing", log.steps, [](const StepMetrics& m) { return m.aux_loss; })});
}

void DataRows(std::string& html, const DataSummary& d) {
  Row(html, "data",
      absl::StrFormat("%s records (%s), %s dropped, %s truncated, %s without a trained token",
                      Grouped(d.records), d.format, Grouped(d.dropped), Grouped(d.truncated),
                      Grouped(d.untrained)));
  if (d.split_records > 0) {
    Row(html, "examples",
        absl::StrFormat("%s records gave %s, one for each turn: the template rewrites earlier "
                        "turns",
                        Grouped(d.split_records), Grouped(d.split_examples)));
  }
  if (d.duplicates > 0) {
    Row(html, "duplicates",
        absl::StrCat(Grouped(d.duplicates), d.deduplicated > 0 ? ", left out"
                                                               : ", trained all the "
                                                                 "same"));
  }
  const bool weighted = std::any_of(d.files.begin(), d.files.end(),
                                    [](const DataFileSummary& file) { return file.weight != 1; });
  constexpr size_t kMostFiles = 50;
  for (size_t i = 0; weighted && i < std::min(d.files.size(), kMostFiles); ++i) {
    const DataFileSummary& file = d.files[i];
    Row(html, file.path,
        absl::StrCat(Grouped(file.records), " records × ", file.weight, ": ", Grouped(file.taken),
                     " an epoch"));
  }
  Row(html, "tokens",
      absl::StrFormat("%s, of which %.1f %% are trained", Grouped(d.tokens),
                      100.0 * static_cast<double>(d.trained_tokens) /
                          static_cast<double>(std::max<int64_t>(d.tokens, 1))));
  Row(html, "tokens of a record",
      absl::StrFormat("median %s, 95%% have at most %s, longest %s", Grouped(d.median_length),
                      Grouped(d.p95_length), Grouped(d.max_length)));
}

void Trained(std::string& html, const SftPlan& plan) {
  html += "<h2>What was trained</h2>\n<table>\n";
  Row(html, "model",
      absl::StrCat(plan.model, " (", plan.family, ", ", Grouped(plan.model_parameters),
                   " parameters)"));
  Row(html, "trained",
      absl::StrFormat("%s parameters (%.3f %%)", Grouped(plan.trainable_parameters),
                      100.0 * static_cast<double>(plan.trainable_parameters) /
                          static_cast<double>(std::max<int64_t>(plan.model_parameters, 1))));
  if (plan.router_parameters > 0) {
    Row(html, "of which routers", absl::StrCat(Grouped(plan.router_parameters), " parameters"));
  }
  std::vector<std::string> names;
  for (const auto& [name, count] : plan.by_name) names.push_back(absl::StrCat(name, " × ", count));
  Row(html, "modules", plan.modules.empty() ? "all (full training)" : absl::StrJoin(names, ", "));
  if (plan.data.has_value()) DataRows(html, *plan.data);
  Row(html, "arithmetic",
      absl::StrCat(plan.dtype, " on ", plan.threads, " threads, ", plan.instruction_set));
  html += "</table>\n";
  if (plan.data.has_value()) {
    html += FormatBars("Records by length (in tokens, before any was cut)", plan.data->lengths);
  }
  if (plan.modules.empty()) return;
  absl::StrAppend(&html, "<details><summary>All ", plan.modules.size(),
                  " modules</summary>\n<table>\n<tr><th>module</th><th>shape</th><th>rank</th>"
                  "<th>alpha</th></tr>\n");
  for (const PlannedModule& module : plan.modules) {
    absl::StrAppend(&html, "<tr><td>", HtmlText(module.path), "</td><td>",
                    absl::StrJoin(module.shape, " × "), "</td><td class=\"number\">", module.rank,
                    "</td><td class=\"number\">", module.alpha, "</td></tr>\n");
  }
  html += "</table></details>\n";
}

void Samples(std::string& html, const ReportData& data) {
  if (!data.samples.empty()) {
    html +=
        "<h2>Answers before and after</h2>\n<table>\n"
        "<tr><th>prompt</th><th>before</th><th>after</th></tr>\n";
    for (const SampleAnswer& sample : data.samples) {
      absl::StrAppend(&html, "<tr><td>", HtmlText(sample.prompt), "</td><td><pre>",
                      HtmlText(sample.before), "</pre></td><td><pre>", HtmlText(sample.after),
                      "</pre></td></tr>\n");
    }
    html += "</table>\n";
  }
  if (data.plan.first_records.empty()) return;
  html += "<h2>First records</h2>\n<p>Trained tokens are <mark>marked</mark>.</p>\n";
  // A record may be as long as a book.
  constexpr size_t kMostShown = 4000;
  for (const std::vector<MarkedPiece>& record : data.plan.first_records) {
    html += "<pre>";
    size_t shown = 0;
    for (const MarkedPiece& piece : record) {
      if (shown >= kMostShown) {
        html += "…";
        break;
      }
      const std::string text = HtmlText(piece.text.substr(0, kMostShown - shown));
      absl::StrAppend(&html, piece.trained ? "<mark>" : "", text, piece.trained ? "</mark>" : "");
      shown += piece.text.size();
    }
    html += "</pre>\n";
  }
}

}  // namespace

std::string FormatReport(const ReportData& data) {
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      HtmlText(data.title), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<h1>",
      HtmlText(data.title), "</h1>\n");
  Tiles(html, data);
  Charts(html, data.metrics);
  Experts(html, data.metrics);
  Samples(html, data);
  Trained(html, data.plan);
  if (data.evaluations.best_step >= 0) {
    absl::StrAppendFormat(&html, "<p>Best held-out loss: %.4f after step %d.</p>\n",
                          data.evaluations.best_loss, data.evaluations.best_step);
  }
  absl::StrAppend(&html, "<p>Result: ", HtmlText(data.result_path), "</p>\n",
                  "<h2>Configuration</h2>\n<details><summary>config.toml</summary>\n<pre>",
                  HtmlText(data.config), "</pre></details>\n</body>\n</html>\n");
  return html;
}

}  // namespace lorica
