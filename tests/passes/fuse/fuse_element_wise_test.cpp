// Element-wise operators that become one loop: what goes in, what stays out, and that outputs are the same bits.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/element_wise/element_wise_program.h"
#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::fuse_element_wise_test {
namespace {

using test::cpu_pass_context;
using test::ops_of;
using test::parsed;
using Ops = std::vector<std::string>;

ir::Graph fused(const std::string& text) {
  return fuse_element_wise(parsed(text), cpu_pass_context());
}

// The steps of the only node.
Ops steps_of(const ir::Graph& graph) {
  Ops names;
  for (const ir::NodeId id : graph.order()) {
    const auto found = graph.node(id).attributes.find("steps");
    if (found != graph.node(id).attributes.end()) names = std::get<std::vector<std::string>>(found->second);
  }
  return names;
}

void expect_same_bits(const std::string& text) {
  const Model model(std::make_shared<const ir::Graph>(parsed(text)));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions plain;
  plain.without_passes = {"fuse_element_wise"};
  const NamedValues expected = Session(model, plain).run(inputs), got = Session(model).run(inputs);
  for (const auto& [name, value] : expected) EXPECT_TRUE(identical(got.at(name).tensor(), value.tensor())) << name;
}

const std::string kScales =
    " constant %s = f32[] {0.03} constant %z = u8[] {120} constant %t = f32[] {0.05} constant %two = f32[1] {2}";

TEST(FuseElementWise, AChainBecomesOneNode) {
  const std::string text = "graph { input %x : f32[batch, 4] input %b : f32[4]" + kScales +
                           " %a = Mul (%x, %two) %c = Add (%a, %b) %d = Tanh (%c) %e = Sub (%d, %x) output %e }";
  EXPECT_EQ(ops_of(fused(text)), (Ops{"tessera::ElementWise"}));
  EXPECT_EQ(steps_of(fused(text)), (Ops{"Constant", "Mul", "Add", "Tanh", "Sub"}));
  expect_same_bits(text);
}

TEST(FuseElementWise, WhatOthersUseStaysOut) {
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4] %a = Neg (%x) %b = Tanh (%a) output %a output %b }")),
            (Ops{"Neg", "Tanh"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4, 4] %a = Neg (%x) %b = Tanh (%a) %c = MatMul (%a, %b) output %c }")),
            (Ops{"Neg", "Tanh", "MatMul"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4] %a = Neg (%x) %b = Tanh (%a) %c = Exp (%b) output %a output %c }")),
            (Ops{"Neg", "tessera::ElementWise"}));
}

