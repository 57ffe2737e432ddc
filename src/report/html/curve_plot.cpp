#include "report/html/curve_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/html/html.h"
#include "report/html/plot_axes.h"
#include "report/html/svg.h"

namespace tessera::report {
namespace {

// Classes of the style sheet that set the colours; the marks differ in shape too.
constexpr std::array<std::string_view, 4> kColours = {"memory", "arithmetic", "overhead", "beside"};

std::string mark_path(std::size_t curve, double x, double y, double radius) {
  return curve % 3 == 0   ? circle_path(x, y, radius)
         : curve % 3 == 1 ? square_path(x, y, radius)
                          : diamond_path(x, y, radius);
}

// At most `most` of the points, evenly spaced, including the last one.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<CurvePoint> few;
  for (std::size_t i = 0; i < most; ++i) few.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return few;
}

std::string drawn(const std::vector<Curve>& curves, Frame frame, const std::string& y_name, bool logarithmic) {
  frame.top = 30;  // the name of the axis stands above the plot
  double low = HUGE_VAL, high = -HUGE_VAL, first = HUGE_VAL, last = -HUGE_VAL;
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) {
      low = std::min(low, point.y), high = std::max(high, point.y);
      first = std::min(first, point.x), last = std::max(last, point.x);
    }
  }
  if (!logarithmic) {
    const double room = std::max((high - low) * 0.05, std::abs(high) * 1e-6 + 1e-12);
    low -= room, high += room;
  } else if (low == high) {
    low /= 2, high *= 2;
  }
  const Scale x(first, std::max(last, first + 1), frame.left, frame.width - frame.right, false);
  const Scale y(low, high, frame.height - frame.bottom, frame.top, logarithmic);
  Drawing drawing(frame.width, frame.height, std::string("plot ") + std::string(frame.css_class), y_name);
  axes(drawing, frame, x, y, "step", "");
  drawing.text(frame.left - 6, 16, y_name, "axisname");
  for (std::size_t i = 0; i < curves.size(); ++i) {
    std::string path;
    for (const CurvePoint& point : curves[i].points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(point.x), y(point.y));
    drawing.path(path, fmt::format("curve {}", kColours[i % kColours.size()]));
  }
  for (std::size_t i = 0; i < curves.size(); ++i) {
    for (const CurvePoint& point : thinned(curves[i].points, 60))
      drawing.mark(mark_path(i, x(point.x), y(point.y), 3), fmt::format("mark {}", kColours[i % kColours.size()]),
                   point.label);
  }
  return drawing.finish();
}

std::string legend(const std::vector<Curve>& curves) {
  std::string text = "<p class=\"legend\">";
  for (std::size_t i = 0; i < curves.size(); ++i)
    text += fmt::format("<span><svg viewBox=\"0 0 12 12\"><path class=\"{}\" d=\"{}\"/></svg>{}</span>",
                        kColours[i % kColours.size()], mark_path(i, 6, 6, 4), html_text(curves[i].name));
  return text + "</p>\n";
}

}  // namespace

std::string curve_section(std::string_view title, std::string_view explanation, std::vector<Curve> curves,
                          const std::string& y_name, bool logarithmic) {
  bool differs = false;
  for (Curve& curve : curves) {
    std::erase_if(curve.points,
                  [&](const CurvePoint& point) { return !std::isfinite(point.y) || (logarithmic && point.y <= 0); });
    if (curve.points.empty()) continue;
    const auto [low, high] = std::ranges::minmax(curve.points, {}, &CurvePoint::y);
    differs |= low.y != high.y;
    curve.points = thinned(curve.points, 600);
  }
  std::erase_if(curves, [](const Curve& curve) { return curve.points.empty(); });
  if (!differs) return "";  // a level line tells no more than the facts above it
  Frame wide = kWide, narrow = kNarrow;
  wide.height = 320, narrow.height = 300;
  return html_section(title, explanation,
                      (curves.size() > 1 ? legend(curves) : "") + "<div>" + drawn(curves, wide, y_name, logarithmic) +
                          drawn(curves, narrow, y_name, logarithmic) + std::string(kReadout));
}

}  // namespace tessera::report
