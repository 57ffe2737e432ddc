// Where GridSample reads: from coordinates in [-1, 1] to pixels and their weights. Shared by the devices of the host,
// because the mode nearest depends on every rounding on the way.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/core/op.h"

namespace tessera::backends::host {

enum class GridMode : std::uint8_t { nearest, linear, cubic };
enum class GridPadding : std::uint8_t { zeros, border, reflection };

// The positions an axis of `size` has, in pixels: its outermost centres (align_corners) or edges.
struct GridExtent {
  double low = 0, high = 0;
  std::int64_t size = 0;
};

struct GridSampling {
  GridMode mode = GridMode::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
  std::vector<GridExtent> extents;  // one a spatial axis
};

// The neighbours of a place along an axis: `count` indices from `first` on, which may lie outside (see grid_pixel).
struct GridTap {
  std::int64_t first = 0;
  int count = 1;
  std::array<double, 4> weights{1, 0, 0, 0};
  std::array<double, 4> slopes{};  // of the weights, by the coordinate in pixels
};

// Of a GridSample or its gradient with an image of this shape [N, C, spatial...].
GridSampling read_grid_sampling(const ops::AttributeReader& reader, const Shape& image);

// The neighbours of coordinate `n` along the axis. With `single` it is scaled in float32, as float32 grids are.
GridTap grid_tap(const GridSampling& sampling, std::size_t axis, double n, bool single);

// The pixel that stands for index i, or -1 for a zero.
std::int64_t grid_pixel(const GridSampling& sampling, std::size_t axis, std::int64_t i);

// The slope of a place in pixels by the coordinate.
double grid_scale(const GridSampling& sampling, std::size_t axis);

}  // namespace tessera::backends::host
