#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "support/expect_error.h"

namespace tessera::test::verify_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::Graph;
using ir::NodeId;
using ir::ValueId;
using ir::ValueType;

void expect_refused(const Graph& graph, const std::string& message) {
  expect_error_containing(ErrorKind::invalid_model, message, [&] { verify(graph); });
}

// x → Relu "first" → y → Abs "second" → z
struct Chain {
  Graph graph;
  ValueId x, y, z;
  NodeId first, second;

  Chain() {
    x = graph.add_input("x", ValueType::tensor(DType::f32, Dims{2}));
    y = graph.add_value("y");
    z = graph.add_value("z");
    first = graph.add_node({"Relu", "first", {x}, {y}, {}, 0});
    second = graph.add_node({"Abs", "second", {y}, {z}, {}, 0});
    graph.add_output(z);
  }
};

TEST(Verify, AcceptsAGoodGraph) {
  EXPECT_NO_THROW(verify(Chain().graph));
}

TEST(Verify, ChecksHandles) {
  Chain input, output, graph_output;
  input.graph.node(input.second).inputs[0] = ValueId{99};
  expect_refused(input.graph, "an input of node 'second' (Abs) has the handle 99, but there are 3 values");
  output.graph.node(output.second).outputs.push_back(ValueId{7});
  expect_refused(output.graph, "output 1 of node 'second' (Abs) has the handle 7, but there are 3 values");
  graph_output.graph.add_output({});
  expect_refused(graph_output.graph, "a graph output has the handle -1, but there are 3 values");
}

TEST(Verify, ChecksProducers) {
  Chain twice, index, removed;
  twice.graph.node(twice.second).outputs[0] = twice.y;
  expect_refused(twice.graph, "value 'z' is not output 0 of node 'second' (Abs)");
  index.graph.value(index.z).output_index = 1;
  expect_refused(index.graph, "value 'z' is not output 1 of node 'second' (Abs)");
  removed.graph.remove_node(removed.first);
  expect_refused(removed.graph, "value 'y' is an input of node 'second' (Abs), but nothing computes or holds it");
}

TEST(Verify, ChecksOrderNamesAndTypes) {
  Chain order, names, types;
  const ValueId late = order.graph.add_value("late", order.graph.value(order.y).type);
  order.graph.add_node({"Neg", "early", {late}, {order.graph.add_value("w")}, {}, 0});
  order.graph.add_node({"Neg", "after", {order.y}, {late}, {}, 0});
  expect_refused(order.graph, "node 'early' (Neg) uses value 'late' before node 'after' (Neg) computes it");
  names.graph.value(names.y).name = "x";
  expect_refused(names.graph, "two values are named 'x'");
  types.graph.value(types.y).type = {.kind = ValueType::Kind::sequence};
  expect_refused(types.graph, "the type of value 'y' lacks its element type");
}

TEST(Verify, ChecksInputsAndConstants) {
  Chain twice, dropped, constant;
  twice.graph.set_inputs({twice.x, twice.x});
  expect_refused(twice.graph, "graph input 'x' is listed twice");
  dropped.graph.set_inputs({});
  expect_refused(dropped.graph, "value 'x' is an input of node 'first' (Relu), but nothing computes or holds it");
  constant.graph.value(constant.graph.add_constant(Tensor::scalar(1.0f), "c")).type =
      ValueType::tensor(DType::f32, Dims{1});
  expect_refused(constant.graph, "constant 'c' is declared as f32[1], but holds f32[]");
}

TEST(Verify, ChecksVariables) {
  Chain type, name;
  type.graph.add_variable("state", Tensor::from<float>({3}, {0.0f, 0.0f, 0.0f}));
  type.graph.set_variable_update("state", type.z);
  EXPECT_NO_THROW(verify(type.graph));  // z's type is not known yet
  type.graph.value(type.z).type = ValueType::tensor(DType::f32, Dims{2});
  expect_refused(type.graph, "variable 'state' is f32[3], but its update is f32[2]");
  name.graph.value(name.graph.add_variable("a", Tensor::scalar(1.0f))).name = "b";
  name.graph.value(name.graph.add_variable("a", Tensor::scalar(1.0f))).name = "c";
  expect_refused(name.graph, "two variables are named 'a'");
}

TEST(Verify, ChecksSubgraphs) {
  Chain null, captures, inside, count;
  const auto subgraph = std::make_shared<Graph>();
  null.graph.node(null.first).attributes["body"] = ir::SubgraphPointer();
  expect_refused(null.graph, "attribute 'body' of node 'first' (Relu) has no graph");
  captures.graph.node(captures.first).attributes["body"] = ir::SubgraphPointer(subgraph);
  EXPECT_NO_THROW(verify(captures.graph));
  captures.graph.node(captures.first).captures = 1;
  expect_refused(captures.graph, "subgraph 'body' of node 'first' (Relu) has 0 inputs for 1 captured values");
  count.graph.node(count.first).captures = 2;
  expect_refused(count.graph, "node 'first' (Relu) claims 2 captures of 1 inputs");
  auto broken = std::make_shared<Graph>();
  broken->add_output(broken->add_value("lost"));
  inside.graph.node(inside.first).attributes["body"] = ir::SubgraphPointer(broken);
  expect_refused(
      inside.graph,
      "value 'lost' is a graph output, but nothing computes or holds it (in subgraph 'body' of node 'first' (Relu))");
}

TEST(Verify, LimitsSubgraphDepth) {
  auto graph = std::make_shared<Graph>();
  for (int depth = 0; depth <= ir::kMaxSubgraphDepth; ++depth) {
    auto outer = std::make_shared<Graph>();
    outer->add_node({"If", "", {}, {}, {{"body", ir::SubgraphPointer(graph)}}, 0});
    graph = outer;
  }
  expect_refused(*graph, "subgraphs are nested deeper than 100");
}

TEST(MakeNamesUnique, KeepsTheNamesThatPeopleSee) {
  Chain chain;
  chain.graph.add_constant(Tensor::scalar(1.0f), "x");
  chain.graph.value(chain.y).name = "z";
  auto body = std::make_shared<Graph>(Chain().graph);
  body->value(chain.y).name = "x";
  chain.graph.node(chain.first).attributes["body"] = ir::SubgraphPointer(body);
  make_names_unique(chain.graph);
  EXPECT_NO_THROW(verify(chain.graph));
  EXPECT_EQ(chain.graph.value(chain.x).name, "x");
  EXPECT_EQ(chain.graph.value(chain.z).name, "z");
  EXPECT_EQ(chain.graph.value(chain.y).name, "z_2");
  EXPECT_EQ(chain.graph.value(ValueId{3}).name, "x_2");
  EXPECT_EQ(body->value(chain.y).name, "x");  // others may share it
}

}  // namespace
}  // namespace tessera::test::verify_test
