// Lengths of records as an SVG of bars, in the classes of the page's style sheet (report.cc).
#include <algorithm>

#include "absl/strings/str_format.h"
#include "lorica/train/html_text.h"
#include "lorica/train/report.h"

namespace lorica {
namespace {

constexpr double kWidth = 720, kHeight = 180;
constexpr double kLeft = 12, kRight = 12, kTop = 46, kBottom = 26;
constexpr double kGap = 4;

}  // namespace

std::string FormatBars(const std::string& title, const std::vector<LengthBar>& bars) {
  int64_t most = 1;
  for (const LengthBar& bar : bars) most = std::max(most, bar.records);
  std::string svg = absl::StrFormat(
      "<svg class=\"chart\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n"
      "<text class=\"name\" x=\"%g\" y=\"16\">%s</text>\n",
      kWidth, kHeight, HtmlText(title), kLeft, HtmlText(title));
  const double step =
      (kWidth - kLeft - kRight) / static_cast<double>(std::max<size_t>(bars.size(), 1));
  for (size_t i = 0; i < bars.size(); ++i) {
    const LengthBar& bar = bars[i];
    const double height =
        (kHeight - kTop - kBottom) * static_cast<double>(bar.records) / static_cast<double>(most);
    const double left = kLeft + step * static_cast<double>(i);
    const double top = kHeight - kBottom - height;
    // Under each bar the length that it begins with: there is no room for both of its ends.
    absl::StrAppendFormat(
        &svg,
        "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">"
        "<title>%d records of %d to %d tokens</title></rect>\n"
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n"
        "<text class=\"tick\" x=\"%.1f\" y=\"%g\">%d</text>\n",
        left + kGap / 2, top, step - kGap, height, bar.records, bar.from, bar.to, left + step / 2,
        top - 4, bar.records, left + kGap / 2, kHeight - 9, bar.from);
  }
  return svg + "</svg>\n";
}

}  // namespace lorica
