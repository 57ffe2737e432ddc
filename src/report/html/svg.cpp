#include "report/html/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/text.h"

namespace tessera::report {

std::string html_text(std::string_view text) {
  std::string result;
  for (const char c : base::printable(text)) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

Scale::Scale(double low, double high, double begin, double end, bool logarithmic)
    : low_(low), high_(high > low ? high : low + 1), begin_(begin), end_(end), logarithmic_(logarithmic) {}

double Scale::operator()(double value) const {
  const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return begin_ + share * (end_ - begin_);
}

std::vector<double> Scale::ticks(int most) const {
  std::vector<double> result;
  if (logarithmic_) {
    const int first = static_cast<int>(std::ceil(std::log10(low_) - 1e-9)),
              last = static_cast<int>(std::floor(std::log10(high_) + 1e-9));
    const int step = std::max(1, (last - first) / std::max(1, most) + 1);
    for (int power = first; power <= last; power += step) result.push_back(std::pow(10.0, power));
    if (result.size() >= 2) return result;
    result.clear();
    for (int power = first - 1; power <= last + 1; ++power) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double tick = digit * std::pow(10.0, power);
        if (tick >= low_ * (1 - 1e-9) && tick <= high_ * (1 + 1e-9)) result.push_back(tick);
      }
    }
    if (result.size() >= 2) return result;
    result.clear();  // the axis spans so little that round steps are needed
  }
  // The smallest step of 1, 2, 5, 10, … that gives no more than `most` ticks. Ticks are multiples of the step, so that
  // zero is exactly zero.
  const double power = std::pow(10.0, std::floor(std::log10((high_ - low_) / most)));
  for (const double digit : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    const double step = digit * power;
    const auto first = static_cast<std::int64_t>(std::ceil(low_ / step - 1e-9)),
               last = static_cast<std::int64_t>(std::floor(high_ / step + 1e-9));
    if (last - first + 1 > most && digit < 20) continue;
    for (std::int64_t i = first; i <= last; ++i) result.push_back(static_cast<double>(i) * step);
    return result;
  }
  return result;
}

Drawing::Drawing(double width, double height, std::string_view css_class, std::string_view label) {
  text_ = fmt::format("<svg class=\"plot {}\" viewBox=\"0 0 {:g} {:g}\" role=\"group\" aria-label=\"{}\">\n", css_class,
                      width, height, html_text(label));
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  text_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css_class, x1,
                       y1, x2, y2);
}

void Drawing::text(double x, double y, std::string_view text, std::string_view css_class, std::string_view anchor,
                   double degrees) {
  const std::string turned =
      degrees != 0 ? fmt::format(" transform=\"rotate({:.1f} {:.1f} {:.1f})\"", degrees, x, y) : "";
  text_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", css_class, x, y,
                       anchor, turned, html_text(text));
}

void Drawing::path(std::string_view d, std::string_view css_class) {
  text_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", css_class, d);
}

void Drawing::mark(std::string_view d, std::string_view css_class, std::string_view label) {
  text_ += fmt::format("<path class=\"mark {}\" d=\"{}\" role=\"img\" aria-label=\"{}\"/>\n", css_class, d,
                       html_text(label));
}

std::string Drawing::finish() {
  return text_ + "</svg>\n";
}

std::string circle_path(double x, double y, double radius) {
  return fmt::format("M{:.1f} {:.1f}a{:.1f} {:.1f} 0 1 0 {:.1f} 0a{:.1f} {:.1f} 0 1 0 {:.1f} 0z", x - radius, y, radius,
                     radius, 2 * radius, radius, radius, -2 * radius);
}

std::string square_path(double x, double y, double radius) {
  const double half = radius * 0.886;
  return fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h{:.1f}z", x - half, y - half, 2 * half, 2 * half, -2 * half);
}

std::string diamond_path(double x, double y, double radius) {
  const double half = radius * 1.253;
  return fmt::format("M{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}z", x, y - half, half, half, -half, half,
                     -half, -half);
}

}  // namespace tessera::report
