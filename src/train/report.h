// report.html: a run on one page, without anything from elsewhere.
#ifndef LORICA_TRAIN_REPORT_H_
#define LORICA_TRAIN_REPORT_H_

#include <string>
#include <vector>

#include "lorica/train/metrics.h"
#include "lorica/train/sft.h"

namespace lorica {

struct ReportData {
  std::string title;
  SftPlan plan;
  std::string config;  // the options as TOML
  MetricsLog metrics;
  std::vector<SampleAnswer> samples;
  EvaluationHistory evaluations;
  bool stopped_early = false;
  std::string result_path;
};

// A complete HTML document: curves as SVG, tables, samples; readable on light and dark screens.
// Every text is escaped; invalid UTF-8 in it is replaced.
std::string FormatReport(const ReportData& data);

// A curve for a chart: points in ascending x.
struct ChartSeries {
  std::string name;
  std::vector<double> x, y;
  bool dots = false;  // mark the points: for series of few
};

// One chart as an <svg> element, [0, 720] x [0, 240]. Values that aren't finite are left out.
std::string FormatChart(const std::string& title, const std::string& x_name,
                        const std::vector<ChartSeries>& series);

// A row a layer and a column an expert, shaded by the expert's tokens over the mean of its layer,
// as an <svg> element of width 720.
std::string FormatLoadMap(const std::string& title, const ExpertLoads& loads);

// Records by length as an <svg> element, [0, 720] x [0, 180].
std::string FormatBars(const std::string& title, const std::vector<LengthBar>& bars);

}  // namespace lorica

#endif  // LORICA_TRAIN_REPORT_H_
