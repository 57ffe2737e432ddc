// Crops that move towards the inputs: through what, how far windows look, and when they stay.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/core/infer.h"
#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::move_crops_test {
namespace {

using test::cpu_pass_context;
using test::ops_of;
using test::parsed;
using Ops = std::vector<std::string>;

const std::string kBox = " constant %s = i64[2] {2, 3} constant %e = i64[2] {5, 9} constant %a = i64[2] {2, 3}";

ir::Graph moved(const std::string& text) {
  return move_crops(parsed(text), cpu_pass_context());
}

std::string shape_of_input(const ir::Graph& graph, std::string_view op) {
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op == op) return ir::to_string(graph.value(graph.node(id).inputs[0]).type);
  }
  return "no " + std::string(op);
}

std::vector<std::int64_t> attribute(const ir::Graph& graph, std::string_view op, const std::string& name) {
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op == op) return std::get<std::vector<std::int64_t>>(graph.node(id).attributes.at(name));
  }
  return {};
}

void expect_same_outputs(const std::string& text) {
  const Model model(std::make_shared<const ir::Graph>(parsed(text)));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions with, without;
  with.device = without.device = "reference";
  without.without_passes = {"move_crops"};
  const NamedValues expected = Session(model, without).run(inputs), got = Session(model, with).run(inputs);
  for (const auto& [name, value] : expected)
    EXPECT_TRUE(test::close_to(got.at(name).tensor(), value.tensor(), test::Tolerance::epsilons(DType::f32, 16)))
        << name;
}

void expect_moved(const std::string& text, const Ops& ops) {
  EXPECT_EQ(ops_of(moved(text)), ops);
  expect_same_outputs(text);
}

TEST(MoveCrops, ThroughElementWiseOperators) {
  expect_moved("graph { input %x : f32[1, 2, 8, 12] input %y : f32[12] input %c : f32[2, 1, 1]" + kBox +
                   " %m = Mul (%x, %c) %n = Add (%m, %y) %t = Tanh (%n) %o = Slice (%t, %s, %e, %a) output %o }",
               {"Slice", "Slice", "Mul", "Add", "Tanh"});
}

TEST(MoveCrops, AWindowTakesItsHaloAndKeepsItsPadding) {
  const std::string start = "graph { input %x : f32[1, 2, 8, 12] input %w : f32[3, 2, 3, 3]" + kBox;
  const std::string inside =
      start + " %y = Conv (%x, %w) {pads = [1, 1, 1, 1]} %o = Slice (%y, %s, %e, %a) output %o }";
  expect_moved(inside, {"Slice", "Conv"});
  EXPECT_EQ(shape_of_input(moved(inside), "Conv"), "f32[1, 2, 5, 8]");
  EXPECT_EQ(attribute(moved(inside), "Conv", "pads"), (std::vector<std::int64_t>{0, 0, 0, 0}));
  const std::string corner =
      start +
      " constant %z = i64[2] {0, 0} %y = Conv (%x, %w) {pads = [1, 1, 1, 1]} %o = Slice (%y, %z, %e, %a) output %o }";
  expect_moved(corner, {"Slice", "Conv"});
  EXPECT_EQ(shape_of_input(moved(corner), "Conv"), "f32[1, 2, 6, 10]");
  EXPECT_EQ(attribute(moved(corner), "Conv", "pads"), (std::vector<std::int64_t>{1, 1, 0, 0}));
  const std::string strided = "graph { input %x : f32[1, 2, 40, 44] input %w : f32[3, 2, 3, 3]" + kBox +
                              " %y = Conv (%x, %w) {pads = [2, 1, 1, 2], strides = [2, 3], dilations = [2, 1]} %o = "
                              "Slice (%y, %s, %e, %a) output %o }";
  expect_moved(strided, {"Slice", "Conv"});
}

TEST(MoveCrops, StepsBecomeStrides) {
  const std::string text =
      "graph { input %x : f32[1, 2, 9, 11] input %w : f32[3, 2, 3, 3] constant %s = i64[2] {1, 0} constant %e = i64[2] "
      "{9, 11} constant %a = i64[2] {2, 3} constant %t = i64[2] {2, 3}"
      " %y = Conv (%x, %w) {pads = [1, 1, 1, 1]} %o = Slice (%y, %s, %e, %a, %t) output %o }";
  EXPECT_EQ(attribute(moved(text), "Conv", "strides"), (std::vector<std::int64_t>{2, 3}));
  expect_same_outputs(text);
}

