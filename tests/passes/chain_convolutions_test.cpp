#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::chain_convolutions_test {
namespace {

using test::expect_left_alone;
using test::expect_rewritten;

constexpr std::string_view kPass = "chain_convolutions";

// Constants of f32 with made-up elements, as text.
std::string constant(const std::string& name, const Shape& shape) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i) elements += (i == 0 ? "" : ", ") + std::to_string(static_cast<float>(i * 7 % 13) / 32 - 0.2f);
  return " constant %" + name + " = f32" + to_string(shape) + " {" + elements + "}";
}

// What lies between has 688 thousand bytes, of pictures of these numbers of lines less.
std::string block_on(const std::string& x) {
  return "graph { input %x : f32[" + x + ", 4]" + constant("wide", {24, 4, 1, 1}) + constant("bias", {24}) + constant("each", {24, 1, 3, 3}) + constant("narrow", {4, 24, 1, 1}) +
         " %a = tessera::ChannelsLastConv (%x, %wide, %bias) {activation = \"Clip\", activation_params = [0.0, 6.0]}"
         " %b = tessera::ChannelsLastConv (%a, %each) {group = 24, pads = [1, 1, 1, 1], activation = \"Relu\"}";
}
const std::string kBlock = block_on("2, 56, 64");

TEST(ChainConvolutions, InvertedResidualBlockIsOneNode) {
  expect_rewritten(kBlock + " %y = tessera::ChannelsLastConv (%b, %narrow, none, %x) output %y }", kPass,
                   {"%y = tessera::ConvChain (%x, %wide, %bias, %each, %narrow) {activations = [\"Clip\", \"Relu\", \"\"], operands = [0, 1, 2, -1, 5, 3, -1, -1, 6, 4, -1, 0], "
                    "parameters = [0.0, 6.0, 0.0, 0.0, 0.0, 0.0], windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 24, 1, 1, 0, 0, 0, 0, 1, 1, 1]}"},
                   0);
}

TEST(ChainConvolutions, PaddingThatWasNamedIsNumbers) {
  expect_rewritten(kBlock + " %y = tessera::ChannelsLastConv (%b, %each) {group = 24, auto_pad = \"SAME_UPPER\", strides = [2, 2]} output %y }", kPass,
                   {"%y = tessera::ConvChain (%x, %wide, %bias, %each) {activations = [\"Clip\", \"Relu\", \"\"], operands = [0, 1, 2, -1, 4, 3, -1, -1, 5, 3, -1, -1], "
                    "parameters = [0.0, 6.0, 0.0, 0.0, 0.0, 0.0], windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 24, 2, 2, 0, 0, 1, 1, 1, 1, 24]}"},
                   0);
}

// Of what the chain holds, a sum may take more than the last result.
TEST(ChainConvolutions, ResultsMayBeUsedTwiceInside) {
  expect_rewritten(kBlock + " %y = tessera::ChannelsLastConv (%b, %each, none, %a) {group = 24, pads = [1, 1, 1, 1]} output %y }", kPass,
                   {"%y = tessera::ConvChain (%x, %wide, %bias, %each) {activations = [\"Clip\", \"Relu\", \"\"], operands = [0, 1, 2, -1, 4, 3, -1, -1, 5, 3, -1, 4], "
                    "parameters = [0.0, 6.0, 0.0, 0.0, 0.0, 0.0], windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 24, 1, 1, 1, 1, 1, 1, 1, 1, 24]}"},
                   0);
}

TEST(ChainConvolutions, OtherUsesEndAChain) {
  expect_left_alone(kBlock + " output %b, %a }", kPass);
  expect_left_alone(kBlock + " %c = Relu (%a) output %b, %c }", kPass);
  // Each result but one leaves.
  expect_rewritten(kBlock + " %y = tessera::ChannelsLastConv (%b, %narrow) output %y, %b }", kPass,
                   {"%b = tessera::ConvChain (%x, %wide, %bias, %each) {activations = [\"Clip\", \"Relu\"], operands = [0, 1, 2, -1, 4, 3, -1, -1], parameters = [0.0, 6.0, 0.0, 0.0], "
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
  expect_left_alone("graph { input %x : f32[1, 300, 300, 1]" + large + " %a = tessera::ChannelsLastConv (%x, %first) %y = tessera::ChannelsLastConv (%a, %second) output %y }", kPass);
}

TEST(ChainConvolutions, OtherLayersStay) {
  const std::string rounded = " %y = tessera::ChannelsLastConv (%b, %narrow) {precision = \"bf16\"} output %y, %b }";
  expect_rewritten(kBlock + rounded, kPass,
                   {"%b = tessera::ConvChain (%x, %wide, %bias, %each) {activations = [\"Clip\", \"Relu\"], operands = [0, 1, 2, -1, 4, 3, -1, -1], parameters = [0.0, 6.0, 0.0, 0.0], "
                    "windows = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 24]}",
                    "%y = tessera::ChannelsLastConv (%b, %narrow) {precision = \"bf16\"}"},
                   0);
  const std::string filter = constant("filter", {24, 24, 3, 3});  // by minimal filtering
  expect_left_alone("graph { input %x : f32[2, 56, 64, 24]" + filter + " %a = tessera::ChannelsLastConv (%x, %filter) %y = tessera::ChannelsLastConv (%a, %filter) output %y }", kPass);
}

}  // namespace
}  // namespace tessera::passes::chain_convolutions_test
