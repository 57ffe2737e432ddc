#include "backends/cpu/products/windows/window_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::backends::cpu::window_plan_test {
namespace {

constexpr WindowFormat kBytes{.element_bytes = 1,
                              .group = 4,
                              .columns = 32,
                              .few_channels = 128,
                              .copied_for = 100,
                              .chunk_operations = 1e6,
                              .tile_chunk_operations = 1e6,
                              .rows_of_small_weights = true};
constexpr WindowMultiplier kVectors{.tiles = false, .tile_rows = 12, .depth_step = 1};
constexpr WindowMultiplier kTiles{.tiles = true, .tile_rows = 32, .depth_step = 16};

// 3 × 3 windows with padding over pictures of 20 × 19 pixels.
WindowLayer layer_of(std::int64_t inputs, std::int64_t outputs, std::int64_t groups = 1) {
  WindowLayer layer{.groups = groups, .inputs = inputs, .outputs = outputs, .strides = {inputs * 9, 9, 1}};
  layer.geometry.channels = groups * inputs;
  for (ops::WindowAxis& axis : layer.geometry.axes) axis.input = axis.output = 1;
  for (const auto& [axis, size] : {std::pair{1, 20}, std::pair{2, 19}}) {
    ops::WindowAxis& each = layer.geometry.axes[axis];
    each.input = each.output = size;
    each.kernel = 3;
    each.pad_begin = each.pad_end = 1;
  }
  return layer;
}

TEST(WindowPlan, RowsOfAMatrixAreWindowsOfOnePixel) {
  const WindowLayer layer = linear_layer({2, 3, 40}, {40, 7}, false);
  EXPECT_EQ(layer.rows(), 6);
  EXPECT_TRUE(is_pointwise(layer.geometry));
  EXPECT_EQ(layer.inputs, 40);
  EXPECT_EQ(layer.outputs, 7);
  EXPECT_EQ(layer.strides.output, 1);
  EXPECT_EQ(layer.strides.channel, 7);
  const WindowLayer transposed = linear_layer({2, 3, 40}, {7, 40}, true);
  EXPECT_EQ(transposed.outputs, 7);
  EXPECT_EQ(transposed.strides.output, 40);
  EXPECT_EQ(transposed.strides.channel, 1);
}

TEST(WindowPlan, PixelsAreFilledUpToWholeGroups) {
  const WindowPlan plan = plan_windows(layer_of(130, 20), kBytes, kVectors, false);
  EXPECT_EQ(plan.inputs, 132);
  EXPECT_EQ(plan.geometry.channels, 132);
  EXPECT_TRUE(plan.spreads());
  EXPECT_FALSE(plan.segments.whole_lines);
  EXPECT_EQ(plan.segments.count, 9);
  EXPECT_EQ(plan.depth, 9 * 132);
  EXPECT_EQ(plan.split.rows, 20 * 19);
  EXPECT_EQ(plan.split.segment_groups, 33);
  EXPECT_EQ(plan.data_elements(), 20 * 19 * 132);
  // The channels of several groups lie side by side: segments are filled up, not pixels.
  const WindowPlan grouped = plan_windows(layer_of(130, 20, 2), kBytes, kVectors, false);
  EXPECT_FALSE(grouped.spreads());
  EXPECT_EQ(grouped.inputs, 130);
  EXPECT_EQ(grouped.padded, 132);
}

TEST(WindowPlan, TapsOfFewChannelsAreJoinedToLines) {
  const WindowPlan plan = plan_windows(layer_of(8, 20), kBytes, kVectors, false);
  EXPECT_TRUE(plan.segments.whole_lines);
  EXPECT_EQ(plan.segments.count, 3);
  EXPECT_EQ(plan.segments.length, 24);
}

TEST(WindowPlan, TileRegistersReadPaddedLinesAndWholeSteps) {
  const WindowPlan plan = plan_windows(layer_of(160, 20), kBytes, kTiles, false);
  EXPECT_TRUE(plan.tiles.pads_lines);
  EXPECT_EQ(plan.geometry.axes[2].input, 21);
  EXPECT_EQ(plan.geometry.axes[2].pad_begin, 0);
  EXPECT_EQ(plan.given_width(), 19);
  // 160 bytes are two and a half steps of 64: the last one begins early, and the weights of what it reads again are 0.
  EXPECT_TRUE(plan.segment.overlaps);
  EXPECT_EQ(plan.segment.length, 192);
  EXPECT_EQ(plan.segment.place(127, plan.padded), 127);
  EXPECT_EQ(plan.segment.place(159, plan.padded), 191);
  EXPECT_EQ(plan.tile_rows, 2 * plan.tiles.half_rows);
}

TEST(WindowPlan, ShortPiecesOfFewOutputsGoByVectors) {
  EXPECT_EQ(rows_for_multiplier(layer_of(8, 16), kBytes), 0);
  EXPECT_EQ(rows_for_multiplier(layer_of(8, 400), kBytes), 20 * 19);
  EXPECT_EQ(rows_for_multiplier(layer_of(256, 16), kBytes), 20 * 19);
}

// Counts the rows that each tap computes tile by tile, as tiles_of_line adds them up.
std::int64_t tiles_by_counting(const ops::WindowAxis& line, std::int64_t tile_rows) {
  const auto reads = [&](std::int64_t tap, std::int64_t output) {
    const std::int64_t at = output * line.stride + tap * line.dilation - line.pad_begin;
    return at >= 0 && at < line.input;
  };
  const std::int64_t fewest = (line.output + tile_rows - 1) / tile_rows, most = std::max(fewest, line.output / 4);
  double least = 0.95 * static_cast<double>(line.output * line.kernel) * (1 + 1 / static_cast<double>(tile_rows));
  std::int64_t best = 0;
  for (std::int64_t tiles = fewest; tiles <= std::min(most, 2 * fewest + 1); ++tiles) {
    double work = 0;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const std::int64_t begin = line.output * i / tiles, end = line.output * (i + 1) / tiles;
      for (std::int64_t tap = 0; tap < line.kernel; ++tap) {
        bool read = false;
        for (std::int64_t output = begin; output < end; ++output) read = read || reads(tap, output);
        if (read) work += static_cast<double>(std::max<std::int64_t>(4, end - begin) + 1);
      }
    }
    if (work >= least) continue;
    least = work;
    best = tiles;
  }
  return line.kernel == 1 || (line.pad_begin == 0 && line.pad_end == 0) ? 0 : best;
}