TEST(FuseElementWise, OtherShapesAndTypesStayOut) {
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4] input %y : f32[3, 4] %a = Neg (%x) %b = Add (%a, %y) output %b }")),
            (Ops{"Neg", "Add"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[n] input %y : f32[m] %a = Add (%x, %y) %b = Neg (%a) output %b }")),
            (Ops{"Add", "Neg"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f64[4] %a = Neg (%x) %b = Abs (%a) output %b }")), (Ops{"Neg", "Abs"}));
  // The number's rank is the result's.
  EXPECT_EQ(ops_of(fused(
                "graph { input %x : f32[4] constant %c = f32[1, 1] {2} %a = Mul (%x, %c) %b = Neg (%a) output %b }")),
            (Ops{"Mul", "Neg"}));
}

TEST(FuseElementWise, DequantisedBytesGoIntoEachThatReadsThem) {
  const std::string text = "graph { input %x : u8[4, 8] input %y : f32[4, 8]" + kScales +
                           " %d = DequantizeLinear (%x, %s, %z) %a = Add (%d, %y) %q = QuantizeLinear (%a, %t, %z) %p "
                           "= Softmax (%d) %m = Mul (%p, %d) output %q output %m }";
  EXPECT_EQ(ops_of(fused(text)), (Ops{"DequantizeLinear", "tessera::ElementWise", "Softmax", "tessera::ElementWise"}));
  expect_same_bits(text);
}

// The copy of %e reads %q; so %q is not computed a second time inside of what gives %e.
TEST(FuseElementWise, WhatACopyReadsIsComputedOnce) {
  const std::string text = "graph { input %x : f32[4, 8]" + kScales +
                           " %t1 = Tanh (%x) %q = QuantizeLinear (%t1, %s, %z) %e = DequantizeLinear (%q, %s, %z) %p = "
                           "Softmax (%e) %n = Neg (%e) output %p output %n }";
  EXPECT_EQ(ops_of(fused(text)), (Ops{"tessera::ElementWise", "DequantizeLinear", "Softmax", "tessera::ElementWise"}));
  expect_same_bits(text);
}

TEST(FuseElementWise, SumsOfBytesGoInWithWhatIsAround) {
  const std::string add = " %y = com.microsoft::QLinearAdd (%x, %s, %z, %w, %s, %z, %t, %z)";
  EXPECT_EQ(ops_of(fused("graph { input %x : u8[4, 8] input %w : u8[4, 8]" + kScales + add + " output %y }")),
            (Ops{"com.microsoft::QLinearAdd"}));
  const std::string text = "graph { input %x : u8[4, 8] input %w : u8[4, 8]" + kScales + add +
                           " %d = DequantizeLinear (%y, %t, %z) %r = Relu (%d) output %r }";
  EXPECT_EQ(steps_of(fused(text)),
            (Ops{"DequantizeLinear", "DequantizeLinear", "Add", "QuantizeU8", "DequantizeLinear", "Relu"}));
}

TEST(FuseElementWise, ChoicesComparisonsAndLogicGoIn) {
  const std::string text =
      "graph { input %x : f32[batch, 4] input %m : bool[4] constant %zero = f32[] {0} constant %low = f32[] {-10} %g = "
      "Greater (%x, %zero) %n = Not (%g) %a = Or (%n, %m)"
      " %e = Exp (%x) %w = Where (%a, %e, %low) %r = Cast (%a) {to = 1} %s = Add (%w, %r) output %s }";
  EXPECT_EQ(steps_of(fused(text)),
            (Ops{"Constant", "Greater", "Not", "Or", "Exp", "Constant", "Where", "ToReal", "Add"}));
  expect_same_bits(text);
  // What ends with bools.
  const std::string bools =
      "graph { input %x : f32[batch, 4] input %y : f32[4] %t = Tanh (%x) %g = LessOrEqual (%t, %y) output %g }";
  EXPECT_EQ(steps_of(fused(bools)), (Ops{"Tanh", "LessOrEqual"}));
  expect_same_bits(bools);
  // Numbers that are none.
  const std::string guarded =
      "graph { input %x : f32[batch, 4] constant %zero = f32[] {0} %s = Sqrt (%x) %i = IsNaN (%s) %w = Where (%i, "
      "%zero, %s) output %w }";
  EXPECT_EQ(steps_of(fused(guarded)), (Ops{"Sqrt", "IsNaN", "Constant", "Where"}));
  expect_same_bits(guarded);
}

// The mask of a transformer, and an image.
TEST(FuseElementWise, IntegersAndBytesBecomeRealNumbersInside) {
  const std::string numbers = " constant %one = f32[] {1} constant %low = f32[] {-10000} constant %k = f32[] {255}";
  const std::string mask = "graph { input %m : i64[batch, 1, 1, 9]" + numbers +
                           " %f = Cast (%m) {to = 1} %d = Sub (%one, %f) %y = Mul (%d, %low) output %y }";
  EXPECT_EQ(steps_of(fused(mask)), (Ops{"ToReal", "Constant", "Sub", "Constant", "Mul"}));
  expect_same_bits(mask);
  const std::string image = "graph { input %x : u8[1, 3, 5, 5]" + numbers +
                            " %f = Cast (%x) {to = 1} %d = Div (%f, %k) %y = Sub (%d, %one) output %y }";
  EXPECT_EQ(steps_of(fused(image)), (Ops{"DequantizeLinear", "Constant", "Div", "Constant", "Sub"}));
  expect_same_bits(image);
  // To whole numbers there is no step, and none from doubles.
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4] %n = Neg (%x) %c = Cast (%n) {to = 7} output %c }")),
            (Ops{"Neg", "Cast"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f64[4] %c = Cast (%x) {to = 1} %n = Neg (%c) output %n }")),
            (Ops{"Cast", "Neg"}));
}

// Two steps of an LSTM that an exporter unrolled: of each, one loop gives the state and one, of what the state is, the
// output.
TEST(FuseElementWise, TheGatesOfUnrolledCellsAreOneLoop) {
  std::string text =
      "graph { input %x0 : f32[3, 8] input %x1 : f32[3, 8] input %h0 : f32[3, 4] input %c0 : f32[3, 4] input %w : "
      "f32[16, 8] input %r : f32[16, 4] input %b : f32[16]";
  for (const std::string t : {"0", "1"}) {
    const std::string next = t == "0" ? "1" : "2";
    text += " %a" + t + " = Gemm (%x" + t + ", %w, %b) {transB = 1} %e" + t + " = Gemm (%h" + t +
            ", %r) {transB = 1} %g" + t + " = Add (%a" + t + ", %e" + t + ") %i" + t + ", %f" + t + ", %k" + t +
            ", %o" + t + " = Split (%g" + t + ") {axis = 1, num_outputs = 4} %si" + t + " = Sigmoid (%i" + t + ") %sf" +
            t + " = Sigmoid (%f" + t + ") %tk" + t + " = Tanh (%k" + t + ") %so" + t + " = Sigmoid (%o" + t + ") %fc" +
            t + " = Mul (%sf" + t + ", %c" + t + ") %ik" + t + " = Mul (%si" + t + ", %tk" + t + ") %c" + next +
            " = Add (%fc" + t + ", %ik" + t + ") %tc" + t + " = Tanh (%c" + next + ") %h" + next + " = Mul (%so" + t +
            ", %tc" + t + ")";
  }
  text += " output %h2, %c2 }";
  const Ops cell{"Gemm", "Gemm", "Add", "Split", "tessera::ElementWise", "tessera::ElementWise"};
  const Ops both = ops_of(fused(text));
  for (const std::string& op : cell) EXPECT_EQ(std::ranges::count(both, op), 2 * std::ranges::count(cell, op)) << op;
  EXPECT_EQ(both.size(), 2 * cell.size());
  expect_same_bits(text);
}

