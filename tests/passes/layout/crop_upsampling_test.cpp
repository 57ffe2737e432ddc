// Crops that move through transposed convolutions and Resize: which part of the data is left, and that results stay the
// same wherever they do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::crop_upsampling_test {
namespace {

using Lines = std::vector<std::string>;

void expect_moved(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(text, "move_crops", nodes, 16);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(text, "move_crops");
}
bool moves(const std::string& text) {
  return test::ops_of(move_crops(test::parsed(text), test::cpu_pass_context())).back() != "Slice";
}

// Rows [first, last) of what the node makes of a map of 2 channels with `size` rows.
std::string rows(int size, const std::string& node, int first, int last, int step = 1) {
  return fmt::format(
      "graph {{ input %x : f32[1, 2, {}, 5] input %w : f32[2, 3, 3, 2] constant %by = f32[4] {{1, 1, 2, 1}} constant "
      "%three = f32[4] {{1, 1, 3, 1}} constant %half = f32[4] {{1, 1, 0.5, 1}}"
      " constant %s = i64[1] {{{}}} constant %e = i64[1] {{{}}} constant %a = i64[1] {{2}} constant %t = i64[1] {{{}}} "
      "%y = {} %o = Slice (%y, %s, %e, %a, %t) output %o }}",
      size, first, last, step, node);
}

TEST(CropUpsampling, ATransposedConvolutionNeedsWhatReachesTheCrop) {
  // Rows 4 and 5 of the input reach from 7 to 11 and no further, and none of the others to 9 and 10.
  expect_moved(rows(20, "ConvTranspose (%x, %w) {strides = [2, 1], pads = [1, 0, 1, 0]}", 9, 11),
               {"%? = Slice (%x, %?, %?, %?, %?)",
                "%o = ConvTranspose (%?, %w) {output_padding = [0, 0], pads = [2, 0, 1, 0], strides = [2, 1]}"});
  // At the end, where nothing but the bias is added.
  expect_moved(rows(20, "ConvTranspose (%x, %w) {strides = [2, 1], output_padding = [1, 0]}", 38, 42),
               {"%? = Slice (%x, %?, %?, %?, %?)",
                "%o = ConvTranspose (%?, %w) {output_padding = [1, 0], pads = [2, 0, 0, 0], strides = [2, 1]}"});
}

TEST(CropUpsampling, TransposedConvolutionsOfAnyGeometry) {
  int moved = 0;
  for (const int stride : {1, 2, 3, 5}) {
    for (const int dilation : {1, 2}) {
      for (const int pad : {0, 1, 2}) {
        for (const int extra : {0, stride - 1}) {
          const int size = 9, output = (size - 1) * stride + 2 * dilation + 1 - pad - 1 + extra;
          const std::string node = fmt::format(
              "ConvTranspose (%x, %w) {{strides = [{}, 1], dilations = [{}, 1], pads = [{}, 0, 1, 0], output_padding = "
              "[{}, 0]}}",
              stride, dilation, pad, extra);
          for (const auto& [first, count] : {std::pair{0, 2}, {3, 4}, {7, 1}, {output - 3, 3}, {output - 1, 1}}) {
            const std::string text = rows(size, node, first, first + count);
            SCOPED_TRACE(text);
            moved += moves(text) ? 1 : 0;
            test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(test::parsed(text))), "move_crops", 16);
          }
        }
      }
    }
  }
  EXPECT_GT(moved, 150);
}

TEST(CropUpsampling, TransposedConvolutionsGiveChannelsOfTheirWeights) {
  const std::string text =
      "graph { input %x : f32[2, 2, 4] constant %w = f32[2, 4, 2] {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1} "
      "constant %b = f32[4] {1, 2, 3, 4} constant %s = i64[1] {1}"
      " constant %e = i64[1] {3} constant %a = i64[1] {1} %y = ConvTranspose ";
  expect_moved(text + "(%x, %w, %b) %o = Slice (%y, %s, %e, %a) output %o }",
               {"%o = ConvTranspose (%x, %?, %?) {output_padding = [0], pads = [0, 0]}"});
  expect_unchanged(text + "(%x, %w) {group = 2} %o = Slice (%y, %s, %e, %a) output %o }");
}

TEST(CropUpsampling, TransposedConvolutionsThatStay) {
  expect_unchanged(rows(20, "ConvTranspose (%x, %w) {strides = [2, 1]}", 8, 14, 2));
  expect_unchanged(rows(20, "ConvTranspose (%x, %w) {strides = [2, 1], output_shape = [40, 6]}", 8, 12));
  expect_unchanged(rows(20, "ConvTranspose (%x, %w) {strides = [2, 1], auto_pad = \"SAME_UPPER\"}", 8, 12));
}

