#include "backends/host/grid_taps.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tessera::backends::host {
namespace {

// Reflects x at both ends of the extent until it lies within.
double reflect(double x, const GridExtent& extent) {
  const double range = extent.high - extent.low;
  if (range <= 0) return extent.low;
  const double beyond = x < extent.low ? extent.low - x : x - extent.high;
  if (beyond <= 0) return x;
  const double folds = std::floor(beyond / range), rest = beyond - folds * range;
  const bool from_low = (x < extent.low) == (std::fmod(folds, 2) == 0);
  return from_low ? extent.low + rest : extent.high - rest;
}

// The slope of reflect at x: each reflection changes its sign.
double reflection_slope(double x, const GridExtent& extent) {
  const double range = extent.high - extent.low;
  if (range <= 0) return 0;
  const double beyond = x < extent.low ? extent.low - x : x - extent.high;
  if (beyond <= 0) return 1;
  return std::fmod(std::floor(beyond / range), 2) == 0 ? -1 : 1;
}

// Converts a normalised coordinate to pixels. With `single`, computes in float32, because nearest mode rounds the
// result.
double denormalise(double n, std::int64_t size, bool align_corners, bool single) {
  const double length = static_cast<double>(size);
  if (single) {
    const float shifted = static_cast<float>(n) + 1.0f;
    return align_corners ? shifted / 2.0f * static_cast<float>(length - 1)
                         : (shifted * static_cast<float>(length) - 1.0f) / 2.0f;
  }
  return align_corners ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
}

// R. Keys, "Cubic convolution interpolation for digital image processing" (1981), with a = -0.75.
GridTap tap_at(double x, GridMode mode) {
  if (mode == GridMode::nearest) return {static_cast<std::int64_t>(x), 1, {1, 0, 0, 0}};
  const double floor = std::floor(x), t = x - floor;
  const std::int64_t base = static_cast<std::int64_t>(floor);
  if (mode == GridMode::linear) return {base, 2, {1 - t, t, 0, 0}, {-1, 1, 0, 0}};
  const double a = -0.75;
  const auto far = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const auto near = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far_slope = [a](double d) { return (3 * a * d - 10 * a) * d + 8 * a; };
  const auto near_slope = [a](double d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; };
  return {base - 1,
          4,
          {far(t + 1), near(t), near(1 - t), far(2 - t)},
          {far_slope(t + 1), near_slope(t), -near_slope(1 - t), -far_slope(2 - t)}};
}

}  // namespace

GridSampling read_grid_sampling(const ops::AttributeReader& reader, const Shape& image) {
  const std::string &mode = reader.text("mode"), &padding = reader.text("padding_mode");
  GridSampling sampling;
  sampling.mode = mode == "nearest" ? GridMode::nearest : mode == "linear" ? GridMode::linear : GridMode::cubic;
  sampling.padding = padding == "zeros"    ? GridPadding::zeros
                     : padding == "border" ? GridPadding::border
                                           : GridPadding::reflection;
  sampling.align_corners = reader.integer("align_corners") != 0;
  for (std::size_t i = 2; i < image.size(); ++i) {
    const double size = static_cast<double>(image[i]);
    sampling.extents.push_back(sampling.align_corners ? GridExtent{0, size - 1, image[i]}
                                                      : GridExtent{-0.5, size - 0.5, image[i]});
  }
  return sampling;
}

GridTap grid_tap(const GridSampling& sampling, std::size_t axis, double n, bool single) {
  const GridExtent& extent = sampling.extents[axis];
  double x = denormalise(n, extent.size, sampling.align_corners, single);
  x = std::isnan(x) ? -1e15 : std::clamp(x, -1e15, 1e15);  // treats NaN as far outside
  if (sampling.mode == GridMode::nearest) x = std::nearbyint(x);
  double slope = 1;
  if (x < extent.low || x > extent.high) {
    if (sampling.padding != GridPadding::zeros)
      slope = sampling.padding == GridPadding::border ? 0 : reflection_slope(x, extent);
    if (sampling.padding == GridPadding::border) x = std::clamp(x, 0.0, static_cast<double>(extent.size) - 1);
    else if (sampling.padding == GridPadding::reflection) x = reflect(x, extent);
  }
  GridTap tap = tap_at(x, sampling.mode);
  for (double& each : tap.slopes) each *= slope;
  return tap;
}

std::int64_t grid_pixel(const GridSampling& sampling, std::size_t axis, std::int64_t i) {
  const GridExtent& extent = sampling.extents[axis];
  if (i >= 0 && i < extent.size) return i;
  if (sampling.padding == GridPadding::zeros) return -1;
  const double inside =
      sampling.padding == GridPadding::border ? static_cast<double>(i) : reflect(static_cast<double>(i), extent);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(inside), 0, extent.size - 1);
}

double grid_scale(const GridSampling& sampling, std::size_t axis) {
  const double length = static_cast<double>(sampling.extents[axis].size);
  return (sampling.align_corners ? length - 1 : length) / 2;
}

}  // namespace tessera::backends::host
