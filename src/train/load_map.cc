// Load of experts as an SVG: a row a layer, a column an expert, in the classes of the page's style
// sheet (report.cc).
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/train/html_text.h"
#include "lorica/train/report.h"

namespace lorica {
namespace {

constexpr double kWidth = 720;
constexpr double kLeft = 64, kRight = 12, kTop = 46, kBottom = 26;
// A picture of few layers stays flat, one of many fits on a screen.
constexpr double kLeastRow = 6, kMostRow = 22, kHeightOfRows = 360;
// Shades up to twice the mean, which is the middle one; shade 0 is for experts without a token.
constexpr int kShades = 8;

int ShadeOf(int64_t tokens, double mean) {
  if (tokens == 0) return 0;
  const double share = std::ceil(static_cast<double>(tokens) / mean * kShades / 2);
  return static_cast<int>(std::clamp(share, 1.0, static_cast<double>(kShades)));
}

// "layer 12" of "model.layers.12.mlp"; the path itself where it has no number.
std::string LayerName(const std::string& path) {
  const auto begin = std::find_if(path.begin(), path.end(), absl::ascii_isdigit);
  if (begin == path.end()) return path;
  const auto end = std::find_if_not(begin, path.end(), absl::ascii_isdigit);
  return absl::StrCat("layer ", std::string(begin, end));
}

std::string RowText(const LayerLoad& layer, double mean) {
  const auto most = std::max_element(layer.load.begin(), layer.load.end());
  const auto least = std::min_element(layer.load.begin(), layer.load.end());
  return absl::StrFormat(
      "%s: expert %d has the most tokens, %d (%.2f times the mean), expert %d the fewest, %d",
      layer.path, most - layer.load.begin(), *most, static_cast<double>(*most) / mean,
      least - layer.load.begin(), *least);
}

}  // namespace

std::string FormatLoadMap(const std::string& title, const ExpertLoads& loads) {
  size_t experts = 1;
  for (const LayerLoad& layer : loads) experts = std::max(experts, layer.load.size());
  const double rows = static_cast<double>(std::max<size_t>(loads.size(), 1));
  const double row = std::clamp(kHeightOfRows / rows, kLeastRow, kMostRow);
  const double column = (kWidth - kLeft - kRight) / static_cast<double>(experts);
  const double height = kTop + rows * row + kBottom;
  // A gap shows where one cell ends, as long as there is room for it.
  const double gap = column >= 6 ? 1 : 0;

  std::string svg = absl::StrFormat(
      "<svg class=\"chart\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n"
      "<text class=\"name\" x=\"%g\" y=\"16\">%s</text>\n",
      kWidth, height, HtmlText(title), kLeft, HtmlText(title));
  // A path for all cells of one shade: a large model has tens of thousands of cells.
  std::vector<std::string> paths(kShades + 1);
  std::string labels;
  double top = kTop;
  for (const LayerLoad& layer : loads) {
    int64_t sum = 0;
    for (const int64_t tokens : layer.load) sum += tokens;
    const double mean = std::max(static_cast<double>(sum), 1.0) /
                        static_cast<double>(std::max<size_t>(layer.load.size(), 1));
    for (size_t e = 0; e < layer.load.size(); ++e) {
      absl::StrAppendFormat(&paths[static_cast<size_t>(ShadeOf(layer.load[e], mean))],
                            "M%.1f %.1fh%.2fv%.2fh-%.2fz", kLeft + column * static_cast<double>(e),
                            top, column - gap, row - gap, column - gap);
    }
    if (row >= 12 || &layer == &loads.front() || &layer == &loads.back()) {
      absl::StrAppendFormat(
          &labels, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
          kLeft - 6, top + row / 2 + 4, HtmlText(LayerName(layer.path)));
    }
    if (!layer.load.empty()) {
      absl::StrAppendFormat(
          &labels,
          "<rect class=\"cover\" x=\"%g\" y=\"%.1f\" width=\"%g\" height=\"%.1f\">"
          "<title>%s</title></rect>\n",
          kLeft, top, kWidth - kLeft - kRight, row, HtmlText(RowText(layer, mean)));
    }
    top += row;
  }
  for (int shade = 0; shade <= kShades; ++shade) {
    const std::string& path = paths[static_cast<size_t>(shade)];
    if (path.empty()) continue;
    absl::StrAppendFormat(&svg, "<path class=\"%s\" fill-opacity=\"%.3g\" d=\"%s\"/>\n",
                          shade == 0 ? "idle" : "bar",
                          shade == 0 ? 1 : static_cast<double>(shade) / kShades, path);
  }
  svg += labels;
  double x = kLeft;
  for (const auto& [text, shade] : {std::pair<const char*, int>{"no token", 0},
                                    {"half the mean", kShades / 4},
                                    {"the mean", kShades / 2},
                                    {"twice the mean or more", kShades}}) {
    absl::StrAppendFormat(
        &svg,
        "<rect class=\"%s\" fill-opacity=\"%.3g\" x=\"%.1f\" y=\"26\" width=\"10\" "
        "height=\"10\"/><text class=\"tick\" x=\"%.1f\" y=\"35\">%s</text>\n",
        shade == 0 ? "idle" : "bar", shade == 0 ? 1 : static_cast<double>(shade) / kShades, x,
        x + 14, text);
    x += 130;
  }
  absl::StrAppendFormat(
      &svg,
      "<text class=\"tick\" x=\"%g\" y=\"%.1f\">expert 0</text>\n"
      "<text class=\"tick\" x=\"%g\" y=\"%.1f\" text-anchor=\"end\">expert %d</text>\n",
      kLeft, height - 9, kWidth - kRight, height - 9, experts - 1);
  return svg + "</svg>\n";
}

}  // namespace lorica