ops::WindowAxis padded_line(std::int64_t input, std::int64_t kernel, std::int64_t dilation, std::int64_t stride = 1) {
  ops::WindowAxis line{.input = input, .kernel = kernel, .stride = stride, .dilation = dilation};
  line.pad_begin = line.pad_end = dilation * (kernel / 2);
  line.output = (input + 2 * line.pad_begin - (kernel - 1) * dilation - 1) / stride + 1;
  return line;
}

TEST(TilesOfLine, AreThoseThatCountingFinds) {
  for (const std::int64_t input : {1, 5, 20, 37, 64, 200}) {
    for (const std::int64_t kernel : {1, 3, 7}) {
      for (const std::int64_t dilation : {1, 2, 6, 15, 40}) {
        for (const std::int64_t stride : {1, 2}) {
          const ops::WindowAxis line = padded_line(input, kernel, dilation, stride);
          EXPECT_EQ(tiles_of_line(line, 12), tiles_by_counting(line, 12))
              << input << " inputs, " << kernel << " taps, dilation " << dilation << ", stride " << stride;
        }
      }
    }
  }
}

// Counting tile by tile would take years.
TEST(TilesOfLine, TakeNoLongerForALongLine) {
  constexpr std::int64_t kLong = std::int64_t{1} << 32;
  EXPECT_EQ(tiles_of_line(padded_line(kLong, 7, 1), 12), 0);
  EXPECT_EQ(tiles_of_line(padded_line(kLong, 7, 5), 12), 0);
  EXPECT_GT(tiles_of_line(padded_line(kLong, 3, kLong / 2), 12), 0);
  EXPECT_DOUBLE_EQ(share_inside(padded_line(kLong, 3, kLong / 2)), 2.0 / 3);
}

}  // namespace
}  // namespace tessera::backends::cpu::window_plan_test
