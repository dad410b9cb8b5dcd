// Line charts as SVG. Colours are classes of the page's style sheet (report.cc), so that a chart
// follows the reader's light or dark setting.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/train/html_text.h"
#include "lorica/train/report.h"

namespace lorica {
namespace {

constexpr double kWidth = 720, kHeight = 240;
constexpr double kLeft = 64, kRight = 12, kTop = 30, kBottom = 34;
// A point a pixel is all that can be seen.
constexpr size_t kMostPoints = 700;

struct Range {
  double low = 0, high = 1;

  double Share(double value) const { return (value - low) / (high - low); }
};

// 1, 2 or 5 times a power of ten, about a fifth of `span`.
double TickStep(double span) {
  const double power = std::pow(10.0, std::floor(std::log10(span / 5)));
  const double lead = span / 5 / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

// 0.0002 as "2e-4", 1500000 as "1.5M".
std::string TickText(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%.4gG", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%.4gM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%.4gk", value / 1e3);
  return absl::StrFormat("%.4g", size < 1e-12 ? 0.0 : value);
}

Range RangeOf(const std::vector<double>& values, bool from_zero) {
  Range range = {INFINITY, -INFINITY};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  if (range.low > range.high) return Range();
  if (from_zero && range.low > 0) range.low = 0;
  if (range.low == range.high) {
    const double margin = range.low == 0 ? 1 : std::abs(range.low) / 2;
    range.low -= range.low == 0 ? 0 : margin;
    range.high += margin;
  }
  return range;
}

// At most kMostPoints: of each bucket the mean.
std::pair<std::vector<double>, std::vector<double>> Thin(const ChartSeries& series) {
  const size_t count = std::min(series.x.size(), series.y.size());
  const size_t bucket = (count + kMostPoints - 1) / kMostPoints;
  std::vector<double> xs, ys;
  for (size_t begin = 0; begin < count; begin += bucket) {
    double x = 0, y = 0;
    size_t finite = 0;
    for (size_t i = begin; i < std::min(count, begin + bucket); ++i) {
      if (!std::isfinite(series.y[i]) || !std::isfinite(series.x[i])) continue;
      x += series.x[i];
      y += series.y[i];
      ++finite;
    }
    if (finite == 0) continue;
    xs.push_back(x / static_cast<double>(finite));
    ys.push_back(y / static_cast<double>(finite));
  }
  return {std::move(xs), std::move(ys)};
}

}  // namespace

std::string FormatChart(const std::string& title, const std::string& x_name,
                        const std::vector<ChartSeries>& series) {
  std::vector<double> all_x, all_y;
  std::vector<std::pair<std::vector<double>, std::vector<double>>> thinned;
  for (const ChartSeries& one : series) {
    thinned.push_back(Thin(one));
    all_x.insert(all_x.end(), thinned.back().first.begin(), thinned.back().first.end());
    all_y.insert(all_y.end(), thinned.back().second.begin(), thinned.back().second.end());
  }
  const Range xr = RangeOf(all_x, false);
  const Range yr = RangeOf(all_y, true);
  const auto x_at = [&](double x) { return kLeft + xr.Share(x) * (kWidth - kLeft - kRight); };
  const auto y_at = [&](double y) {
    return kHeight - kBottom - yr.Share(y) * (kHeight - kTop - kBottom);
  };

  std::string svg = absl::StrFormat(
      "<svg class=\"chart\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n"
      "<text class=\"name\" x=\"%g\" y=\"16\">%s</text>\n",
      kWidth, kHeight, HtmlText(title), kLeft, HtmlText(title));
  const double y_step = TickStep(yr.high - yr.low);
  for (double tick = std::ceil(yr.low / y_step) * y_step; tick <= yr.high + y_step * 1e-9;
       tick += y_step) {
    absl::StrAppendFormat(
        &svg,
        "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>"
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
        kLeft, y_at(tick), kWidth - kRight, kLeft - 6, y_at(tick) + 4, TickText(tick));
  }
  // Steps are whole: no finer tick than 1.
  const double x_step = std::max(1.0, TickStep(xr.high - xr.low));
  for (double tick = std::ceil(xr.low / x_step) * x_step; tick <= xr.high + x_step * 1e-9;
       tick += x_step) {
    absl::StrAppendFormat(
        &svg, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
        x_at(tick), kHeight - kBottom + 16, TickText(tick));
  }
  absl::StrAppendFormat(
      &svg, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
      kWidth - kRight, kHeight - 4, HtmlText(x_name));

  double legend_x = kWidth - kRight;
  for (size_t i = series.size(); i-- > 0;) {
    const auto& [xs, ys] = thinned[i];
    if (xs.empty()) continue;
    std::string path;
    for (size_t k = 0; k < xs.size(); ++k) {
      absl::StrAppendFormat(&path, "%s%.1f %.1f", k == 0 ? "M" : "L", x_at(xs[k]), y_at(ys[k]));
    }
    absl::StrAppend(&svg, "<path class=\"line s", i, "\" d=\"", path, "\"/>\n");
    if (series[i].dots || xs.size() == 1) {
      for (size_t k = 0; k < xs.size(); ++k) {
        absl::StrAppendFormat(
            &svg,
            "<circle class=\"dot s%d\" cx=\"%.1f\" cy=\"%.1f\" "
            "r=\"3\"><title>%s</title></circle>\n",
            i, x_at(xs[k]), y_at(ys[k]),
            HtmlText(absl::StrFormat("%s %.6g at %g", series[i].name, ys[k], xs[k])));
      }
    }
    if (series.size() > 1) {
      absl::StrAppendFormat(
          &svg, "<text class=\"legend s%d\" x=\"%.1f\" y=\"16\" text-anchor=\"end\">%s</text>\n", i,
          legend_x, HtmlText(series[i].name));
      legend_x -= 16 + 7.0 * static_cast<double>(series[i].name.size());
    }
  }
  return svg + "</svg>\n";
}

}  // namespace lorica
