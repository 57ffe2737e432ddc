#include "backends/cpu/products/windows/window_plan.h"

#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

// The number of channels from pixel to pixel that data should have for products (spread_row). If data would be copied
// for that alone, it is worth it only with enough outputs.
std::int64_t spread_channels(std::int64_t channels, std::int64_t groups, std::int64_t element_bytes, bool copied_anyway,
                             std::int64_t outputs) {
  if (groups != 1 || (!copied_anyway && outputs < kManyColumns)) return channels * groups;
  return spread_row(channels, element_bytes);
}

// Channels of a group, rounded up to whole groups of neighbours if there is one group of channels, whose pixels can be
// padded.
std::int64_t filled_inputs(const WindowLayer& layer, const WindowFormat& format) {
  return layer.groups == 1 ? round_up(layer.inputs, format.group) : layer.inputs;
}

void plan_data(WindowPlan& plan, const WindowFormat& format, const WindowMultiplier& multiplier, bool converts) {
  const WindowLayer& layer = plan.layer;
  plan.tiles = multiplier.tiles ? WindowTiles(layer.geometry) : WindowTiles();
  plan.inputs = filled_inputs(layer, format);
  ChannelsLastGeometry copied = layer.geometry;
  copied.channels = spread_channels(plan.inputs, layer.groups, format.element_bytes,
                                    converts || plan.inputs != layer.inputs || plan.tiles.pads_lines, layer.outputs);
  plan.geometry = plan.tiles.of_copy(copied);
}

void plan_segments(WindowPlan& plan, const WindowFormat& format, const WindowMultiplier& multiplier) {
  plan.segments = WindowSegments(plan.geometry, plan.inputs, plan.layer.groups, format.few_channels);
  plan.padded = round_up(plan.segments.length, format.group);
  plan.segment = SegmentWeights(plan.padded, format.element_bytes, multiplier.tiles);
  plan.depth = base::checked_multiply(plan.segments.count, plan.segment.length);
  plan.tile_rows = multiplier.tiles ? 2 * plan.tiles.half_rows : multiplier.tile_rows;
  plan.spaced = multiplier.tiles && plan.padded == plan.segments.length &&
                plan.segment.length * format.element_bytes % kTileBytes == 0 && plan.tiles.evenly(plan.geometry);
}

void plan_split(WindowPlan& plan, const WindowFormat& format, const WindowMultiplier& multiplier) {
  const ChannelsLastGeometry& geometry = plan.geometry;
  ProductSplit& split = plan.split;
  split = {.rows = geometry.batch * geometry.outputs(),
           .columns = plan.layer.outputs,
           .groups = plan.layer.groups,
           .tile_rows = plan.tile_rows,
           .tile_columns = format.columns};
  split.segments = plan.segments.count;
  split.segment_groups = plan.segment.length / format.group;
  split.depth_step = plan.segment.overlaps && plan.segments.count == 1 ? split.segment_groups : multiplier.depth_step;
  split.tile_registers = multiplier.tiles;
  split.rows_of_small_weights = format.rows_of_small_weights;
  const double operations =
      2.0 * static_cast<double>(split.rows) * static_cast<double>(split.columns) * static_cast<double>(plan.depth);
  split.choose(operations, multiplier.tiles ? format.tile_chunk_operations : format.chunk_operations,
               format.columns * plan.depth * format.element_bytes,
               base::checked_multiply(geometry.batch * geometry.inputs(), plan.inputs * format.element_bytes),
               plan.depth * format.element_bytes);
}

// The outputs [first, end) of an axis for which a tap reads the input.
struct TapOutputs {
  std::int64_t first, end;
};

TapOutputs outputs_reading(const ops::WindowAxis& axis, std::int64_t tap) {
  // The position under a tap rises by a stride from output to output.
  const std::int64_t start = tap * axis.dilation - axis.pad_begin;
  const std::int64_t first = start >= 0 ? 0 : ceil_divide(-start, axis.stride);
  const std::int64_t end = start >= axis.input ? 0 : ceil_divide(axis.input - start, axis.stride);
  return {first, std::max(first, std::min(axis.output, end))};
}

// The rows of the tiles [first, end) of a line of `output` rows that is cut into `tiles` tiles; each counts at least
// `fewest`.
std::int64_t rows_of_tiles(std::int64_t output, std::int64_t tiles, std::int64_t first, std::int64_t end,
                           std::int64_t fewest) {
  const std::int64_t rows = output * end / tiles - output * first / tiles, low = output / tiles;
  const std::int64_t higher = rows - low * (end - first);  // tiles have `low` rows or one more
  return (end - first - higher) * std::max(fewest, low) + higher * std::max(fewest, low + 1);
}

}  // namespace

WindowLayer linear_layer(Shape x, const Shape& weights, bool transposed) {
  WindowLayer layer{.inputs = weights[transposed ? 1 : 0], .outputs = weights[transposed ? 0 : 1]};
  x.back() = layer.inputs;
  layer.geometry = rows_geometry(x);
  layer.strides = transposed ? WeightStrides{layer.inputs, 1, 0} : WeightStrides{1, layer.outputs, 0};
  return layer;
}

