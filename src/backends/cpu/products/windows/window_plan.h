// The plan by which a layer becomes an indirect product of its windows (indirect_product_f32.h): the copy of its data,
// if any, the segments of a window, the layout of the weights, and the split of the product. A convolution's windows
// are those of its kernel, a matrix's windows are its rows.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "backends/cpu/products/product_split.h"
#include "backends/cpu/products/tile_rows.h"
#include "backends/cpu/products/windows/window_pointers.h"
#include "backends/cpu/products/windows/windows.h"

namespace tessera::backends::cpu {

// Distances between the weights of neighbouring outputs, input channels of a group, and taps, in the layer's layout.
struct WeightStrides {
  std::int64_t output = 0, channel = 0, tap = 0;
};

// The positions of a larger result [N, depth, rows, columns, channels] that a layer computes: first, first + step, …
// along each axis of the larger result, which has `size` positions.
struct ResultPlaces {
  struct Axis {
    std::int64_t first = 0, step = 1, size = 1;
  };
  std::array<Axis, 3> axes;

  // The position in the larger result of the layer's row `row`.
  std::int64_t position(const ChannelsLastGeometry& geometry, std::int64_t row) const {
    std::int64_t rest = row / geometry.axes[2].output, at[3] = {0, 0, row % geometry.axes[2].output};
    at[1] = rest % geometry.axes[1].output;
    rest /= geometry.axes[1].output;
    at[0] = rest % geometry.axes[0].output;
    std::int64_t place = rest / geometry.axes[0].output;  // the image
    for (std::size_t i = 0; i < 3; ++i) place = place * axes[i].size + axes[i].first + at[i] * axes[i].step;
    return place;
  }
};

// A layer as windows times weights, which are constants or computed.
struct WindowLayer {
  ChannelsLastGeometry geometry;
  std::int64_t groups = 1, inputs = 0, outputs = 0;  // channels of a group
  WeightStrides strides;
  // For (a phase of) a transposed convolution, in bfloat16 only: the taps of the window in its order, as indices into
  // the weights [inputs, outputs, weight_taps]; and the positions of the results.
  std::vector<std::int64_t> tap_order;
  std::int64_t weight_taps = 0;
  std::optional<ResultPlaces> places;

  std::int64_t rows() const { return geometry.batch * geometry.outputs(); }
};

// The product of a matrix of shape `x` with weights [inputs, outputs], or [outputs, inputs] if `transposed`.
WindowLayer linear_layer(Shape x, const Shape& weights, bool transposed);

// Input channels whose weights are transposed at a time: what is written stays in the first-level cache.
inline constexpr std::int64_t kPackedTogether = 16;

// The form in which tile registers (tile_product.h) read windows: rows of A evenly spaced, so that they need no copy.
struct WindowTiles {
  bool pads_lines = false;  // data is copied with the padding at both ends of each line
  // Rows of each of two tiles; if they divide the outputs of a line, no tile crosses lines.
  std::int64_t half_rows = kTileRows;
  std::int64_t left = 0, right = 0;  // pixels of padding

  WindowTiles() = default;
  explicit WindowTiles(const ChannelsLastGeometry& geometry);

  // Whether the rows of a tile are evenly spaced pixels, in the copy, of one line, or of the image if windows are its
  // pixels.
  bool evenly(const ChannelsLastGeometry& geometry) const;
  // The geometry of the copy.
  ChannelsLastGeometry of_copy(ChannelsLastGeometry geometry) const;

 private:
  bool reaches_over_edges_ = false;
};

// The layout of a segment's weights. With tile registers its last step of 64 bytes begins early enough to end with the
// segment (tile_product.h): elements that it reads a second time meet zero weights.
struct SegmentWeights {
  std::int64_t whole = 0;   // elements before the last step
  std::int64_t length = 0;  // including the zeros between
  bool overlaps = false;

  SegmentWeights() = default;
  SegmentWeights(std::int64_t elements, std::int64_t element_bytes, bool tiles);
  std::int64_t place(std::int64_t element, std::int64_t elements) const {
    return element < whole ? element : length - elements + element;
  }
};

// Properties of an element type and its microkernels that a plan depends on.
struct WindowFormat {
  std::int64_t element_bytes;
  std::int64_t group;         // neighbours multiplied together; segments are padded to whole groups
  std::int64_t columns;       // of a panel
  std::int64_t few_channels;  // with so many or more, each tap of a window is a segment (WindowSegments)
  // Elements of a segment times vectors of outputs that vectors multiply in the time that copying the segment for tile
  // registers takes.
  std::int64_t copied_for;
  double chunk_operations, tile_chunk_operations;  // operations worth a chunk, by vectors and by tile registers
  bool rows_of_small_weights;                      // ProductSplit
};

// Properties of the multiplier (MultiplierBf16, MultiplierS8) that a plan depends on.
struct WindowMultiplier {
  bool tiles;  // whether it uses tile registers
  std::int64_t tile_rows, depth_step;
};

// The number of rows to choose a multiplier for: the layer's, or 0 if vectors multiply faster than tile registers can
// gather their rows from short segments.
std::int64_t rows_for_multiplier(const WindowLayer& layer, const WindowFormat& format);

struct WindowPlan {
  WindowLayer layer;              // as given
  WindowTiles tiles;              // the copy of the data for tile registers
  std::int64_t inputs = 0;        // channels of a group in the product: in whole groups of neighbours
  ChannelsLastGeometry geometry;  // of the data that the product reads
  WindowSegments segments;
  std::int64_t padded = 0;  // elements of a segment, in whole groups
  SegmentWeights segment;   // where the weights of a segment lie
  std::int64_t tile_rows = 0;
  bool spaced = false;     // rows of tiles are read in place, evenly spaced
  std::int64_t depth = 0;  // elements of a row, including zeros in its segments
  ProductSplit split;

  // Whether pixels lie further apart than in the layer's data.
  bool spreads() const { return geometry.channels != layer.groups * layer.inputs; }
  // The pixels of a line in the layer's data.
  std::int64_t given_width() const { return layer.geometry.axes[2].input; }
  std::int64_t data_elements() const;
  // The pointers to the segments of windows.
  template <typename T>
  WindowPointers<T> pointers() const {
    return WindowPointers<T>(geometry, segments, inputs, padded, tile_rows);
  }
};

// `converts`: data is copied anyway, to another element type.
WindowPlan plan_windows(const WindowLayer& layer, const WindowFormat& format, const WindowMultiplier& multiplier,
                        bool converts);

// The number of tiles that a line of outputs should be cut into so that most taps in the padding are so for all windows
// of a tile, which skips them (WindowPointers, skips_padding); 0 if tiles that cross lines take as long.
std::int64_t tiles_of_line(const ops::WindowAxis& line, std::int64_t tile_rows);

// The share of the taps of an axis, over all of its outputs, that read the input.
double share_inside(const ops::WindowAxis& axis);

}  // namespace tessera::backends::cpu
