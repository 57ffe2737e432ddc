// Plots curves over the steps of a training.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

struct CurvePoint {
  double x = 0, y = 0;
  std::string label;  // shown in the line below the plot
};

struct Curve {
  std::string name;  // for the legend, which is shown if there are several curves
  std::vector<CurvePoint> points;
};

// A section with at most four curves in one frame, for wide and narrow screens. Points that are not finite, and on a
// logarithmic axis those that are not positive, are left out. "" if no curve has two points of different height.
std::string curve_section(std::string_view title, std::string_view explanation, std::vector<Curve> curves,
                          const std::string& y_name, bool logarithmic = false);

}  // namespace tessera::report
