// How a layer becomes an indirect product of its windows (indirect_product_f32.h): what its data is copied to before,
// the segments of a window, where their weights lie, and how the product is split. A convolution's windows are those of
// its kernel, a matrix's are its rows.
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

// Distances between the weights of neighbouring outputs, input channels of a group, and taps, as a layer lays them out.
struct WeightStrides {
  std::int64_t output = 0, channel = 0, tap = 0;
};

// Which positions of a larger result [N, depth, rows, columns, channels] those of a layer are: first, first + step, …
// of each axis, which has `size` of them.
struct ResultPlaces {
  struct Axis {
    std::int64_t first = 0, step = 1, size = 1;
  };
  std::array<Axis, 3> axes;

  // The position in the larger result of what the layer computes at `row`.
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

// A layer with weights that are constants or computed.
struct WindowLayer {
  ChannelsLastGeometry geometry;
  std::int64_t groups = 1, inputs = 0, outputs = 0;  // channels of a group
  WeightStrides strides;
  // Where the layer is (a phase of) a transposed convolution, in bfloat16 alone: which of the taps that weights
  // [inputs, outputs, weight_taps] have are those of the window, in its order; and where the results go.
  std::vector<std::int64_t> tap_order;
  std::int64_t weight_taps = 0;
  std::optional<ResultPlaces> places;

  std::int64_t rows() const { return geometry.batch * geometry.outputs(); }
};

// A product of a matrix of the shape `x` with weights [inputs, outputs], or [outputs, inputs] when `transposed`.
WindowLayer linear_layer(Shape x, const Shape& weights, bool transposed);

// Input channels whose weights are turned around at a time: what is written stays in the first-level cache.
inline constexpr std::int64_t kPackedTogether = 16;

// How tile registers (tile_product.h) should meet windows: rows of A evenly spaced, so that they are read where they
// lie.
struct WindowTiles {
  bool pads_lines = false;  // data is copied with the padding at both ends of each line
  // Rows of each of two tiles; where the outputs of a line are a multiple, no tile takes from two lines.
  std::int64_t half_rows = kTileRows;
  std::int64_t left = 0, right = 0;  // pixels of padding

  WindowTiles() = default;
  explicit WindowTiles(const ChannelsLastGeometry& geometry);

  // Whether, in the copy, the rows of a tile are evenly spaced pixels of one line, or of the picture where windows are
  // its pixels.
  bool evenly(const ChannelsLastGeometry& geometry) const;
  // The geometry of the copy.
  ChannelsLastGeometry of_copy(ChannelsLastGeometry geometry) const;

 private:
  bool reaches_over_edges_ = false;
};

// Where the weights of a segment's elements lie. By tile registers its last step of 64 bytes begins early enough to end
// with the segment (tile_product.h): what it reads again meets weights of zero.
struct SegmentWeights {
  std::int64_t whole = 0;   // elements before the last step
  std::int64_t length = 0;  // with the zeros between
  bool overlaps = false;

  SegmentWeights() = default;
  SegmentWeights(std::int64_t elements, std::int64_t element_bytes, bool tiles);
  std::int64_t place(std::int64_t element, std::int64_t elements) const {
    return element < whole ? element : length - elements + element;
  }
};

// What the elements of a product and the loops for them decide in a plan.
struct WindowFormat {
  std::int64_t element_bytes;
  std::int64_t group;         // neighbours that are multiplied together; segments are filled up to whole groups
  std::int64_t columns;       // of a panel
  std::int64_t few_channels;  // from so many on, a window's taps stay single (WindowSegments)
  // Elements of a segment times vectors of outputs that vectors multiply in the time that tile registers take to copy
  // the segment.
  std::int64_t copied_for;
  double chunk_operations, tile_chunk_operations;  // worth a chunk, by vectors and by tile registers
  bool rows_of_small_weights;                      // ProductSplit
};

// What a plan needs to know of the multiplier (MultiplierBf16, MultiplierS8).
struct WindowMultiplier {
  bool tiles;  // by tile registers
  std::int64_t tile_rows, depth_step;
};

// The rows to choose a multiplier for: those of the layer, or 0 where vectors multiply before tile registers have
// gathered their rows from short pieces.
std::int64_t rows_for_multiplier(const WindowLayer& layer, const WindowFormat& format);

struct WindowPlan {
  WindowLayer layer;              // as given
  WindowTiles tiles;              // how data is copied for tile registers
  std::int64_t inputs = 0;        // channels of a group as the product reads them: in whole groups
  ChannelsLastGeometry geometry;  // of data as the product reads it
  WindowSegments segments;
  std::int64_t padded = 0;  // elements of a segment, in whole groups
  SegmentWeights segment;   // where the weights of a segment lie
  std::int64_t tile_rows = 0;
  bool spaced = false;     // rows of tiles are read where they lie, a constant distance apart
  std::int64_t depth = 0;  // elements of a row, with the zeros in its segments
  ProductSplit split;

  // Whether pixels lie further apart than in the data as given.
  bool spreads() const { return geometry.channels != layer.groups * layer.inputs; }
  // Pixels of a line as given.
  std::int64_t given_width() const { return layer.geometry.axes[2].input; }
  std::int64_t data_elements() const;
  // Where the segments of windows lie.
  template <typename T>
  WindowPointers<T> pointers() const {
    return WindowPointers<T>(geometry, segments, inputs, padded, tile_rows);
  }
};

// `converts`: data is copied anyway, to elements of another type.
WindowPlan plan_windows(const WindowLayer& layer, const WindowFormat& format, const WindowMultiplier& multiplier,
                        bool converts);

// Into how many tiles a line of outputs should be cut so that most taps of the windows in a tile lie in the padding
// together, which costs nothing then (WindowPointers, skips_padding); 0 where tiles that cross from line to line take
// as long.
std::int64_t tiles_of_line(const ops::WindowAxis& line, std::int64_t tile_rows);

// The share of the taps of an axis, over all of its outputs, that read the input.
double share_inside(const ops::WindowAxis& axis);

}  // namespace tessera::backends::cpu
