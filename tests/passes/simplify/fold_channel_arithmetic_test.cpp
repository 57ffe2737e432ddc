// What follows a layer with constant weights channel by channel becomes part of it.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::fold_channel_arithmetic_test {
namespace {

using Lines = std::vector<std::string>;

// Constants of f32 with made-up elements, as text.
std::string constant(const std::string& name, const Shape& shape, float low = -1) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements += (i == 0 ? "" : ", ") + std::to_string(low + static_cast<float>(i * 7 % 13) / 6.5f);
  return " constant %" + name + " = f32" + to_string(shape) + " {" + elements + "}";
}

const std::string kInput = "graph { input %x : f32[batch, 4, 6, 6]" + constant("w", {5, 4, 3, 3}) + constant("b", {5});
const std::string kRows =
    "graph { input %x : f32[batch, 7, 4]" + constant("w", {4, 5}) + constant("c", {5}) + constant("f", {1, 5}, 0.5f);

void expect_folded(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(text, "fold_channel_arithmetic", nodes, 64);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(text, "fold_channel_arithmetic");
}

TEST(FoldChannelArithmetic, NormalisationSumsAndProductsGoIntoTheWeights) {
  expect_folded(kInput + constant("s", {5}, 0.5f) + constant("m", {5}) + constant("v", {5}, 0.5f) +
                    constant("c", {1, 5, 1, 1}) + constant("f", {5, 1, 1}) +
                    " %y = Conv (%x, %w) %n = BatchNormalization (%y, %s, %b, %m, %v) %p = Add (%n, %c) %q = Mul (%f, "
                    "%p) %r = Relu (%q) output %r }",
                {"%q = Conv (%x, %?, %?)", "%r = Relu (%q)"});
  expect_folded(kInput + constant("c", {1, 5, 1, 1}) + " %y = Conv (%x, %w) %p = Sub (%c, %y) output %p }",
                {"%p = Conv (%x, %?, %?)"});
}

TEST(FoldChannelArithmetic, ASumAloneLeavesTheWeights) {
  expect_folded(kInput + constant("c", {5, 1, 1}) + " %y = Conv (%x, %w, %b) %p = Add (%y, %c) output %p }",
                {"%p = Conv (%x, %w, %?)"});
}

TEST(FoldChannelArithmetic, TransposedConvolutionsWithGroups) {
  expect_folded(
      "graph { input %x : f32[2, 4, 3, 3]" + constant("w", {4, 3, 2, 2}) + constant("c", {1, 6, 1, 1}) +
          constant("f", {6, 1, 1}) +
          " %y = ConvTranspose (%x, %w) {group = 2, strides = [2, 2]} %p = Mul (%y, %f) %q = Sub (%p, %c) output %q }",
      {"%q = ConvTranspose (%x, %?, %?) {group = 2, strides = [2, 2]}"});
}

TEST(FoldChannelArithmetic, ProductsKeepOneSum) {
  expect_folded(kRows + " %y = MatMul (%x, %w) %p = Add (%y, %c) %q = Mul (%p, %f) output %q }",
                {"%? = MatMul (%x, %?)", "%q = Add (%?, %?)"});
  expect_folded(kRows + " %y = MatMul (%x, %w) %p = Mul (%f, %y) %r = Relu (%p) output %r }",
                {"%p = MatMul (%x, %?)", "%r = Relu (%p)"});
  expect_folded(kRows + " %y = MatMul (%x, %w) %p = Add (%y, %c) %q = Sub (%p, %f) output %q }",
                {"%? = MatMul (%x, %w)", "%q = Add (%?, %?)"});
  expect_unchanged(kRows + " %y = MatMul (%x, %w) %p = Add (%y, %c) output %p }");
  expect_unchanged(kRows + constant("g", {7, 1}) + " %y = MatMul (%x, %w) %p = Mul (%y, %g) output %p }");
}