TEST(MoveCrops, ChannelsAreCutFromTheWeights) {
  const std::string text =
      "graph { input %x : f32[1, 2, 8, 8] constant %w = f32[4, 2, 1, 1] {1, 2, 3, 4, 5, 6, 7, 8} constant %b = f32[4] "
      "{1, 2, 3, 4}"
      " constant %s = i64[1] {1} constant %e = i64[1] {3} constant %a = i64[1] {1} %y = Conv (%x, %w, %b) %o = Slice "
      "(%y, %s, %e, %a) output %o }";
  expect_moved(text, {"Conv"});
}

TEST(MoveCrops, ThroughPooling) {
  expect_moved("graph { input %x : f32[1, 2, 20, 30]" + kBox +
                   " %y = MaxPool (%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]} %o = Slice (%y, "
                   "%s, %e, %a) output %o }",
               {"Slice", "MaxPool"});
  expect_moved(
      "graph { input %x : f32[1, 2, 20, 30] constant %z = i64[2] {0, 0}" + kBox +
          " %y = AveragePool (%x) {kernel_shape = [3, 2], pads = [1, 1, 1, 0]} %o = Slice (%y, %z, %e, %a) output %o }",
      {"Slice", "AveragePool"});
}

TEST(MoveCrops, RowsAndColumnsOfProducts) {
  const std::string start =
      "graph { input %x : f32[2, 16, 8] input %w : f32[8, 10] constant %s = i64[2] {3, 1} constant %e = i64[2] {5, 6} "
      "constant %a = i64[2] {1, 2}";
  expect_moved(start + " %y = MatMul (%x, %w) %o = Slice (%y, %s, %e, %a) output %o }", {"Slice", "Slice", "MatMul"});
}

TEST(MoveCrops, AxesMoveThroughTransposesAndReshapes) {
  expect_moved(
      "graph { input %x : f32[2, 12, 8, 1] constant %n = i64[4] {2, 8, 3, 4} constant %s = i64[1] {3} constant %e = "
      "i64[1] {5} constant %a = i64[1] {1}"
      " %u = Neg (%x) %t = Transpose (%u) {perm = [0, 2, 1, 3]} %r = Reshape (%t, %n) %o = Slice (%r, %s, %e, %a) "
      "output %o }",
      {"Slice", "Neg", "Transpose", "Reshape"});
  // An axis that is split is none of the input's.
  const std::string split =
      "graph { input %x : f32[2, 12] constant %n = i64[3] {2, 4, 3} constant %s = i64[1] {1} constant %e = i64[1] {3} "
      "constant %a = i64[1] {1} %u = Neg (%x) %r = Reshape (%u, %n) %o = Slice (%r, %s, %e, %a) output %o }";
  EXPECT_EQ(ops_of(moved(split)), (Ops{"Neg", "Reshape", "Slice"}));
}

TEST(MoveCrops, PartsThatAreNotUsedAreNotJoined) {
  const std::string start =
      "graph { input %x : f32[2, 4] input %y : f32[2, 6] input %z : f32[2, 5] %n = Neg (%x) %c = Concat (%n, %y, %z) "
      "{axis = 1} constant %a = i64[1] {1}";
  expect_moved(start + " constant %s = i64[1] {5} constant %e = i64[1] {9} %o = Slice (%c, %s, %e, %a) output %o }",
               {"Slice"});
  expect_moved(start + " constant %s = i64[1] {2} constant %e = i64[1] {6} %o = Slice (%c, %s, %e, %a) output %o }",
               {"Slice", "Slice", "Neg", "Concat"});
}

