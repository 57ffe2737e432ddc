// The frame of a plot: its size on wide and on narrow screens, axes and ticks.
#pragma once

#include <string>
#include <string_view>

#include "report/html/svg.h"

namespace tessera::report {

struct Frame {
  double width, height, left, right, top, bottom;
  std::string_view css_class;
  int ticks;
};
inline constexpr Frame kWide{900, 460, 64, 16, 14, 46, "wide", 9}, kNarrow{380, 400, 50, 16, 14, 44, "narrow", 4};

// The end of a plot's <div>: the line where the script describes a mark.
inline constexpr std::string_view kReadout =
    "<p class=\"readout\" aria-live=\"polite\">Point at a mark, or reach the plot with Tab and walk with the arrow "
    "keys.</p></div>\n";

// "100 G", "1000", "0.1".
std::string tick_text(double value);

void axes(Drawing& drawing, const Frame& frame, const Scale& x, const Scale& y, const std::string& x_name,
          const std::string& y_name);

}  // namespace tessera::report
