#include "report/html/plot_axes.h"

#include <fmt/format.h>

#include <iterator>

namespace tessera::report {

std::string tick_text(double value) {
  constexpr std::string_view units[] = {"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  if (value < 1e4) return fmt::format("{:g}", value);
  for (; value >= 1e3 && unit + 1 < std::size(units); ++unit) value /= 1e3;
  return fmt::format("{:g}{}", value, units[unit]);
}

void axes(Drawing& drawing, const Frame& frame, const Scale& x, const Scale& y, const std::string& x_name,
          const std::string& y_name) {
  const double bottom = frame.height - frame.bottom, right = frame.width - frame.right;
  for (const double tick : x.ticks(frame.ticks)) {
    drawing.line(x(tick), frame.top, x(tick), bottom, "grid");
    drawing.text(x(tick), bottom + 17, tick_text(tick), "", "middle");
  }
  for (const double tick : y.ticks(6)) {
    drawing.line(frame.left, y(tick), right, y(tick), "grid");
    drawing.text(frame.left - 6, y(tick) + 4, tick_text(tick), "", "end");
  }
  drawing.line(frame.left, bottom, right, bottom, "axis");
  drawing.line(frame.left, frame.top, frame.left, bottom, "axis");
  drawing.text((frame.left + right) / 2, frame.height - 6, x_name, "", "middle");
  if (!y_name.empty()) drawing.text(frame.left + 6, frame.top + 10, y_name, "");
}

}  // namespace tessera::report