TEST(MoveCrops, OneRowOfANormalisedSequence) {
  const std::string start =
      "graph { input %x : f32[2, 16, 8] input %g : f32[8] %u = Tanh (%x) %l = LayerNormalization (%u, %g) constant %i "
      "= i64[] {-1}";
  expect_moved(start + " %o = Gather (%l, %i) {axis = 1} output %o }",
               {"Slice", "Tanh", "LayerNormalization", "Gather"});
  EXPECT_EQ(ops_of(moved(start + " %o = Gather (%l, %i) {axis = 2} output %o }")),
            (Ops{"Tanh", "LayerNormalization", "Gather"}));
}

TEST(MoveCrops, SeveralCropsMoveAsTheirBox) {
  expect_moved(
      "graph { input %x : f32[1, 2, 40, 12] constant %s = i64[1] {2} constant %e = i64[1] {5} constant %s2 = i64[1] "
      "{4} constant %e2 = i64[1] {9} constant %a = i64[1] {2}"
      " %t = Tanh (%x) %o = Slice (%t, %s, %e, %a) %p = Slice (%t, %s2, %e2, %a) output %o output %p }",
      {"Slice", "Tanh", "Slice", "Slice"});
}

TEST(MoveCrops, WhatIsUsedWholeStays) {
  const std::string start =
      "graph { input %x : f32[1, 2, 8, 12]" + kBox + " %t = Tanh (%x) %o = Slice (%t, %s, %e, %a)";
  EXPECT_EQ(ops_of(moved(start + " output %o output %t }")), (Ops{"Tanh", "Slice"}));
  EXPECT_EQ(ops_of(moved(start + " %r = Softmax (%t) output %o output %r }")), (Ops{"Tanh", "Slice", "Softmax"}));
}

// Statistics and scales of all rows are not those of some.
TEST(MoveCrops, NormalisationThatMixesRowsStays) {
  const std::string row = " constant %s = i64[1] {0} constant %e = i64[1] {1} constant %a = i64[1] {";
  EXPECT_EQ(
      ops_of(moved(
          "graph { input %x : f32[4, 2, 8, 8] input %g : f32[2] input %h : f32[2] input %m : f32[2] input %v : f32[2]" +
          row +
          "0} %y = BatchNormalization (%x, %g, %h, %m, %v) {training_mode = 1} %o = Slice (%y, %s, %e, %a) output %o "
          "}")),
      (Ops{"BatchNormalization", "Slice"}));
  EXPECT_EQ(ops_of(moved("graph { input %x : f32[2, 3, 4] input %g : f32[3, 4]" + row +
                         "1} %t = Tanh (%x) %y = LayerNormalization (%t, %g) %o = Slice (%y, %s, %e, %a) output %o }")),
            (Ops{"Tanh", "LayerNormalization", "Slice"}));
}

// A sum of two whole maps of which nearly all is used: two slices would cost more than one.
TEST(MoveCrops, StaysWhereItWouldNotPay) {
  const std::string text =
      "graph { input %x : f32[1, 2, 80, 80] input %y : f32[1, 2, 80, 80] constant %s = i64[1] {1} constant %e = i64[1] "
      "{80} constant %a = i64[1] {2} %t = Add (%x, %y) %o = Slice (%t, %s, %e, %a) output %o }";
  EXPECT_EQ(ops_of(moved(text)), (Ops{"Add", "Slice"}));
}

// The known-good example: a quarter of a map behind five convolutions.
TEST(MoveCrops, AQuarterBehindAStackCostsAQuarterAndTheHalo) {
  std::string text =
      "graph { input %v0 : f32[1, 8, 64, 64] input %w : f32[8, 8, 3, 3] constant %s = i64[2] {16, 16} constant %e = "
      "i64[2] {48, 48} constant %a = i64[2] {2, 3}";
  for (int i = 0; i < 5; ++i)
    text += " %v" + std::to_string(i + 1) + " = Conv (%v" + std::to_string(i) + ", %w) {pads = [1, 1, 1, 1]}";
  text += " %o = Slice (%v5, %s, %e, %a) output %o }";
  const ir::Graph graph = moved(text);
  EXPECT_EQ(ops_of(graph), (Ops{"Slice", "Conv", "Conv", "Conv", "Conv", "Conv"}));
  EXPECT_EQ(shape_of_input(graph, "Conv"), "f32[1, 8, 42, 42]");
  expect_same_outputs(text);
}

}  // namespace
}  // namespace tessera::passes::move_crops_test
