// Sums and the normalisation of them as one operator.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::fuse_skip_normalisation_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart =
    "graph { input %x : f32[batch, 3, 4] input %z : f32[batch, 3, 4] constant %g = f32[4] {1, 2, 3, 4} constant %b = "
    "f32[4] {-1, 0, 1, 2} %s = Add (%x, %z) ";

void expect_fused(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "fuse_skip_normalisation", nodes, 100);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(text, "fuse_skip_normalisation");
}

TEST(FuseSkipNormalisation, SumsThatOnlyItReads) {
  expect_fused("%y = LayerNormalization (%s, %g, %b) {epsilon = 0.5} output %y }",
               {"%y = com.microsoft::SkipLayerNormalization (%x, %z, %g, %b) {epsilon = 0.5}"});
  expect_fused("%y = LayerNormalization (%s, %g) {axis = 2} output %y }",
               {"%y = com.microsoft::SkipLayerNormalization (%x, %z, %g) {epsilon = 1e-05}"});
  expect_fused("%y = RMSNormalization (%s, %g) output %y }",
               {"%y = com.microsoft::SkipSimplifiedLayerNormalization (%x, %z, %g) {epsilon = 1e-05}"});
}

TEST(FuseSkipNormalisation, SumsThatOthersRead) {
  expect_fused("%w = Neg (%s) %n = LayerNormalization (%s, %g, %b) %y = Add (%n, %w) output %y }",
               {"%n, none, none, %s = com.microsoft::SkipLayerNormalization (%x, %z, %g, %b) {epsilon = 1e-05}",
                "%w = Neg (%s)", "%y = Add (%n, %w)"});
  expect_fused("%y = RMSNormalization (%s, %g) output %y, %s }",
               {"%y, none, none, %s = com.microsoft::SkipSimplifiedLayerNormalization (%x, %z, %g) {epsilon = 1e-05}"});
}

TEST(FuseSkipNormalisation, LeavesOthers) {
  expect_unchanged(kStart + "%y, %m = LayerNormalization (%s, %g, %b) output %y, %m }");
  expect_unchanged(kStart +
                   "constant %r = f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} %y = LayerNormalization (%s, %r) "
                   "{axis = 1} output %y }");
  expect_unchanged(kStart + "input %h : f32[4] %y = LayerNormalization (%s, %h) output %y }");
  expect_unchanged(
      "graph { input %x : f32[2, 4] input %z : f32[4] constant %g = f32[4] {1, 2, 3, 4} %s = Add (%x, %z) %y = "
      "LayerNormalization (%s, %g) output %y }");
  expect_unchanged(
      "graph { input %x : f32[2, 4] constant %g = f32[4] {1, 2, 3, 4} %y = LayerNormalization (%x, %g) output %y }");
  const std::string text = kStart + "%y = LayerNormalization (%s, %g, %b) output %y }";
  EXPECT_EQ(test::ops_of(fuse_skip_normalisation(test::parsed(text), {})),
            (Lines{"Add", "LayerNormalization"}));  // a device without the kernel
}

}  // namespace
}  // namespace tessera::passes::fuse_skip_normalisation_test