TEST(FoldChannelArithmetic, GemmTakesNormalisationAndItsFactors) {
  const std::string rows =
      "graph { input %x : f32[batch, 4]" + constant("w", {5, 4}) + constant("c", {5}) + constant("s", {5}, 0.5f);
  expect_folded(rows +
                    " %y = Gemm (%x, %w, %c) {alpha = 0.5, beta = 2.0, transB = 1} %n = BatchNormalization (%y, %s, "
                    "%c, %c, %s) output %n }",
                {"%n = Gemm (%x, %?, %?) {transB = 1}"});
  expect_folded(rows + " %y = Gemm (%x, %w) {transB = 1} %n = Sub (%y, %c) output %n }",
                {"%n = Gemm (%x, %w, %?) {transB = 1}"});
  // Of a layer behind another one that was folded.
  const std::string two =
      constant("v", {5, 5}) +
      " %y = Gemm (%x, %w, %c) {transB = 1} %n = Mul (%y, %s) %z = Gemm (%n, %v) %o = Mul (%z, %c) output %o }";
  expect_folded(rows + two, {"%n = Gemm (%x, %?, %?) {transB = 1}", "%o = Gemm (%n, %?, %?)"});
  // A bias that is known in the run alone, or that is one of each row.
  expect_unchanged(rows + " input %k : f32[5] %y = Gemm (%x, %w, %k) {transB = 1} %n = Mul (%y, %c) output %n }");
  expect_unchanged("graph { input %x : f32[5, 4]" + constant("w", {4, 5}) + constant("k", {5, 1}) + constant("c", {5}) +
                   " %y = Gemm (%x, %w, %k) %n = Mul (%y, %c) output %n }");
}

TEST(FoldChannelArithmetic, GoesToEachLayerThatAConcatJoins) {
  const std::string branches = kInput + constant("v", {2, 4, 1, 1}) + constant("t", {4, 3, 1, 1}) +
                               constant("s", {10}, 0.5f) + constant("m", {10}) +
                               " %y = Conv (%x, %w, %b) {pads = [1, 1, 1, 1]} %z = Conv (%x, %v) %u = ConvTranspose "
                               "(%x, %t) %j = Concat (%y, %z, %u) {axis = 1}";
  expect_folded(branches + " %n = BatchNormalization (%j, %s, %m, %m, %s) %r = Relu (%n) output %r }",
                {"%? = Conv (%x, %?, %?) {pads = [1, 1, 1, 1]}", "%? = Conv (%x, %?, %?)",
                 "%? = ConvTranspose (%x, %?, %?)", "%n = Concat (%?, %?, %?) {axis = 1}", "%r = Relu (%n)"});
  expect_unchanged(branches + " %n = BatchNormalization (%j, %s, %m, %m, %s) output %n, %z }");
  // The joined rows, and what no layer gives.
  expect_unchanged(kInput + constant("k", {1, 1, 12, 1}) +
                   " %y = Conv (%x, %w) {pads = [1, 1, 1, 1]} %z = Conv (%x, %w) {pads = [1, 1, 1, 1]} %j = Concat "
                   "(%y, %z) {axis = 2} %n = Mul (%j, %k) output %n }");
  expect_unchanged(
      kInput + constant("k", {9, 1, 1}) +
      " %y = Conv (%x, %w) {pads = [1, 1, 1, 1]} %j = Concat (%y, %x) {axis = 1} %n = Mul (%j, %k) output %n }");
}

TEST(FoldChannelArithmetic, LeavesWhatIsUsedTwiceOrLiesAlongAnotherAxis) {
  const std::string rest = " %y = Conv (%x, %w, %b) {pads = [1, 1, 1, 1]} %p = Mul (%y, %c) output ";
  expect_unchanged(kInput + constant("c", {5, 1, 1}) + rest + "%p, %y }");
  expect_unchanged(kInput + constant("c", {6}) + rest + "%p }");
  expect_unchanged(kInput + constant("c", {5, 6, 1}) + rest + "%p }");
}

TEST(FoldChannelArithmetic, LeavesWhatMakesNoFiniteNumbers) {
  expect_unchanged(kInput + " constant %c = f32[] {0} %y = Conv (%x, %w, %b) %p = Div (%y, %c) output %p }");
  expect_unchanged(
      kInput + " constant %c = f32[] {3e38} %y = Conv (%x, %w, %b) %p = Mul (%y, %c) %q = Mul (%p, %c) output %q }");
}

TEST(FoldChannelArithmetic, LeavesMatricesThatOthersUse) {
  expect_unchanged(kRows +
                   " input %k : f32[2, 4] %y = MatMul (%x, %w) %p = Mul (%y, %f) %z = MatMul (%k, %w) output %p, %z }");
}

}  // namespace
}  // namespace tessera::passes::fold_channel_arithmetic_test
