#include "backends/cpu/products/window_plan.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tessera::backends::cpu::window_plan_test
