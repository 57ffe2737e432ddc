// The pixels and weights that GridSample reads for coordinates in [-1, 1]. Shared by the host devices, because the mode
// nearest depends on the rounding of every step.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/core/op.h"

namespace tessera::backends::host {

enum class GridMode : std::uint8_t { nearest, linear, cubic };
enum class GridPadding : std::uint8_t { zeros, border, reflection };

// The range of an axis of `size` pixels: between its outermost centres (align_corners) or edges.
struct GridExtent {
  double low = 0, high = 0;
  std::int64_t size = 0;
};

struct GridSampling {
  GridMode mode = GridMode::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
  std::vector<GridExtent> extents;  // one per spatial axis
};

// The neighbours of a position along an axis: `count` indices from `first` on, which may be outside (see grid_pixel).
struct GridTap {
  std::int64_t first = 0;
  int count = 1;
  std::array<double, 4> weights{1, 0, 0, 0};
  std::array<double, 4> slopes{};  // derivatives of the weights by the coordinate in pixels
};

// The parameters of GridSample or its gradient for an image of this shape [N, C, spatial...].
GridSampling read_grid_sampling(const ops::AttributeReader& reader, const Shape& image);

// The neighbours of coordinate `n` along the axis. With `single` it is scaled in float32, as float32 grids are.
GridTap grid_tap(const GridSampling& sampling, std::size_t axis, double n, bool single);

// The pixel that index i refers to under the padding mode, or -1 for a zero.
std::int64_t grid_pixel(const GridSampling& sampling, std::size_t axis, std::int64_t i);

// The derivative of the position in pixels by the coordinate.
double grid_scale(const GridSampling& sampling, std::size_t axis);

}  // namespace tessera::backends::host
