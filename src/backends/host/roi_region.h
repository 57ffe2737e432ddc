// The regions of RoiAlign in pixels, shared by the host devices.
#pragma once

#include <cstdint>

#include "ops/core/op.h"

namespace tessera::backends::host {

// A region of a feature map: `rows` x `columns` bins, each sampled at count_y x count_x points.
struct RoiRegion {
  double start_y = 0, start_x = 0, bin_y = 0, bin_x = 0;
  std::int64_t count_y = 0, count_x = 0;

  // The position of sample i of bin `bin` along an axis.
  double y(std::int64_t bin, std::int64_t i) const {
    return start_y + bin_y * (static_cast<double>(bin) + (static_cast<double>(i) + 0.5) / static_cast<double>(count_y));
  }
  double x(std::int64_t bin, std::int64_t i) const {
    return start_x + bin_x * (static_cast<double>(bin) + (static_cast<double>(i) + 0.5) / static_cast<double>(count_x));
  }
};

// The two neighbours of a position along an axis, with weight `part` for the upper one; none for a position more than a
// pixel outside (Mask R-CNN's rule: up to one pixel it counts as on the edge).
struct RoiNeighbours {
  std::int64_t low = 0, high = 0;
  double part = 0;
  bool inside = false;
};
RoiNeighbours roi_neighbours(double place, std::int64_t size);

// Returns region `n`, with corners [x1, y1, x2, y2], of image `batch` of maps [N, C, height, width]; attributes of
// RoiAlign. Throws Error(failed) for a batch index outside of the maps, maps without pixels and corners that are NaN or
// infinite, and Error(over_budget) for a region with more than 2^20 samples per bin.
RoiRegion roi_region(const ops::AttributeReader& reader, const Shape& maps, std::int64_t n, const double* corners,
                     std::int64_t batch);

}  // namespace tessera::backends::host
