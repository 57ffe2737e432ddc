// Element-wise operators that become one loop: what goes in, what stays out, and that outputs are the same bits.
#include <gtest/gtest.h>

#include "ops/element_wise_program.h"
#include "runtime/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes {
namespace {

using test::cpu_pass_context;
using test::ops_of;
using test::parsed;
using Ops = std::vector<std::string>;

ir::Graph fused(const std::string& text) { return fuse_element_wise(parsed(text), cpu_pass_context()); }

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

const std::string kScales = " constant %s = f32[] {0.03} constant %z = u8[] {120} constant %t = f32[] {0.05} constant %two = f32[1] {2}";

TEST(FuseElementWise, AChainBecomesOneNode) {
  const std::string text = "graph { input %x : f32[batch, 4] input %b : f32[4]" + kScales + " %a = Mul (%x, %two) %c = Add (%a, %b) %d = Tanh (%c) %e = Sub (%d, %x) output %e }";
  EXPECT_EQ(ops_of(fused(text)), (Ops{"tessera::ElementWise"}));
  EXPECT_EQ(steps_of(fused(text)), (Ops{"Constant", "Mul", "Add", "Tanh", "Sub"}));
  expect_same_bits(text);
}

TEST(FuseElementWise, WhatOthersUseStaysOut) {
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4] %a = Neg (%x) %b = Tanh (%a) output %a output %b }")), (Ops{"Neg", "Tanh"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4, 4] %a = Neg (%x) %b = Tanh (%a) %c = MatMul (%a, %b) output %c }")), (Ops{"Neg", "Tanh", "MatMul"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4] %a = Neg (%x) %b = Tanh (%a) %c = Exp (%b) output %a output %c }")), (Ops{"Neg", "tessera::ElementWise"}));
}

TEST(FuseElementWise, OtherShapesAndTypesStayOut) {
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4] input %y : f32[3, 4] %a = Neg (%x) %b = Add (%a, %y) output %b }")), (Ops{"Neg", "Add"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[n] input %y : f32[m] %a = Add (%x, %y) %b = Neg (%a) output %b }")), (Ops{"Add", "Neg"}));
  EXPECT_EQ(ops_of(fused("graph { input %x : f64[4] %a = Neg (%x) %b = Abs (%a) output %b }")), (Ops{"Neg", "Abs"}));
  // The number's rank is the result's.
  EXPECT_EQ(ops_of(fused("graph { input %x : f32[4] constant %c = f32[1, 1] {2} %a = Mul (%x, %c) %b = Neg (%a) output %b }")), (Ops{"Mul", "Neg"}));
}

TEST(FuseElementWise, DequantisedBytesGoIntoEachThatReadsThem) {
  const std::string text = "graph { input %x : u8[4, 8] input %y : f32[4, 8]" + kScales +
                           " %d = DequantizeLinear (%x, %s, %z) %a = Add (%d, %y) %q = QuantizeLinear (%a, %t, %z) %p = Softmax (%d) %m = Mul (%p, %d) output %q output %m }";
  EXPECT_EQ(ops_of(fused(text)), (Ops{"DequantizeLinear", "tessera::ElementWise", "Softmax", "tessera::ElementWise"}));
  expect_same_bits(text);
}

// The copy of %e reads %q; so %q is not computed a second time inside of what gives %e.
TEST(FuseElementWise, WhatACopyReadsIsComputedOnce) {
  const std::string text = "graph { input %x : f32[4, 8]" + kScales +
                           " %t1 = Tanh (%x) %q = QuantizeLinear (%t1, %s, %z) %e = DequantizeLinear (%q, %s, %z) %p = Softmax (%e) %n = Neg (%e) output %p output %n }";
  EXPECT_EQ(ops_of(fused(text)), (Ops{"tessera::ElementWise", "DequantizeLinear", "Softmax", "tessera::ElementWise"}));
  expect_same_bits(text);
}

TEST(FuseElementWise, SumsOfBytesGoInWithWhatIsAround) {
  const std::string add = " %y = com.microsoft::QLinearAdd (%x, %s, %z, %w, %s, %z, %t, %z)";
  EXPECT_EQ(ops_of(fused("graph { input %x : u8[4, 8] input %w : u8[4, 8]" + kScales + add + " output %y }")), (Ops{"com.microsoft::QLinearAdd"}));
  const std::string text = "graph { input %x : u8[4, 8] input %w : u8[4, 8]" + kScales + add + " %d = DequantizeLinear (%y, %t, %z) %r = Relu (%d) output %r }";
  EXPECT_EQ(steps_of(fused(text)), (Ops{"DequantizeLinear", "DequantizeLinear", "Add", "QuantizeU8", "DequantizeLinear", "Relu"}));
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
}  // namespace tessera::passes
