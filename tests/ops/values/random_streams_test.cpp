#include "ops/values/random_streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ops/core/builder.h"
#include "ops/op_table.h"

namespace tessera::ops {
namespace {

std::vector<std::int64_t> streams_of(const ir::Graph& graph) {
  std::vector<std::int64_t> found;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (const auto stream = node.attributes.find(kStream); stream != node.attributes.end())
      found.push_back(std::get<std::int64_t>(stream->second));
    for (const auto& [name, subgraph] : ir::subgraphs_of(node)) {
      for (const std::int64_t each : streams_of(*subgraph)) found.push_back(each);
    }
  }
  return found;
}

ir::SubgraphPointer branch() {
  auto body = std::make_shared<ir::Graph>();
  body->add_output(body->add_op("RandomNormal", {}, {{"shape", std::vector<std::int64_t>{2}}}));
  return body;
}

// Two numbers, and an If whose branches are one graph.
ir::Graph drawing_graph() {
  ir::Graph graph;
  const ir::ValueId condition = graph.add_input("c", ir::ValueType::tensor(DType::boolean, ir::Dims{}));
  const ir::Attributes shape{{"shape", std::vector<std::int64_t>{2}}};
  graph.add_output(graph.add_op("RandomNormal", {}, shape));
  graph.add_output(graph.add_op("RandomUniform", {}, shape));
  const ir::SubgraphPointer shared = branch();
  graph.add_output(graph.add_op("If", {condition}, {{"then_branch", shared}, {"else_branch", shared}}));
  return graph;
}

TEST(RandomStreams, EveryRandomOperatorHasTheAttribute) {
  for (const OpDef* op : all_ops()) {
    if (op->deterministic) continue;
    EXPECT_TRUE(std::ranges::any_of(op->attributes, [](const AttributeSpec& each) { return each.name == kStream; }))
        << op->name;
  }
}

TEST(RandomStreams, AreDistinctInSubgraphsToo) {
  ir::Graph graph = drawing_graph();
  number_random_streams(graph);
  const std::vector<std::int64_t> streams = streams_of(graph);
  EXPECT_EQ(streams.size(), 4u);
  EXPECT_EQ(std::set<std::int64_t>(streams.begin(), streams.end()).size(), 4u);
  number_random_streams(graph);
  EXPECT_EQ(streams_of(graph), streams);
  graph.add_output(graph.add_op("RandomNormal", {}, {{"shape", std::vector<std::int64_t>{2}}}));
  number_random_streams(graph);
  const std::vector<std::int64_t> more = streams_of(graph);
  EXPECT_EQ(std::set<std::int64_t>(more.begin(), more.end()).size(), 5u);
  remove_random_streams(graph);
  EXPECT_TRUE(streams_of(graph).empty());
}

TEST(RandomStreams, DropoutDrawsOnlyWhereItTrains) {
  ir::Graph graph;
  GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{4}));
  graph.add_output(builder.add("Dropout", {x}));
  graph.add_output(builder.add("Dropout", {x, builder.scalar(0.5), builder.constant(Tensor::scalar(false))}));
  EXPECT_FALSE(draws_random_numbers(graph));
  number_random_streams(graph);
  EXPECT_TRUE(streams_of(graph).empty());
  graph.add_output(builder.add("Dropout", {x, builder.scalar(0.5), builder.constant(Tensor::scalar(true))}));
  EXPECT_TRUE(draws_random_numbers(graph));
  EXPECT_TRUE(draws_random_numbers(drawing_graph()));
}

}  // namespace
}  // namespace tessera::ops
