#include <gtest/gtest.h>

#include "support/pass_context.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::passes::chain_convolutions_test {
namespace {

using test::expect_left_alone;
using test::expect_rewritten;

constexpr std::string_view kPass = "chain_convolutions";

// Constants of f32 with made-up elements, as text.
std::string constant(const std::string& name, const Shape& shape) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements += (i == 0 ? "" : ", ") + std::to_string(static_cast<float>(i * 7 % 13) / 32 - 0.2f);
  return " constant %" + name + " = f32" + to_string(shape) + " {" + elements + "}";
}

// What lies between has 688 thousand bytes, of pictures of these numbers of lines less. `rounding`: further attributes.
std::string block_on(const std::string& x, const std::string& rounding = "") {
  return "graph { input %x : f32[" + x + ", 4]" + constant("wide", {24, 4, 1, 1}) + constant("bias", {24}) +
         constant("each", {24, 1, 3, 3}) + constant("narrow", {4, 24, 1, 1}) +
         " %a = tessera::ChannelsLastConv (%x, %wide, %bias) {activation = \"Clip\", activation_params = [0.0, 6.0]" +
         rounding +
         "}"
         " %b = tessera::ChannelsLastConv (%a, %each) {group = 24, pads = [1, 1, 1, 1], activation = \"Relu\"" +
         rounding + "}";
}
const std::string kRounding = ", precision = \"bf16\", output_dtype = " + std::to_string(static_cast<int>(DType::bf16));
const std::string kBlock = block_on("2, 56, 64");

TEST(ChainConvolutions, InvertedResidualBlockIsOneNode) {
  expect_rewritten(kBlock + " %y = tessera::ChannelsLastConv (%b, %narrow, none, %x) output %y }", kPass,
                   {"%y = tessera::ConvChain (%x, %wide, %bias, %each, %narrow) {activations = [\"Clip\", \"Relu\", "
                    "\"\"], operands = [0, 1, 2, -1, 5, 3, -1, -1, 6, 4, -1, 0], "
                    "parameters = [0.0, 6.0, 0.0, 0.0, 0.0, 0.0], windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, "
                    "1, 1, 1, 24, 1, 1, 0, 0, 0, 0, 1, 1, 1]}"},
                   0);
}

TEST(ChainConvolutions, PaddingThatWasNamedIsNumbers) {
  expect_rewritten(kBlock +
                       " %y = tessera::ChannelsLastConv (%b, %each) {group = 24, auto_pad = \"SAME_UPPER\", strides = "
                       "[2, 2]} output %y }",
                   kPass,
                   {"%y = tessera::ConvChain (%x, %wide, %bias, %each) {activations = [\"Clip\", \"Relu\", \"\"], "
                    "operands = [0, 1, 2, -1, 4, 3, -1, -1, 5, 3, -1, -1], "
                    "parameters = [0.0, 6.0, 0.0, 0.0, 0.0, 0.0], windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, "
                    "1, 1, 1, 24, 2, 2, 0, 0, 1, 1, 1, 1, 24]}"},
                   0);
}

// Of what the chain holds, a sum may take more than the last result.
TEST(ChainConvolutions, ResultsMayBeUsedTwiceInside) {
  expect_rewritten(
      kBlock + " %y = tessera::ChannelsLastConv (%b, %each, none, %a) {group = 24, pads = [1, 1, 1, 1]} output %y }",
      kPass,
      {"%y = tessera::ConvChain (%x, %wide, %bias, %each) {activations = [\"Clip\", \"Relu\", \"\"], operands = [0, 1, "
       "2, -1, 4, 3, -1, -1, 5, 3, -1, 4], "
       "parameters = [0.0, 6.0, 0.0, 0.0, 0.0, 0.0], windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 24, "
       "1, 1, 1, 1, 1, 1, 1, 1, 24]}"},
      0);
}

TEST(ChainConvolutions, OtherUsesEndAChain) {
  expect_left_alone(kBlock + " output %b, %a }", kPass);
  expect_left_alone(kBlock + " %c = Relu (%a) output %b, %c }", kPass);
  // Each result but one leaves.
  expect_rewritten(kBlock + " %y = tessera::ChannelsLastConv (%b, %narrow) output %y, %b }", kPass,
                   {"%b = tessera::ConvChain (%x, %wide, %bias, %each) {activations = [\"Clip\", \"Relu\"], operands = "
                    "[0, 1, 2, -1, 4, 3, -1, -1], parameters = [0.0, 6.0, 0.0, 0.0], "
                    "windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 24]}",
                    "%y = tessera::ChannelsLastConv (%b, %narrow)"},
                   0);
}

TEST(ChainConvolutions, WhatStaysInACacheStays) {
  expect_left_alone(block_on("1, 56, 64") + " output %b }", kPass);
  expect_left_alone(block_on("2, height, 64") + " output %b }", kPass);  // nobody knows
}

