// Passes ask operators for their traits: what no pass names takes part as well.
#include <gtest/gtest.h>

#include "support/pass_context.h"
#include "tessera/session.h"

namespace tessera::passes::traits_test {
namespace {

using test::expect_rewritten;
using Lines = std::vector<std::string>;

const std::string kFilter = " constant %w = f32[2, 2, 1, 1] {1, 2, -3, 0.5}";

Lines with_channels_last(const std::string& text) {
  test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(test::parsed(text))), "channels_last", 64);
  return test::ops_of(channels_last(test::parsed(text), test::cpu_pass_context()));
}

TEST(Traits, ElementWiseOperatorsKeepTheChannelsLast) {
  EXPECT_EQ(with_channels_last("graph { input %x : f32[1, 2, 3, 4]" + kFilter +
                               " %a = Conv (%x, %w) %b = Sinh (%a) %c = Conv (%b, %w) output %c }"),
            (Lines{"Transpose", "tessera::ChannelsLastConv", "Sinh", "tessera::ChannelsLastConv", "Transpose"}));
}

TEST(Traits, ReductionsKeepTheChannelsLast) {
  EXPECT_EQ(with_channels_last("graph { input %x : f32[1, 2, 3, 4] constant %axes = i64[2] {2, 3}" + kFilter +
                               " %a = Conv (%x, %w) %b = ReduceL2 (%a, %axes) output %b }"),
            (Lines{"Transpose", "tessera::ChannelsLastConv", "ReduceL2", "Reshape"}));
}

TEST(Traits, CropsMoveThroughComparisons) {
  expect_rewritten(
      "graph { input %x : f32[8] input %y : f32[8] constant %s = i64[1] {2} constant %e = i64[1] {5}"
      " %l = LessOrEqual (%x, %y) %o = Slice (%l, %s, %e) output %o }",
      "move_crops", {"%? = Slice (%x, %?, %?, %?, %?)", "%? = Slice (%y, %?, %?, %?, %?)", "%o = LessOrEqual (%?, %?)"},
      0);
}

TEST(Traits, TablesTakeAnyElementWiseOperator) {
  expect_rewritten(
      "graph { input %k : i64[batch, 5] constant %w = f32[3, 2] {1, 2, 3, 4, 5, -6}"
      " %r = Gather (%w, %k) %y = Sin (%r) output %y }",
      "fold_into_tables", {"%y = Gather (%?, %k) {axis = 0}"}, 4);
}

TEST(Traits, MovementsStayQuantised) {
  const std::string before =
      "graph { input %x : u8[2, 3, 4] constant %s = f32[] {0.5} constant %z = u8[] {3}"
      " %r = DequantizeLinear (%x, %s, %z) ";
  const std::string after = " %y = QuantizeLinear (%m, %s, %z) output %y }";
  expect_rewritten(before + "%m = Flatten (%r)" + after, "lower_quantised", {"%y = Flatten (%x)"}, 0);
  expect_rewritten(before + "constant %n = i64[3] {1, 2, 1} %m = Tile (%r, %n)" + after, "lower_quantised",
                   {"%y = Tile (%x, %n)"}, 0);
}

// What jumps between neighbouring numbers reads halves as the model rounds them.
TEST(Traits, DiscontinuousOperatorsReadRoundedHalves) {
  expect_rewritten("graph { input %x : f16[3] %a = Exp (%x) %y = ThresholdedRelu (%a) {alpha = 1.5} output %y }",
                   "compute_float16_in_float32",
                   {"%? = Cast (%x) {to = 1}", "%? = Exp (%?)", "%a = Cast (%?) {to = 10}", "%? = Cast (%a) {to = 1}",
                    "%? = ThresholdedRelu (%?) {alpha = 1.5}", "%y = Cast (%?) {to = 10}"},
                   0);
}

}  // namespace
}  // namespace tessera::passes::traits_test
