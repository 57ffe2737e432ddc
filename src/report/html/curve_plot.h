// Curves over the steps of a training.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

struct CurvePoint {
  double x = 0, y = 0;
  std::string label;  // what the readout says
};

struct Curve {
  std::string name;  // of the legend, which is there where there are several curves
  std::vector<CurvePoint> points;
};

// A section with at most four curves in one frame, wide and narrow; points that are not finite, and on a logarithmic
// axis those that are not positive, are left out. Empty where no curve has two points that differ in height.
std::string curve_section(std::string_view title, std::string_view explanation, std::vector<Curve> curves,
                          const std::string& y_name, bool logarithmic = false);

}  // namespace tessera::report