TEST(ChainConvolutions, MuchWorkOnAByteStays) {
  const std::string large = constant("first", {2, 1, 19, 19}) + constant("second", {1, 2, 19, 19});
  expect_left_alone(
      "graph { input %x : f32[1, 300, 300, 1]" + large +
          " %a = tessera::ChannelsLastConv (%x, %first) %y = tessera::ChannelsLastConv (%a, %second) output %y }",
      kPass);
}

TEST(ChainConvolutions, StagesRoundAsTheirLayersDid) {
  const std::string code = std::to_string(static_cast<int>(DType::bf16));
  expect_rewritten(block_on("4, 56, 64", kRounding) +
                       " %y = tessera::ChannelsLastConv (%b, %narrow, none, %x) {precision = \"bf16\"} output %y }",
                   kPass,
                   {"%y = tessera::ConvChain (%x, %wide, %bias, %each, %narrow) {activations = [\"Clip\", \"Relu\", "
                    "\"\"], operands = [0, 1, 2, -1, 5, 3, -1, -1, 6, 4, -1, 0], "
                    "output_dtypes = [" +
                    code + ", " + code +
                    ", 0], parameters = [0.0, 6.0, 0.0, 0.0, 0.0, 0.0], precisions = [\"bf16\", \"bf16\", \"bf16\"], "
                    "windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 24, 1, 1, 0, 0, 0, 0, 1, 1, 1]}"},
                   0);
  // Only the last.
  expect_rewritten(
      kBlock + " %y = tessera::ChannelsLastConv (%b, %narrow) {precision = \"bf16\"} output %y }", kPass,
      {"%y = tessera::ConvChain (%x, %wide, %bias, %each, %narrow) {activations = [\"Clip\", \"Relu\", \"\"], operands "
       "= [0, 1, 2, -1, 5, 3, -1, -1, 6, 4, -1, -1], "
       "output_dtypes = [0, 0, 0], parameters = [0.0, 6.0, 0.0, 0.0, 0.0, 0.0], precisions = [\"\", \"\", \"bf16\"], "
       "windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 24, 1, 1, 0, 0, 0, 0, 1, 1, 1]}"},
      0);
  // Half the bytes stay in a cache.
  expect_left_alone(block_on("2, 56, 64", kRounding) +
                        " %y = tessera::ChannelsLastConv (%b, %narrow) {precision = \"bf16\"} output %y }",
                    kPass);
}

// As the passes follow each other, and again when shapes are known.
TEST(ChainConvolutions, NetsOfLowPrecisionAreChained) {
  const auto net = [](const std::string& batch) {
    return test::parsed("graph { input %x : f32[" + batch + ", 4, 112, 128]" + constant("wide", {24, 4, 1, 1}) +
                        constant("each", {24, 1, 3, 3}) + constant("narrow", {4, 24, 1, 1}) +
                        constant("first", {4, 4, 1, 1}) +
                        " %u = Conv (%x, %first) %v = MaxPool (%u) {kernel_shape = [2, 2], strides = [2, 2]}"
                        " %a = Conv (%v, %wide) %b = Relu (%a) %c = Conv (%b, %each) {group = 24, pads = [1, 1, 1, 1]} "
                        "%d = Conv (%c, %narrow) %y = Add (%d, %v) output %y }");
  };
  PassContext context = test::cpu_pass_context();
  context.precision = DType::bf16;
  ir::Graph graph = run_pipeline(net("4"), context);
  for (const int times : {1, 2}) {
    SCOPED_TRACE(times);
    EXPECT_EQ(test::ops_of(graph),
              (std::vector<std::string>{"Transpose", "tessera::ChannelsLastConv", "tessera::ChannelsLastMaxPool",
                                        "tessera::ConvChain", "Transpose"}));
    EXPECT_EQ(graph.value(graph.node(graph.order()[3]).inputs[0]).type.dtype, DType::bf16);
    graph = run_pipeline(std::move(graph), context);
  }
  SessionOptions rounded, unchained;
  rounded.precision = unchained.precision = DType::bf16;
  unchained.without_passes = {"chain_convolutions"};
  const Model model(std::make_shared<const ir::Graph>(net("batch")));
  const NamedValues inputs{{"x", test::random_tensor(DType::f32, {5, 4, 112, 128}, 7)}};
  EXPECT_TRUE(identical(Session(model, rounded).run(inputs).begin()->second.tensor(),
                        Session(model, unchained).run(inputs).begin()->second.tensor()));
}

TEST(ChainConvolutions, OtherLayersStay) {
  const std::string filter = constant("filter", {24, 24, 3, 3});  // by Winograd
  expect_left_alone(
      "graph { input %x : f32[2, 56, 64, 24]" + filter +
          " %a = tessera::ChannelsLastConv (%x, %filter) %y = tessera::ChannelsLastConv (%a, %filter) output %y }",
      kPass);
}

}  // namespace
}  // namespace tessera::passes::chain_convolutions_test
