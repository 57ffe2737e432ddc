#include "report/explain/graph_cost.h"

#include <gtest/gtest.h>

#include "cost/profile.h"
#include "support/pass_context.h"

namespace tessera::report::graph_cost_test {
namespace {

GraphCost cost_of(const std::string& text) {
  return graph_measure(*cost::find_built_in_profile("l4"), "cpu")(test::parsed(text));
}

TEST(GraphMeasure, CountsOperationsAndBytes) {
  const GraphCost cost = cost_of(
      "graph { input %x : f32[2, 3] constant %w = f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} %y = MatMul (%x, "
      "%w) output %y }");
  EXPECT_EQ(cost.operations, 2 * 2 * 3 * 4);
  EXPECT_EQ(cost.bytes, 4 * (2 * 3 + 3 * 4 + 2 * 4));
  EXPECT_GT(cost.seconds, 0);
  EXPECT_EQ(cost.unknown_nodes, 0);
}

TEST(GraphMeasure, TakesNamesForOneAndComputesShapes) {
  const GraphCost cost = cost_of(R"(graph {
    input %x : f32[batch, 3, 4]
    constant %zero = i64[1] {0}
    constant %one = i64[1] {1}
    constant %rest = i64[1] {-1}
    %shape = Shape (%x)
    %first = Slice (%shape, %zero, %one)
    %target = Concat (%first, %rest) {axis = 0}
    %flat = Reshape (%x, %target)
    %y = Relu (%flat)
    output %y
  })");
  EXPECT_EQ(cost.unknown_nodes, 0);
  EXPECT_GE(cost.bytes, 4 * 2 * 12);
}

TEST(GraphMeasure, TakesNodesWithoutOutputs) {
  ir::Graph graph = test::parsed("graph { input %x : f32[4] %y = Neg (%x) output %y }");
  for (const auto& [op, inputs] : {std::pair{"Identity", 1}, {"Neg", 1}, {"Add", 2}}) {
    graph.add_node({op, "", std::vector(static_cast<std::size_t>(inputs), graph.inputs()[0]), {}, {}, 0});
    graph.add_node({op, "", std::vector(static_cast<std::size_t>(inputs), graph.inputs()[0]), {ir::ValueId{}}, {}, 0});
  }
  EXPECT_GE(graph_measure(*cost::find_built_in_profile("l4"), "cpu")(graph).operations, 4);
}

TEST(GraphMeasure, LeavesOutWhatDependsOnData) {
  EXPECT_EQ(cost_of("graph { input %x : f32[4] %i = NonZero (%x) %y = Neg (%i) output %y }").unknown_nodes, 2);
}

}  // namespace
}  // namespace tessera::report::graph_cost_test