TEST(CropUpsampling, ResizeNeedsTheNeighbours) {
  // Row 8 comes from between the rows 3 and 4, row 11 from between 5 and 6: four rows become eight, of which four are
  // taken.
  expect_moved(rows(20, "Resize (%x, none, %by) {mode = \"linear\"}", 8, 12),
               {"%? = Slice (%x, %?, %?, %?, %?)", "%? = Resize (%?, none, %by) {mode = \"linear\"}",
                "%o = Slice (%?, %?, %?, %?, %?)"});
  expect_moved(
      rows(20, "Resize (%x, none, %by) {coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"}", 8,
           12),
      {"%? = Slice (%x, %?, %?, %?, %?)",
       "%o = Resize (%?, none, %by) {coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"}"});
  // An axis that keeps its size.
  const std::string columns =
      "graph { input %x : f32[1, 2, 6, 40] constant %n = i64[4] {1, 2, 12, 40} constant %s = i64[1] {3} constant %e = "
      "i64[1] {9} constant %a = i64[1] {3} %y = Resize (%x, none, none, %n) {mode = \"linear\"}";
  expect_moved(columns + " %o = Slice (%y, %s, %e, %a) output %o }",
               {"%? = Slice (%x, %?, %?, %?, %?)", "%o = Resize (%?, none, none, %?) {mode = \"linear\"}"});
}

TEST(CropUpsampling, ResizeOfAnyKind) {
  int moved = 0;
  for (const std::string given : {"none, %by)", "none, %three)", "none, %half)", "none, none, %sizes)"}) {
    for (const std::string coordinates :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
      for (const std::string mode : {"linear", "nearest"}) {
        for (const std::string nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
          if (mode == "linear" && nearest != "floor") continue;
          for (const auto& [first, last, step] : {std::tuple{0, 2, 1}, {3, 5, 1}, {4, 9, 2}, {7, 10, 1}}) {
            std::string text = rows(
                20,
                fmt::format(
                    "Resize (%x, {} {{mode = \"{}\", nearest_mode = \"{}\", coordinate_transformation_mode = \"{}\"}}",
                    given, mode, nearest, coordinates),
                first, last, step);
            text.insert(text.find("constant"), "constant %sizes = i64[4] {1, 2, 50, 7} ");
            SCOPED_TRACE(text);
            const bool is_moved = test::nodes_of(move_crops(test::parsed(text), test::cpu_pass_context())) !=
                                  test::nodes_of(test::parsed(text));
            moved += is_moved ? 1 : 0;
            if (is_moved)
              test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(test::parsed(text))), "move_crops", 16);
          }
        }
      }
    }
  }
  EXPECT_GT(moved, 150);
}

TEST(CropUpsampling, ResizeThatStays) {
  const std::string bytes =
      "graph { input %x : u8[1, 2, 20, 5] constant %by = f32[4] {1, 1, 2, 1} constant %s = i64[1] {8} constant %e = "
      "i64[1] {12} constant %a = i64[1] {2} %y = Resize (%x, none, %by) {mode = \"";
  expect_unchanged(bytes + "linear\"} %o = Slice (%y, %s, %e, %a) output %o }");
  expect_moved(bytes + "nearest\"} %o = Slice (%y, %s, %e, %a) output %o }",
               {"%? = Slice (%x, %?, %?, %?, %?)", "%o = Resize (%?, none, %by) {mode = \"nearest\"}"});
  expect_unchanged(rows(20, "Resize (%x, none, %by) {mode = \"cubic\"}", 8, 12));
  expect_unchanged(rows(20, "Resize (%x, none, %half) {mode = \"linear\", antialias = 1}", 3, 5));
  expect_unchanged(rows(20, "Resize (%x, none, %by) {mode = \"linear\", exclude_outside = 1}", 8, 12));
  expect_unchanged(rows(
      20, "Resize (%x, none, %by) {mode = \"linear\", coordinate_transformation_mode = \"align_corners\"}", 8, 12));
  expect_unchanged(
      "graph { input %x : f32[1, 2, 20, 5] input %n : i64[4] constant %s = i64[1] {8} constant %e = i64[1] {12} "
      "constant %a = i64[1] {2} %y = Resize (%x, none, none, %n) {mode = \"linear\"} %o = Slice (%y, %s, %e, %a) "
      "output %o }");
}

}  // namespace
}  // namespace tessera::passes::crop_upsampling_test
