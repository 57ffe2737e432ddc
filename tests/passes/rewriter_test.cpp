#include "passes/rewriter.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace tessera::passes::rewriter_test {
namespace {

ir::Graph chain() {
  return ir::parse(
      "graph \"chain\" {\n"
      "  input %x : f32[2]\n"
      "  %a = Relu (%x) : f32[2]\n"
      "  %b = Neg (%a) : f32[2]\n"
      "  %c = Relu (%b) : f32[2]\n"
      "  %d = Neg (%c) : f32[2]\n"
      "  output %d\n"
      "}\n");
}

std::vector<std::string> names_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.order()) names.push_back(graph.node(id).op);
  return names;
}

TEST(RewriteEach, VisitsForwardsAndBackwards) {
  ir::Graph graph = chain();
  std::vector<std::string> seen;
  const auto note = [&](ir::NodeId id) {
    seen.push_back(graph.value(graph.node(id).outputs[0]).name);
    return false;
  };
  EXPECT_FALSE(rewrite_each(graph, note));
  EXPECT_FALSE(rewrite_each(graph, note, Visit::backwards));
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b", "c", "d", "d", "c", "b", "a"}));
}

TEST(RewriteEach, RemovesWhatNothingUsesAfterAChange) {
  ir::Graph graph = chain();
  const bool changed = rewrite_each(graph, [&](ir::NodeId id) {
    ir::Node& node = graph.node(id);
    if (node.op != "Neg" || graph.value(node.inputs[0]).origin != ir::Origin::node) return false;
    node.inputs[0] = graph.inputs()[0];
    return true;
  });
  EXPECT_TRUE(changed);
  EXPECT_EQ(names_of(graph), std::vector<std::string>{"Neg"});
}

TEST(RewriteEach, SortsNodesThatRulesAdd) {
  ir::Graph graph = chain();
  bool first = true;
  rewrite_each(graph, [&](ir::NodeId id) {
    if (!std::exchange(first, false)) return false;
    graph.node(id).inputs[0] = graph.add_op("Abs", {graph.inputs()[0]});  // behind the node that uses it
    return true;
  });
  EXPECT_EQ(names_of(graph), (std::vector<std::string>{"Abs", "Relu", "Neg", "Relu", "Neg"}));
}

TEST(RewriteEach, SkipsRemovedNodesAndDropsNodesMadeInVain) {
  ir::Graph graph = chain();
  int visits = 0;
  const bool changed = rewrite_each(graph, [&](ir::NodeId) {
    graph.add_op("Abs", {graph.inputs()[0]});
    return ++visits < 0;
  });
  EXPECT_FALSE(changed);
  EXPECT_EQ(visits, 4);  // not the nodes that were added
  EXPECT_EQ(graph.node_count(), 4u);
}

TEST(IfLegal, GivesNothingForErrorsOfTheModelAndPassesCancellation) {
  EXPECT_EQ(if_legal([] { return 3; }), 3);
  EXPECT_EQ(if_legal([]() -> int { throw Error(ErrorKind::invalid_model, "wrong"); }), std::nullopt);
  EXPECT_THROW(if_legal([]() -> int { throw Error(ErrorKind::cancelled, "stop"); }), Error);
}

}  // namespace
}  // namespace tessera::passes::rewriter_test
