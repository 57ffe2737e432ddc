// Windows whose outer taps lie in the padding for every output.
#include <gtest/gtest.h>

#include "support/pass_context.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::drop_padding_taps_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kWeights =
    "constant %w = f32[2, 1, 3, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3, -4, -5, -6, -7, -8, -9} "
    "constant %b = f32[2] {1, -2} ";
const std::string kSquare = "graph { input %x : f32[batch, 1, 5, 6] " + kWeights;

void expect_dropped(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(text, "drop_padding_taps", nodes, 20);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(text, "drop_padding_taps");
}

TEST(DropPaddingTaps, LeavesTheCentreOfWideWindows) {
  expect_dropped(kSquare + "%y = Conv (%x, %w, %b) {dilations = [6, 6], pads = [6, 6, 6, 6]} output %y }",
                 {"%y = Conv (%x, %?, %b) {dilations = [1, 1], pads = [0, 0, 0, 0]}"});
  // Of six columns the outer taps of dilation 5 read one.
  expect_dropped(kSquare + "%y = Conv (%x, %w, %b) {dilations = [5, 5], pads = [5, 5, 5, 5]} output %y }",
                 {"%y = Conv (%x, %?, %b) {dilations = [1, 5], pads = [0, 5, 0, 5]}"});
  expect_unchanged(kSquare + "%y = Conv (%x, %w) {dilations = [4, 5], pads = [4, 5, 4, 5]} output %y }");
}

TEST(DropPaddingTaps, AsFarAsThereIsPadding) {
  // The last tap reads lines 5 and 6 of 5, but only 2 lines of padding could go with it.
  expect_dropped(
      kSquare + "%y = Conv (%x, %w) {dilations = [5, 1], kernel_shape = [3, 3], pads = [5, 1, 2, 1]} output %y }",
      {"%y = Conv (%x, %?) {dilations = [5, 1], kernel_shape = [2, 3], pads = [0, 1, 2, 1]}"});
  // Taps at lines -4, 1 and 6: without the first one, padding would be negative.
  expect_unchanged(kSquare + "%y = Conv (%x, %w) {dilations = [5, 1], pads = [4, 1, 2, 1]} output %y }");
  // At lines -1, 5 and 11: the result is the bias.
  expect_unchanged(kSquare + "%y = Conv (%x, %w, %b) {dilations = [6, 1], pads = [1, 1, 7, 1]} output %y }");
}

TEST(DropPaddingTaps, StridesStepOverThePicture) {
  // Two outputs: the taps read lines -3 and 1, 0 and 4, 3 and 7.
  expect_unchanged(kSquare +
                   "%y = Conv (%x, %w) {dilations = [3, 1], pads = [3, 1, 5, 1], strides = [4, 1]} output %y }");
  // Lines -9 and -2, 0 and 7, 9 and 16.
  expect_dropped(
      kSquare + "%y = Conv (%x, %w) {dilations = [9, 1], pads = [9, 1, 12, 1], strides = [7, 1]} output %y }",
      {"%y = Conv (%x, %?) {dilations = [1, 1], pads = [0, 1, 3, 1], strides = [7, 1]}"});
}

TEST(DropPaddingTaps, PaddingThatWasAsked) {
  expect_dropped(kSquare + "%y = Conv (%x, %w) {auto_pad = \"SAME_UPPER\", dilations = [6, 1]} output %y }",
                 {"%y = Conv (%x, %?) {dilations = [1, 1], pads = [0, 1, 0, 1]}"});
  expect_dropped(
      kSquare + "%y = Conv (%x, %w) {auto_pad = \"SAME_LOWER\", dilations = [7, 1], strides = [2, 2]} output %y }",
      {"%y = Conv (%x, %?) {dilations = [1, 1], pads = [0, 1, 0, 0], strides = [2, 2]}"});
}

TEST(DropPaddingTaps, EveryRankAndKindOfWeights) {
  expect_dropped(
      "graph { input %x : f32[2, 4, 7] constant %w = f32[4, 2, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, "
      "8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5} %y = Conv (%x, %w) {dilations = [5], group = 2, "
      "pads = [10, 6]} output %y }",
      {"%y = Conv (%x, %?) {dilations = [5], group = 2, pads = [5, 6]}"});
  expect_dropped(
      "graph { input %x : f32[1, 1, 2, 3, 4] constant %w = f32[1, 1, 3, 1, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9} %y = "
      "Conv (%x, %w) {dilations = [2, 1, 3], pads = [2, 0, 3, 2, 0, 3]} output %y }",
      {"%y = Conv (%x, %?) {dilations = [1, 1, 3], pads = [0, 0, 3, 0, 0, 3]}"});
  expect_dropped(
      "graph { input %x : f32[batch, 5, 6, 1] " + kWeights +
          "%y = \"tessera::ChannelsLastConv\" (%x, %w, %b) {activation = \"Relu\", dilations = [6, 6], pads = "
          "[6, 6, 6, 6]} output %y }",
      {"%y = tessera::ChannelsLastConv (%x, %?, %b) {activation = \"Relu\", dilations = [1, 1], pads = [0, 0, "
       "0, 0]}"});
}

TEST(DropPaddingTaps, NeedsSizesAndConstantWeights) {
  const std::string attributes = "{dilations = [6, 6], pads = [6, 6, 6, 6]} output %y }";
  expect_unchanged("graph { input %x : f32[1, 1, height, width] " + kWeights + "%y = Conv (%x, %w) " + attributes);
  expect_unchanged("graph { input %x : f32[1, 1, 5, 6] input %w : f32[2, 1, 3, 3] %y = Conv (%x, %w) " + attributes);
  expect_dropped("graph { input %x : f32[1, 1, height, 6] " + kWeights + "%y = Conv (%x, %w) " + attributes,
                 {"%y = Conv (%x, %?) {dilations = [6, 1], pads = [6, 0, 6, 0]}"});
  expect_unchanged("graph { input %x : f32[1, 1, height, 6] " + kWeights +
                   "%y = Conv (%x, %w) {auto_pad = \"SAME_UPPER\", dilations = [6, 6]} output %y }");
}

// A session that knows sizes only when it runs drops taps then, of weights that it read from a file too.
TEST(DropPaddingTaps, OncePerPlan) {
  const auto model = [](const std::string& size) {
    const std::string text =
        "graph { input %x : f32[1, 1, " + size + "] " + kWeights +
        "%y = Conv (%x, %w, %b) {dilations = [6, 6], pads = [6, 6, 6, 6]} %z = Relu (%y) output %z }";
    return Model(std::make_shared<const ir::Graph>(test::parsed(text)));
  };
  Session session(model("height, width"));
  SessionOptions without;
  without.without_passes = {"drop_padding_taps"};
  for (const Shape& shape : {Shape{1, 1, 5, 6}, Shape{1, 1, 7, 6}, Shape{1, 1, 20, 3}}) {
    const NamedValues inputs{{"x", Value(test::random_tensor(DType::f32, shape, 1))}};
    const NamedValues got = session.run(inputs), want = Session(model("height, width"), without).run(inputs);
    EXPECT_TRUE(test::close_to(got.at("z").tensor(), want.at("z").tensor(), test::Tolerance::epsilons(DType::f32, 20)));
  }
}

}  // namespace
}  // namespace tessera::passes::drop_padding_taps_test
