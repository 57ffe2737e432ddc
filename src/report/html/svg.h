// Drawing as inline SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

// With <, >, &, " and ' as entities, and what a page may not hold (control characters, bytes that are no UTF-8) as
// base::printable writes it.
std::string html_text(std::string_view text);

// Positions of values on an axis of a plot, in pixels.
class Scale {
 public:
  // `low` and `high` lie at `begin` and `end`; of a logarithmic axis both are positive.
  Scale(double low, double high, double begin, double end, bool logarithmic);
  double operator()(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  // Powers of ten (of an axis with fewer than two of them, their multiples by 1, 2 and 5), or round steps from zero,
  // within the axis; at most about `most`.
  std::vector<double> ticks(int most) const;

 private:
  double low_, high_, begin_, end_;
  bool logarithmic_;
};

// An element of a plot: <path class="..." d="..."/> and the like.
class Drawing {
 public:
  Drawing(double width, double height, std::string_view css_class, std::string_view label);

  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  // `anchor`: start, middle or end; `degrees` turns it clockwise about its position.
  void text(double x, double y, std::string_view text, std::string_view css_class, std::string_view anchor = "start",
            double degrees = 0);
  void path(std::string_view d, std::string_view css_class);
  // A mark that says `label` when it is pointed at or walked to with the arrow keys.
  void mark(std::string_view d, std::string_view css_class, std::string_view label);
  std::string finish();

 private:
  std::string text_;
};

// Outlines about a point: a circle, a square and a diamond of the area of a circle with this radius.
std::string circle_path(double x, double y, double radius);
std::string square_path(double x, double y, double radius);
std::string diamond_path(double x, double y, double radius);

}  // namespace tessera::report
