// Draws inline SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

// The text with <, >, &, " and ' as entities; characters that a page must not contain (control characters, invalid
// UTF-8) are escaped as by base::printable.
std::string html_text(std::string_view text);

// Maps values to positions on an axis of a plot, in pixels.
class Scale {
 public:
  // `low` and `high` are placed at `begin` and `end`; for a logarithmic axis, both must be positive.
  Scale(double low, double high, double begin, double end, bool logarithmic);
  double operator()(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  // Ticks within the axis, roughly `most` at most: powers of ten (if the axis has fewer than two of them, also their
  // multiples by 2 and 5), or round steps from zero.
  std::vector<double> ticks(int most) const;

 private:
  double low_, high_, begin_, end_;
  bool logarithmic_;
};

// The elements of a plot, such as <path class="..." d="..."/>.
class Drawing {
 public:
  Drawing(double width, double height, std::string_view css_class, std::string_view label);

  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  // `anchor` is start, middle or end; `degrees` turns the text clockwise about its position.
  void text(double x, double y, std::string_view text, std::string_view css_class, std::string_view anchor = "start",
            double degrees = 0);
  void path(std::string_view d, std::string_view css_class);
  // A mark whose `label` is shown when it is pointed at or reached by the arrow keys.
  void mark(std::string_view d, std::string_view css_class, std::string_view label);
  std::string finish();

 private:
  std::string text_;
};

// Outlines centred at a point: a circle of this radius, and a square and a diamond of the same area.
std::string circle_path(double x, double y, double radius);
std::string square_path(double x, double y, double radius);
std::string diamond_path(double x, double y, double radius);

}  // namespace tessera::report