TEST(FuseElementWise, TheGatesOfAGruAreOneLoop) {
  const std::string text =
      "graph { input %x : f32[3, 8] input %h : f32[3, 4] input %w : f32[12, 8] input %r : f32[12, 4] input %b : "
      "f32[12] input %d : f32[12] constant %one = f32[] {1}"
      " %a = Gemm (%x, %w, %b) {transB = 1} %e = Gemm (%h, %r, %d) {transB = 1} %ar, %az, %an = Split (%a) {axis = 1, "
      "num_outputs = 3} %er, %ez, %en = Split (%e) {axis = 1, num_outputs = 3}"
      " %tr = Add (%ar, %er) %sr = Sigmoid (%tr) %tz = Add (%az, %ez) %z = Sigmoid (%tz) %p = Mul (%sr, %en) %q = Add "
      "(%an, %p) %n = Tanh (%q) %y = Sub (%one, %z) %u = Mul (%y, %n)"
      " %v = Mul (%z, %h) %o = Add (%u, %v) output %o }";
  EXPECT_EQ(ops_of(fused(text)), (Ops{"Gemm", "Gemm", "Split", "Split", "tessera::ElementWise"}));
  expect_same_bits(text);
}

TEST(FuseElementWise, ChoicesAmongOtherTypesStayOut) {
  EXPECT_EQ(ops_of(fused("graph { input %m : bool[4] input %n : bool[4] input %x : i64[4] input %y : i64[4] %a = And "
                         "(%m, %n) %w = Where (%a, %x, %y) output %w }")),
            (Ops{"And", "Where"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : i64[4] input %y : i64[4] %e = Equal (%x, %y) %n = Not (%e) output %n }")),
            (Ops{"Equal", "Not"}));
  // A mask that is smaller than the result.
  EXPECT_EQ(ops_of(fused("graph { input %m : bool[4] input %x : f32[3, 4] constant %c = f32[] {0} %n = Not (%m) %w = "
                         "Where (%n, %x, %c) output %w }")),
            (Ops{"Not", "Where"}));
}

TEST(FuseElementWise, ASecondTimeGoesOnFromTheFirst) {
  ir::Graph graph = fused("graph { input %x : f32[4] %a = Neg (%x) %b = Tanh (%a) output %b }");
  const ir::ValueId result = graph.outputs()[0];
  graph.set_outputs({graph.add_op("Exp", {result})});
  graph.value(graph.outputs()[0]).type = graph.value(result).type;
  EXPECT_EQ(steps_of(fuse_element_wise(graph, cpu_pass_context())), (Ops{"Neg", "Tanh", "Exp"}));
}

TEST(FuseElementWise, KeepsToTheLimitOfOperands) {
  std::string text = "graph { input %x0 : f32[40]", sums = " %y0 = Neg (%x0)";
  for (int i = 1; i < 12; ++i) {
    text += " input %x" + std::to_string(i) + " : f32[40]";
    sums += " %y" + std::to_string(i) + " = Add (%y" + std::to_string(i - 1) + ", %x" + std::to_string(i) + ")";
  }
  text += sums + " output %y11 }";
  EXPECT_EQ(ops_of(fused(text)), (Ops{"tessera::ElementWise", "tessera::ElementWise"}));
  expect_same_bits(text);
}

// Horner's rule with a new number for each step: numbers count as steps.
TEST(FuseElementWise, KeepsToTheLimitOfSteps) {
  for (const std::string type : {"f32[40]", "f32[n]"}) {
    std::string text = "graph { input %x : " + type, steps = " %t0 = Neg (%x)";
    for (int i = 1; i < 60; ++i) {
      const std::string k = std::to_string(i), before = std::to_string(i - 1);
      text += " constant %c" + k + " = f32[] {0." + k + "}";
      steps += " %u" + k + " = Add (%t" + before + ", %c" + k + ") %t" + k + " = Mul (%u" + k + ", %x)";
    }
    text += steps + " output %t59 }";
    EXPECT_EQ(ops_of(fused(text)), (Ops(3, "tessera::ElementWise")));
    expect_same_bits(text);
  }
}

}  // namespace
}  // namespace tessera::passes::fuse_element_wise_test
