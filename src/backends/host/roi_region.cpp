#include "backends/host/roi_region.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera::backends::host {
namespace {

// The most samples per bin; a region with more is considered invalid.
constexpr double kMostSamples = 0x1p20;

std::int64_t samples_along(double extent, std::int64_t bins, std::int64_t ratio) {
  const double count =
      ratio > 0 ? static_cast<double>(ratio) : std::max(0.0, std::ceil(extent / static_cast<double>(bins)));
  require(count <= kMostSamples, ErrorKind::over_budget, "a region of {} pixels in {} bins takes {} samples a bin",
          extent, bins, count);
  return static_cast<std::int64_t>(count);
}

}  // namespace

RoiNeighbours roi_neighbours(double place, std::int64_t size) {
  if (place < -1 || place > static_cast<double>(size)) return {};
  place = std::max(place, 0.0);
  RoiNeighbours result{std::min(static_cast<std::int64_t>(place), size - 1), 0, 0, true};
  result.high = std::min(result.low + 1, size - 1);
  if (result.low != size - 1) result.part = place - static_cast<double>(result.low);
  return result;
}

RoiRegion roi_region(const ops::AttributeReader& reader, const Shape& maps, std::int64_t n, const double* corners,
                     std::int64_t batch) {
  const std::int64_t height = maps[2], width = maps[3], ratio = reader.integer("sampling_ratio");
  const std::int64_t rows = reader.integer("output_height"), columns = reader.integer("output_width");
  const bool half_pixel = reader.text("coordinate_transformation_mode") == "half_pixel";
  const double scale = reader.real("spatial_scale"), offset = half_pixel ? 0.5 : 0;
  require(batch >= 0 && batch < maps[0], ErrorKind::failed, "batch index {} is outside [0, {})", batch, maps[0]);
  require(height > 0 && width > 0, ErrorKind::failed, "a feature map of {} x {}", height, width);
  double corner[4];
  for (std::size_t i = 0; i < 4; ++i) {
    corner[i] = corners[i] * scale - offset;
    require(std::isfinite(corner[i]), ErrorKind::failed, "region {} has a corner at {}", n, corner[i]);
  }
  const double least = half_pixel ? -INFINITY : 1.0;
  const double extent_x = std::max(corner[2] - corner[0], least), extent_y = std::max(corner[3] - corner[1], least);
  RoiRegion region{corner[1], corner[0], extent_y / static_cast<double>(rows), extent_x / static_cast<double>(columns)};
  region.count_x = samples_along(extent_x, columns, ratio);
  region.count_y = samples_along(extent_y, rows, ratio);
  require(static_cast<double>(region.count_x) * static_cast<double>(region.count_y) <= kMostSamples,
          ErrorKind::over_budget, "region {} takes {} x {} samples a bin", n, region.count_y, region.count_x);
  return region;
}

}  // namespace tessera::backends::host
