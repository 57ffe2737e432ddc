// Constants that a subgraph captures become its own.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::sink_constants_test {
namespace {

using test::parsed;

std::string choice(const std::string& captures) {
  return "graph { input %c : bool[] input %x : f32[2] input %v : f32[] constant %two = f32[] {2} "
         "%y = If (%c) captures (" +
         captures +
         ") {"
         "else_branch = graph { input %t : f32[*] input %f : f32[*] %r = Mul (%t, %f) output %r }, "
         "then_branch = graph { input %t : f32[*] input %f : f32[*] %r = Add (%t, %f) output %r }} output %y }";
}

const ir::Node& only_node(const ir::Graph& graph) {
  return graph.node(graph.order().at(0));
}

TEST(SinkConstants, IntoEveryBranch) {
  const std::string text = choice("%x, %two");
  const ir::Graph graph = sink_constants(parsed(text), test::cpu_pass_context());
  EXPECT_EQ(only_node(graph).captures, 1);
  EXPECT_EQ(only_node(graph).inputs.size(), 2u);
  for (const auto& [name, branch] : ir::subgraphs_of(only_node(graph))) {
    ASSERT_EQ(branch->inputs().size(), 1u) << name;
    const ir::Node& node = only_node(*branch);
    EXPECT_EQ(node.inputs[0], branch->inputs()[0]) << name;
    const Tensor* constant = branch->constant(node.inputs[1]);
    ASSERT_NE(constant, nullptr) << name;
    EXPECT_TRUE(identical(*constant, Tensor::scalar(2.0f))) << name;
  }
  test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(parsed(text))), "sink_constants", 0);
}

TEST(SinkConstants, WhereverTheyStandAmongTheCaptures) {
  const ir::Graph graph = sink_constants(parsed(choice("%two, %x")), test::cpu_pass_context());
  EXPECT_EQ(only_node(graph).captures, 1);
  for (const auto& [name, branch] : ir::subgraphs_of(only_node(graph))) {
    ASSERT_EQ(branch->inputs().size(), 1u) << name;
    const ir::Node& node = only_node(*branch);
    EXPECT_NE(branch->constant(node.inputs[0]), nullptr) << name;
    EXPECT_EQ(node.inputs[1], branch->inputs()[0]) << name;
  }
}

TEST(SinkConstants, BesideTheFormalInputsOfALoop) {
  const ir::Graph graph = sink_constants(
      parsed("graph { input %x : f32[2] input %n : i64[] constant %go = bool[] {true} constant %two = f32[] {2} "
             "%y = Loop (%n, %go, %x) captures (%two) {body = graph { input %i : i64[] input %g : bool[] "
             "input %a : f32[2] input %f : f32[] %h = Identity (%g) %b = Mul (%a, %f) output %h, %b }} output %y }"),
      test::cpu_pass_context());
  EXPECT_EQ(only_node(graph).captures, 0);
  EXPECT_EQ(only_node(graph).inputs.size(), 3u);
  EXPECT_EQ(ir::subgraphs_of(only_node(graph))[0].second->inputs().size(), 3u);
}

TEST(SinkConstants, LeavesWhatIsNoConstant) {
  test::expect_left_alone(choice("%x, %v"), "sink_constants");
}

}  // namespace
}  // namespace tessera::passes::sink_constants_test
