#include "passes/training/differentiate_control_flow.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/host/numeric.h"
#include "ops/core/builder.h"
#include "passes/training/differentiate.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::test::differentiate_control_flow_test {
namespace {

using ir::Dims;
using ir::ValueId;
using ir::ValueType;

const ValueType kRow = ValueType::tensor(DType::f64, Dims{3});

Tensor reals(const Shape& shape, std::uint64_t seed) {
  return random_tensor(DType::f64, shape, seed, -1, 1);
}

// (h, x) -> (tanh(h x + h), h² x)
ir::SubgraphPointer scan_body() {
  auto body = std::make_shared<ir::Graph>();
  const ValueId h = body->add_input("h", kRow), x = body->add_input("x", kRow);
  ops::GraphBuilder builder(*body);
  const ValueId product = builder.add("Mul", {h, x});
  body->add_output(builder.add("Tanh", {builder.add("Add", {product, h})}));
  body->add_output(builder.add("Mul", {product, h}));
  return body;
}

TEST(DifferentiateControlFlow, ScanThroughTime) {
  const ir::Attributes forward{{"body", scan_body()}, {"num_scan_inputs", std::int64_t{1}}};
  expect_gradient({"Scan", {reals({3}, 1), reals({5, 3}, 2)}, forward, 2}, {.symbolic = false});
  ir::Attributes backward = forward;
  backward["scan_input_axes"] = std::vector<std::int64_t>{1};
  backward["scan_input_directions"] = backward["scan_output_directions"] = std::vector<std::int64_t>{1};
  backward["scan_output_axes"] = std::vector<std::int64_t>{-1};
  expect_gradient({"Scan", {reals({3}, 3), reals({3, 4}, 4)}, backward, 2}, {.symbolic = false});
}

// (i, condition, x) -> (condition, sin(x) i, x²)
ir::SubgraphPointer loop_body(bool asks) {
  auto body = std::make_shared<ir::Graph>();
  const ValueId i = body->add_input("i", ValueType::tensor(DType::i64, Dims{})),
                condition = body->add_input("condition", ValueType::tensor(DType::boolean, Dims{})),
                x = body->add_input("x", kRow);
  ops::GraphBuilder builder(*body);
  const ValueId sum = builder.add("ReduceSum", {x}, {{"keepdims", std::int64_t{0}}});
  body->add_output(asks ? builder.add("Less", {sum, builder.scalar(9, DType::f64)}) : condition);
  const ValueId factor = builder.cast(builder.add("Add", {i, builder.scalar(1, DType::i64)}), DType::f64);
  body->add_output(builder.add("Mul", {builder.add("Sin", {x}), factor}));
  body->add_output(builder.add("Mul", {x, x}));
  return body;
}

TEST(DifferentiateControlFlow, LoopWithAKnownCount) {
  const Tensor count = Tensor::scalar(std::int64_t{4});
  for (const bool symbolic : {false, true}) {
    expect_gradient({"Loop", {count, Value(), reals({3}, 5)}, {{"body", loop_body(false)}}, 2}, {.symbolic = symbolic});
  }
  expect_gradient({"Loop", {count, Tensor::scalar(true), reals({3}, 6)}, {{"body", loop_body(false)}}, 2});
}

// The condition that the body returns may be true because a constant around it is, as in PyTorch's EmbeddingBag.
TEST(DifferentiateControlFlow, LoopWithAConditionFromAround) {
  auto body = std::make_shared<ir::Graph>();
  body->add_input("i", ValueType::tensor(DType::i64, Dims{}));
  body->add_input("condition", ValueType::tensor(DType::boolean, Dims{}));
  const ValueId x = body->add_input("x", kRow),
                around = body->add_input("around", ValueType::tensor(DType::boolean, Dims{}));
  ops::GraphBuilder inside(*body);
  body->add_output(inside.cast(around, DType::boolean));
  body->add_output(inside.add("Mul", {x, x}));
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ValueId given = graph.add_input("given", kRow), count = graph.add_constant(Tensor::scalar(std::int64_t{2}));
  const ValueId y = builder.add_multi("Loop", {count, {}, given}, 1, {{"body", ir::SubgraphPointer(body)}},
                                      {graph.add_constant(Tensor::scalar(true))})[0];
  const ValueId xs[] = {given};
  EXPECT_TRUE(passes::build_gradients(graph, y, xs)[0].valid());
}

TEST(DifferentiateControlFlow, RefusesALoopThatAsksData) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ValueId x = graph.add_input("x", kRow), count = graph.add_constant(Tensor::scalar(std::int64_t{4}));
  const ValueId y = builder.add("Loop", {count, {}, x}, {{"body", loop_body(true)}});
  const ValueId xs[] = {x};
  expect_error(ErrorKind::unsupported,
               "no gradient is stated for Loop (node 'Loop_1' (Loop): its number of iterations depends on data)",
               [&] { passes::build_gradients(graph, y, xs); });
}

ir::SubgraphPointer branch(const std::string& op, bool both) {
  auto graph = std::make_shared<ir::Graph>();
  const ValueId a = graph->add_input("a", kRow), b = graph->add_input("b", kRow);
  ops::GraphBuilder builder(*graph);
  const ValueId y = builder.add(op, {a});
  graph->add_output(both ? builder.add("Mul", {y, b}) : y);
  return graph;
}

TEST(DifferentiateControlFlow, IfByTheBranchThatIsTaken) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ValueId condition = graph->add_input("condition", ValueType::tensor(DType::boolean, Dims{})),
                a = graph->add_input("a", kRow), b = graph->add_input("b", kRow);
  const ir::Attributes branches{{"then_branch", branch("Exp", true)}, {"else_branch", branch("Sin", false)}};
  const ValueId y = builder.add_multi("If", {condition}, 1, branches, {a, b})[0];
  const ValueId sum = builder.add("ReduceSum", {builder.add("Mul", {y, y})}, {{"keepdims", std::int64_t{0}}});
  const ValueId xs[] = {a, b};
  for (const ValueId gradient : passes::build_gradients(*graph, sum, xs)) graph->add_output(gradient);
  Session session(Model(graph), {.device = "reference"});
  const Tensor values = reals({3}, 7), others = reals({3}, 8);
  for (const bool taken : {true, false}) {
    const NamedValues results = session.run({{"condition", Tensor::scalar(taken)}, {"a", values}, {"b", others}});
    Tensor da(DType::f64, {3}), db(DType::f64, {3});
    for (std::int64_t i = 0; i < 3; ++i) {
      const double p = values.data<double>()[i], q = others.data<double>()[i];
      da.mutable_data<double>()[i] = taken ? 2 * std::exp(2 * p) * q * q : 2 * std::sin(p) * std::cos(p);
      db.mutable_data<double>()[i] = taken ? 2 * std::exp(2 * p) * q : 0;
    }
    const auto named = [&](std::size_t i) { return results.at(graph->value(graph->outputs()[i]).name).tensor(); };
    EXPECT_TRUE(close_to(named(0), da, Tolerance::epsilons(DType::f64, 8))) << taken;
    EXPECT_TRUE(close_to(named(1), db, Tolerance::epsilons(DType::f64, 8))) << taken;
  }
}

}  // namespace
}  // namespace tessera::test::differentiate_control_flow_test
