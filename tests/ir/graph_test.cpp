#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "support/expect_error.h"

namespace tessera::test::graph_test {
namespace {

using ir::Dims;
using ir::Graph;
using ir::NodeId;
using ir::ValueId;
using ir::ValueType;

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> result;
  for (NodeId id : graph.order()) result.push_back(graph.node(id).op);
  return result;
}

TEST(Graph, ReplacesEveryUse) {
  Graph graph = ir::parse(
      "graph { variable %v = f32[] {0} update %y input %x : f32[] %y = Relu (%x) %z = Add (%y, %y) output %y, %z }");
  graph.replace_uses(graph.find_value("y"), graph.find_value("x"));
  EXPECT_EQ(print(graph),
            "graph {\n  input %x : f32[]\n  variable %v = f32[] {0} update %x\n  %y = Relu (%x)\n  %z = Add (%x, %x)\n "
            " output %x, %z\n}\n");
}

TEST(Graph, RemovesWhatNothingUses) {
  Graph graph = ir::parse(
      "graph { input %unused : f32[] input %x : f32[] constant %c = f32[] {1} constant %d = f32[] {2}\n"
      "%a = Relu (%x) %dead = Add (%a, %c) %deader = Neg (%dead) %p, %q = Split (%x, %d) %state = Neg (%q)\n"
      "variable %v = f32[] {0} update %state output %a }");
  graph.remove_dead_and_compact();
  verify(graph);
  EXPECT_EQ(print(graph),
            "graph {\n  input %unused : f32[]\n  input %x : f32[]\n  constant %d = f32[] {2}\n  variable %v = f32[] "
            "{0} update %state\n"
            "  %a = Relu (%x)\n  none, %q = Split (%x, %d)\n  %state = Neg (%q)\n  output %a\n}\n");
  EXPECT_EQ(graph.node_count(), 3U);
  EXPECT_EQ(graph.value_count(), 7U);
}

TEST(Graph, BecomesConstant) {
  Graph graph = ir::parse("graph { input %x : f32[2] %s = Shape (%x) %y = Reshape (%x, %s) output %y }");
  graph.become_constant(graph.find_value("s"), Tensor::from<std::int64_t>({1}, {2}));
  graph.remove_dead_and_compact();
  verify(graph);
  EXPECT_EQ(print(graph),
            "graph {\n  input %x : f32[2]\n  constant %s = i64[1] {2}\n  %y = Reshape (%x, %s)\n  output %y\n}\n");
}

TEST(Graph, SortIsStable) {
  Graph graph;
  const ValueId x = graph.add_input("x", ValueType::tensor(DType::f32, Dims{}));
  const ValueId late = graph.add_value("late");
  graph.add_op("Third", {late});
  graph.add_op("First", {x});
  graph.add_node({"Second", "", {x}, {late}, {}, 0});
  graph.sort_topologically();
  EXPECT_EQ(operators(graph), (std::vector<std::string>{"First", "Second", "Third"}));
  graph.sort_topologically();
  EXPECT_EQ(operators(graph), (std::vector<std::string>{"First", "Second", "Third"}));
  verify(graph);
}

TEST(Graph, SortNamesANodeOnTheCycle) {
  Graph graph;
  const ValueId a = graph.add_value("a"), b = graph.add_value("b"), c = graph.add_value("c");
  graph.add_node({"Relu", "behind", {b}, {c}, {}, 0});
  graph.add_node({"Relu", "in the cycle", {b}, {a}, {}, 0});
  graph.add_node({"Relu", "in the cycle too", {a}, {b}, {}, 0});
  expect_error_containing(ErrorKind::invalid_model, "the graph has a cycle through node 'in the cycle",
                          [&] { graph.sort_topologically(); });
}

TEST(Graph, ReplacesANode) {
  Graph graph = ir::parse("graph { input %x : f32[] %y = First (%x) %z = Second (%y) output %z }");
  graph.replace_node(graph.order()[0], {"Other", "", {graph.inputs()[0]}, {graph.find_value("y")}, {}, 0});
  EXPECT_EQ(operators(graph), (std::vector<std::string>{"Other", "Second"}));
  verify(graph);
}

TEST(Graph, ReplacesManyUsesAlongChains) {
  Graph graph =
      ir::parse("graph { input %x : f32[] %a = A (%x) %b = B (%a) %c = C (%b) %d = D (%c, %a, %x) output %d }");
  std::vector<ValueId> replacements(graph.value_count());
  const auto replace = [&](const char* from, const char* to) {
    replacements[static_cast<std::size_t>(graph.find_value(from).index)] = graph.find_value(to);
  };
  replace("c", "b");
  replace("b", "a");
  replace("a", "x");
  graph.replace_uses(replacements);
  EXPECT_EQ(graph.node(graph.order()[3]).inputs, std::vector<ValueId>(3, graph.find_value("x")));
}

TEST(Graph, FreshNamesAvoidGivenOnes) {
  Graph graph;
  graph.add_input("value_7", ValueType::tensor(DType::f32));
  graph.add_input("value_99999999999999999999999999", ValueType::tensor(DType::f32));
  EXPECT_EQ(graph.fresh_name("value"), "value_8");
  EXPECT_EQ(graph.fresh_name("value"), "value_9");
}

TEST(Graph, CopiesShareConstantsOnly) {
  Graph graph = ir::parse("graph { constant %c = f32[] {1} %y = Relu (%c) output %y }");
  Graph copy = graph;
  copy.node(copy.order()[0]).op = "Abs";
  EXPECT_EQ(graph.node(graph.order()[0]).op, "Relu");
  EXPECT_TRUE(copy.constant(copy.find_value("c"))->shares_storage_with(*graph.constant(graph.find_value("c"))));
}

}  // namespace
}  // namespace tessera::test::graph_test