WindowTiles::WindowTiles(const ChannelsLastGeometry& geometry) {
  constexpr std::int64_t kMostPadding = 2;  // times the line; copies with more padding could take unbounded memory
  if (is_pointwise(geometry)) return;
  const ops::WindowAxis& line = geometry.axes[2];
  left = line.pad_begin;
  right = std::max<std::int64_t>(0, (line.output - 1) * line.stride + line.extent() - left - line.input);
  const bool padded = left > 0 || right > 0;
  pads_lines = padded && left + right <= kMostPadding * line.input;
  reaches_over_edges_ = padded && !pads_lines;
  constexpr std::int64_t kFewRows = 5;
  for (std::int64_t rows = kTileRows; rows >= (line.output <= kTileRows ? kFewRows : kTileRows / 2); --rows) {
    if (line.output % rows != 0) continue;
    half_rows = rows;
    break;
  }
}

bool WindowTiles::evenly(const ChannelsLastGeometry& geometry) const {
  return is_pointwise(geometry) || (!reaches_over_edges_ && geometry.axes[2].output % half_rows == 0);
}

ChannelsLastGeometry WindowTiles::of_copy(ChannelsLastGeometry geometry) const {
  if (!pads_lines) return geometry;
  ops::WindowAxis& line = geometry.axes[2];
  line.input += left + right;
  line.pad_begin = line.pad_end = 0;
  return geometry;
}

SegmentWeights::SegmentWeights(std::int64_t elements, std::int64_t element_bytes, bool tiles)
    : whole(elements), length(elements) {
  const std::int64_t step = kTileBytes / element_bytes;
  overlaps = tiles && elements > step && elements % step != 0;
  if (!overlaps) return;
  whole = elements / step * step;
  length = whole + step;
}

std::int64_t rows_for_multiplier(const WindowLayer& layer, const WindowFormat& format) {
  const WindowSegments segments(layer.geometry, filled_inputs(layer, format), layer.groups, format.few_channels);
  const bool gathers_for_little = segments.count > 1 && segments.length * format.element_bytes < kTileBytes &&
                                  segments.length * ceil_divide(layer.outputs, kPanelColumns / 2) < format.copied_for;
  return gathers_for_little ? 0 : layer.rows();
}

std::int64_t WindowPlan::data_elements() const {
  return base::checked_multiply(geometry.batch * geometry.inputs(), geometry.channels);
}

WindowPlan plan_windows(const WindowLayer& layer, const WindowFormat& format, const WindowMultiplier& multiplier,
                        bool converts) {
  WindowPlan plan;
  plan.layer = layer;
  plan_data(plan, format, multiplier, converts);
  plan_segments(plan, format, multiplier);
  plan_split(plan, format, multiplier);
  return plan;
}

std::int64_t tiles_of_line(const ops::WindowAxis& line, std::int64_t tile_rows) {
  constexpr std::int64_t kFewestRows = 4;    // tiles with fewer take as long
  constexpr double kTile = 1, kGain = 0.95;  // a tile costs as much as so many rows more; worth it below this share
  constexpr std::int64_t kMostTried = 256;   // numbers of tiles to try, evenly spaced if there are more
  // Tiles compute at least what the taps read: with little padding there is nothing to gain.
  if (line.kernel == 1 || (line.pad_begin == 0 && line.pad_end == 0) || share_inside(line) > kGain) return 0;
  double least = kGain * static_cast<double>(line.output * line.kernel) * (1 + kTile / static_cast<double>(tile_rows));
  std::int64_t best = 0;
  const std::int64_t fewest = ceil_divide(line.output, tile_rows), most = std::max(fewest, line.output / kFewestRows),
                     last = std::min(most, 2 * fewest + 1);
  const std::int64_t step = ceil_divide(last - fewest + 1, kMostTried);
  for (std::int64_t tiles = fewest; tiles <= last; tiles += step) {
    // The tile that contains an output.
    const auto tile_of = [&](std::int64_t output) { return ceil_divide((output + 1) * tiles, line.output) - 1; };
    double work = 0;
    for (std::int64_t k = 0; k < line.kernel; ++k) {
      const TapOutputs reading = outputs_reading(line, k);
      if (reading.first == reading.end) continue;
      const std::int64_t first = tile_of(reading.first), end = tile_of(reading.end - 1) + 1;
      work += static_cast<double>(rows_of_tiles(line.output, tiles, first, end, kFewestRows)) +
              kTile * static_cast<double>(end - first);
    }
    if (work >= least) continue;
    least = work;
    best = tiles;
  }
  return best;
}

double share_inside(const ops::WindowAxis& axis) {
  std::int64_t inside = 0;
  for (std::int64_t k = 0; k < axis.kernel; ++k) {
    const TapOutputs reading = outputs_reading(axis, k);
    inside += reading.end - reading.first;
  }
  return static_cast<double>(inside) / static_cast<double>(std::max<std::int64_t>(1, axis.output * axis.kernel));
}

}  // namespace tessera::backends::cpu
