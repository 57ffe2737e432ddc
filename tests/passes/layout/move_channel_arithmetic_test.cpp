// Arithmetic a channel at a time that goes into the layer behind it: across what, how far, and what stays.
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "support/pass_context.h"

namespace tessera::passes::move_channel_arithmetic_test {
namespace {

using Lines = std::vector<std::string>;

std::string constant(const std::string& name, const Shape& shape, float low = -1) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements += (i == 0 ? "" : ", ") + std::to_string(low + static_cast<float>(i * 7 % 13) / 6.5f);
  return " constant %" + name + " = f32" + to_string(shape) + " {" + elements + "}";
}

// Maps of four channels, factors above 0, numbers of any sign, and weights to five channels.
const std::string kMaps = "graph { input %x : f32[batch, 4, 6, 6]" + constant("f", {4, 1, 1}, 0.25f) +
                          constant("c", {1, 4, 1, 1}) + constant("w", {5, 4, 3, 3}) + constant("b", {5});
const std::string kRows =
    "graph { input %x : f32[batch, 7, 4]" + constant("f", {4}, 0.25f) + constant("c", {4}) + constant("w", {4, 5});

void expect_moved(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(text, "move_channel_arithmetic", nodes, 200);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(text, "move_channel_arithmetic");
}

TEST(MoveChannelArithmetic, GoesIntoTheLayerBehindIt) {
  expect_moved(kMaps + " %p = Mul (%x, %f) %q = Add (%p, %c) %y = Conv (%q, %w, %b) output %y }",
               {"%y = Conv (%x, %?, %?)"});
  expect_moved(kMaps + " %p = Sub (%c, %x) %y = Conv (%p, %w) {auto_pad = \"VALID\"} output %y }",
               {"%y = Conv (%x, %?, %?) {auto_pad = \"VALID\"}"});
  expect_moved(kMaps + constant("v", {6, 2, 3, 3}) + " %p = Div (%x, %f) %y = Conv (%p, %v) {group = 2} output %y }",
               {"%y = Conv (%x, %?) {group = 2}"});
  expect_moved(
      kMaps + constant("v", {4, 3, 2, 2}) + " %p = Mul (%x, %f) %y = ConvTranspose (%p, %v) {group = 2} output %y }",
      {"%y = ConvTranspose (%x, %?) {group = 2}"});
  expect_moved(kRows + " %p = Mul (%x, %f) %q = Add (%p, %c) %y = MatMul (%q, %w) output %y }",
               {"%? = MatMul (%x, %?)", "%y = Add (%?, %?)"});
  const std::string few = "graph { input %x : f32[batch, 4]" + constant("c", {4}) + constant("w", {5, 4}) +
                          constant("b", {5}) + constant("s", {4}, 0.5f);
  expect_moved(few + " %n = BatchNormalization (%x, %s, %c, %c, %s) %y = Gemm (%n, %w, %b) {transB = 1} output %y }",
               {"%y = Gemm (%x, %?, %?) {transB = 1}"});
  expect_moved(few + " %p = Mul (%x, %c) %y = Gemm (%p, %w, %b) {alpha = 0.5, beta = 2.0, transB = 1} output %y }",
               {"%y = Gemm (%x, %?, %b) {alpha = 0.5, beta = 2.0, transB = 1}"});
}

// Zeros around the data are no shifted zeros, and at the edges of a transposed convolution fewer numbers are summed.
TEST(MoveChannelArithmetic, ShiftsStopAtPadding) {
  const std::string padded = " {pads = [1, 1, 0, 0]} output %y }";
  expect_moved(kMaps + " %p = Mul (%x, %f) %q = Add (%p, %c) %y = Conv (%q, %w)" + padded,
               {"%? = Add (%x, %?)", "%y = Conv (%?, %?) {pads = [1, 1, 0, 0]}"});
  expect_unchanged(kMaps + " %p = Add (%x, %c) %y = Conv (%p, %w)" + padded);
  expect_unchanged(kMaps + " %p = Add (%x, %c) %y = Conv (%p, %w) {auto_pad = \"SAME_UPPER\"} output %y }");
  expect_unchanged(kMaps + constant("v", {4, 3, 2, 2}) + " %p = Add (%x, %c) %y = ConvTranspose (%p, %v) output %y }");
  // A bias that is known in the run alone has no place for it either.
  expect_unchanged(kMaps + " input %k : f32[5] %p = Add (%x, %c) %y = Conv (%p, %w, %k) output %y }");
}

TEST(MoveChannelArithmetic, PositiveScalesCrossRelu) {
  const std::string rest = " %r = Relu (%p) %y = Conv (%r, %w) {pads = [1, 1, 1, 1]} output %y }";
  expect_moved(kMaps + " %p = Mul (%x, %f)" + rest, {"%? = Relu (%x)", "%y = Conv (%?, %?) {pads = [1, 1, 1, 1]}"});
  expect_moved(kMaps + " %p = Div (%x, %f) %r = LeakyRelu (%p) {alpha = 0.3} %y = Conv (%r, %w) output %y }",
               {"%? = LeakyRelu (%x) {alpha = 0.3}", "%y = Conv (%?, %?)"});
  expect_moved(kMaps + " %q = Mul (%x, %f) %p = Add (%q, %c)" + rest,
               {"%? = Add (%x, %?)", "%? = Relu (%?)", "%y = Conv (%?, %?) {pads = [1, 1, 1, 1]}"});
  expect_moved(kMaps + " input %k : f32[4, 1, 1] %p = Mul (%x, %f) %r = PRelu (%p, %k) %y = Conv (%r, %w) output %y }",
               {"%? = PRelu (%x, %k)", "%y = Conv (%?, %?)"});
  expect_unchanged(
      kMaps +
      " input %k : f32[batch, 4, 6, 6] %p = Mul (%x, %f) %r = PRelu (%k, %p) %y = Conv (%r, %w) output %y }");  // a
                                                                                                                // slope
  expect_unchanged(kMaps + " %p = Mul (%x, %c)" + rest);  // of both signs, and zero
  expect_unchanged(kMaps + " %p = Add (%x, %c)" + rest);
  expect_unchanged(kMaps + " constant %k = f32[] {-2} %p = Mul (%x, %k)" + rest);
  expect_unchanged(kMaps + " %p = Mul (%x, %f) %r = Sigmoid (%p) %y = Conv (%r, %w) output %y }");
}

TEST(MoveChannelArithmetic, CrossesPooling) {
  const std::string by_two = " {kernel_shape = [2, 2], strides = [2, 2]}",
                    at_edges = " {kernel_shape = [3, 3], pads = [1, 1, 1, 1]";
  const std::string line = " %q = Mul (%x, %f) %p = Add (%q, %c)", end = " %y = Conv (%m, %w) output %y }";
  expect_moved(kMaps + line + " %m = MaxPool (%p)" + at_edges + "}" + end,
               {"%? = MaxPool (%x)" + at_edges + "}", "%y = Conv (%?, %?, %?)"});
  expect_moved(kMaps + line + " %m = AveragePool (%p)" + by_two + end,
               {"%? = AveragePool (%x)" + by_two, "%y = Conv (%?, %?, %?)"});
  expect_moved(kMaps + line + " %m = AveragePool (%p)" + at_edges + "}" + end,
               {"%? = AveragePool (%x)" + at_edges + "}", "%y = Conv (%?, %?, %?)"});
  // Zeros around the data that count as data.
  const std::string counted = " {count_include_pad = 1, kernel_shape = [3, 3], pads = [1, 1, 1, 1]}";
  expect_moved(kMaps + line + " %m = AveragePool (%p)" + counted + end,
               {"%? = Add (%x, %?)", "%? = AveragePool (%?)" + counted, "%y = Conv (%?, %?)"});
  expect_moved(kMaps + " %p = Mul (%x, %c) %m = AveragePool (%p)" + counted + end,
               {"%? = AveragePool (%x)" + counted, "%y = Conv (%?, %?)"});
  // Means of windows without data are 0.
  for (const std::string outside : {" {kernel_shape = [1, 1], pads = [1, 0, 0, 0]}",
                                    " {dilations = [5, 5], kernel_shape = [2, 2], pads = [1, 1, 1, 1]}"}) {
    expect_moved(kMaps + constant("v", {5, 4, 1, 1}) + line + " %m = AveragePool (%p)" + outside +
                     " %y = Conv (%m, %v) output %y }",
                 {"%? = Add (%x, %?)", "%? = AveragePool (%?)" + outside, "%y = Conv (%?, %?)"});
  }
  expect_unchanged(kMaps + " %p = Mul (%x, %c) %m = MaxPool (%p)" + by_two + end);
  expect_unchanged(kMaps +
                   " %p = Mul (%x, %f) %m = AveragePool (%p) {ceil_mode = 1, kernel_shape = [2, 2], strides = [2, 2]}" +
                   end);
  expect_unchanged(kMaps + " %p = Mul (%x, %f) %m, %i = MaxPool (%p)" + by_two + " %y = Conv (%m, %w) output %y, %i }");
}

TEST(MoveChannelArithmetic, CrossesGlobalPoolingAndFlattening) {
  const std::string line = kMaps + " %q = Mul (%x, %f) %p = Add (%q, %c)", gemm = " %y = Gemm (%v, %g) output %y }";
  expect_moved(line + constant("g", {4, 3}) + " %m = GlobalAveragePool (%p) %v = Flatten (%m)" + gemm,
               {"%? = GlobalAveragePool (%x)", "%? = Flatten (%?)", "%y = Gemm (%?, %?, %?)"});
  expect_moved(line + constant("g", {4, 3}) +
                   " constant %axes = i64[2] {2, 3} %v = ReduceMean (%p, %axes) {keepdims = 0}" + gemm,
               {"%? = ReduceMean (%x, %axes) {keepdims = 0}", "%y = Gemm (%?, %?, %?)"});
  expect_moved(line + constant("g", {144, 3}) + " %v = Flatten (%p)" + gemm,
               {"%? = Flatten (%x)", "%y = Gemm (%?, %?, %?)"});
  expect_unchanged(kMaps + constant("g", {36, 3}) +
                   " constant %shape = i64[2] {-1, 36} %p = Mul (%x, %f) %v = Reshape (%p, %shape)" + gemm);
  expect_unchanged(kMaps + constant("g", {6, 3}) +
                   " constant %axes = i64[1] {1} %p = Mul (%x, %f) %v = ReduceMean (%p, %axes) {keepdims = 0} %y = "
                   "MatMul (%v, %g) output %y }");
}

TEST(MoveChannelArithmetic, CrossesConcatAndTranspose) {
  expect_moved(kMaps + constant("v", {5, 8, 1, 1}) +
                   " %p = Mul (%x, %f) %q = Tanh (%x) %j = Concat (%q, %p) {axis = 1} %y = Conv (%j, %v) output %y }",
               {"%q = Tanh (%x)", "%? = Concat (%q, %x) {axis = 1}", "%y = Conv (%?, %?)"});
  expect_unchanged(kMaps +
                   " %p = Mul (%x, %f) %q = Tanh (%x) %j = Concat (%q, %p) {axis = 2} %y = Conv (%j, %w) output %y }");
  expect_moved(kMaps + constant("v", {4, 3}) +
                   " %p = Mul (%x, %f) %t = Transpose (%p) {perm = [0, 2, 3, 1]} %y = MatMul (%t, %v) output %y }",
               {"%? = Transpose (%x) {perm = [0, 2, 3, 1]}", "%y = MatMul (%?, %?)"});
  expect_unchanged(kMaps + constant("v", {6, 3}) + " %p = Mul (%x, %f) %y = MatMul (%p, %v) output %y }");
}

// The layers of DenseNet: the factors go into the weights, and the sum stays before the Relu. With few channels a
// normalisation is cheaper as it is.
TEST(MoveChannelArithmetic, NormalisationBeforeReluKeepsItsSum) {
  const auto net = [](std::int64_t channels) {
    return "graph { input %x : f32[1, " + std::to_string(channels) + ", 4, 4]" + constant("s", {channels}, 0.5f) +
           constant("c", {channels}) + constant("w", {3, channels, 1, 1}) +
           " %n = BatchNormalization (%x, %s, %c, %c, %s) %r = Relu (%n) %y = Conv (%r, %w) output %y }";
  };
  expect_moved(net(64), {"%? = Add (%x, %?)", "%? = Relu (%?)", "%y = Conv (%?, %?)"});
  expect_unchanged(net(8));
}

TEST(MoveChannelArithmetic, LeavesWhatOthersUse) {
  expect_unchanged(kMaps + " %p = Mul (%x, %f) %y = Conv (%p, %w) output %y, %p }");
  expect_unchanged(kMaps + " %p = Mul (%x, %f) %r = Relu (%p) %y = Conv (%r, %w) output %y, %r }");
  expect_unchanged(kRows +
                   " input %k : f32[2, 4] %p = Mul (%x, %f) %y = MatMul (%p, %w) %z = MatMul (%k, %w) output %y, %z }");
}

TEST(MoveChannelArithmetic, LeavesOtherOperandsAndTypes) {
  expect_unchanged(kRows + constant("t", {7, 1}) + " %p = Mul (%x, %t) %y = MatMul (%p, %w) output %y }");
  expect_unchanged(kRows + constant("t", {2, 1, 1, 4}) + " %p = Mul (%x, %t) %y = MatMul (%p, %w) output %y }");
  expect_unchanged(
      "graph { input %x : f64[2, 4] constant %f = f64[] {2} constant %w = f64[4, 1] {1, 2, 3, 4} %p = Mul (%x, %f) %y "
      "= MatMul (%p, %w) output %y }");
  expect_unchanged(
      "graph { input %x : f32[2, n] constant %f = f32[4] {1, 2, 3, 4} constant %w = f32[4, 1] {1, 2, 3, 4} %p = Mul "
      "(%x, %f) %y = MatMul (%p, %w) output %y }");
  expect_unchanged(
      "graph { input %x : f32[4, 2] constant %f = f32[2] {1, 2} constant %w = f32[4, 1] {1, 2, 3, 4} %p = Mul (%x, %f) "
      "%y = Gemm (%p, %w) {transA = 1} output %y }");
}

TEST(MoveChannelArithmetic, LeavesWhatMakesNoFiniteNumbers) {
  expect_unchanged(kMaps +
                   " constant %k = f32[] {3e38} %p = Mul (%x, %k) %q = Mul (%p, %k) %y = Conv (%q, %w) output %y }");
  expect_unchanged(kMaps +
                   " constant %k = f32[] {1e-38} constant %l = f32[] {1e10} %p = Mul (%x, %k) %q = Add (%p, %l) %r = "
                   "Relu (%q) %y = Conv (%r, %w) output %y }");
}

}  // namespace
}  // namespace tessera::passes::move_channel_arithmetic_test
