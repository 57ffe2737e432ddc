// The regions of RoiAlign in pixels, shared by the devices of the host.
#pragma once

#include <cstdint>

#include "ops/core/op.h"

namespace tessera::backends::host {

// A region of a feature map: `rows` x `columns` bins, each sampled at count_y x count_x points.
struct RoiRegion {
  double start_y = 0, start_x = 0, bin_y = 0, bin_x = 0;
  std::int64_t count_y = 0, count_x = 0;

  // The place of sample i of bin `bin` along an axis.
  double y(std::int64_t bin, std::int64_t i) const {
    return start_y + bin_y * (static_cast<double>(bin) + (static_cast<double>(i) + 0.5) / static_cast<double>(count_y));
  }
  double x(std::int64_t bin, std::int64_t i) const {
    return start_x + bin_x * (static_cast<double>(bin) + (static_cast<double>(i) + 0.5) / static_cast<double>(count_x));
  }
};

// The two neighbours of a place along an axis, with `part` of the upper one; nothing of a place that is more than a
// pixel outside (Mask R-CNN's rule: up to that it counts as on the edge).
struct RoiNeighbours {
  std::int64_t low = 0, high = 0;
  double part = 0;
  bool inside = false;
};
RoiNeighbours roi_neighbours(double place, std::int64_t size);

// Region `n`, with corners [x1, y1, x2, y2], of image `batch` of maps [N, C, height, width]; attributes of RoiAlign.
// Throws Error: failed for a batch index outside, maps without pixels and corners that are no numbers, over_budget for
// a region of more than 2^20 samples a bin.
RoiRegion roi_region(const ops::AttributeReader& reader, const Shape& maps, std::int64_t n, const double* corners,
                     std::int64_t batch);

}  // namespace tessera::backends::host
