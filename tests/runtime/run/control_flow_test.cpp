#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "ir/graph.h"
#include "ops/core/builder.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::control_flow_test {
namespace {

using test::close_to;

ir::ValueType f32(ir::Dims dims) {
  return ir::ValueType::tensor(DType::f32, std::move(dims));
}

// If(condition): captured x doubled, or x itself.
Model branching_model() {
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId condition = graph->add_input("condition", ir::ValueType::tensor(DType::boolean, ir::Dims{}));
  const ir::ValueId x = graph->add_input("x", f32({2}));
  auto branch = [](bool doubles) {
    auto body = std::make_shared<ir::Graph>();
    ops::GraphBuilder builder(*body);
    const ir::ValueId captured = body->add_input("captured", f32({2}));
    body->add_output(doubles ? builder.add("Add", {captured, captured}) : captured);
    return body;
  };
  ops::GraphBuilder builder(*graph);
  ir::Node node{
      "If",
      "choose",
      {condition, x},
      {graph->add_value("y", f32({2}))},
      {{"then_branch", ir::SubgraphPointer(branch(true))}, {"else_branch", ir::SubgraphPointer(branch(false))}},
      1};
  graph->add_output(node.outputs[0]);
  graph->add_node(node);
  return Model(graph);
}

TEST(ControlFlow, IfTakesTheBranchThatTheDataSays) {
  Session session(branching_model());
  const Tensor x = Tensor::from<float>({2}, {1.0f, 2.0f});
  const NamedValues doubled = session.run({{"condition", Tensor::scalar(true)}, {"x", x}});
  EXPECT_TRUE(close_to(doubled.at("y").tensor(), Tensor::from<float>({2}, {2.0f, 4.0f})));
  const NamedValues same = session.run({{"condition", Tensor::scalar(false)}, {"x", x}});
  EXPECT_TRUE(close_to(same.at("y").tensor(), x));
  EXPECT_FALSE(same.at("y").tensor().shares_storage_with(x));
}

// Loop: sum += step (captured); scan output = sum after each iteration.
Model looping_model() {
  auto body = std::make_shared<ir::Graph>();
  {
    ops::GraphBuilder builder(*body);
    body->add_input("i", ir::ValueType::tensor(DType::i64, ir::Dims{}));
    const ir::ValueId condition = body->add_input("condition_in", ir::ValueType::tensor(DType::boolean, ir::Dims{}));
    const ir::ValueId sum = body->add_input("sum_in", f32({2}));
    const ir::ValueId step = body->add_input("step", f32({2}));
    const ir::ValueId next = builder.add("Add", {sum, step});
    body->set_outputs({condition, next, next});
  }
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId trips = graph->add_input("trips", ir::ValueType::tensor(DType::i64, ir::Dims{}));
  const ir::ValueId start = graph->add_input("start", f32({2}));
  const ir::ValueId step = graph->add_input("step", f32({2}));
  ir::Node node{"Loop",
                "sum",
                {trips, {}, start, step},
                {graph->add_value("sum"), graph->add_value("history")},
                {{"body", ir::SubgraphPointer(body)}},
                1};
  graph->set_outputs(node.outputs);
  graph->add_node(node);
  return Model(graph);
}

TEST(ControlFlow, LoopCarriesStateAndStacksScanOutputs) {
  Session session(looping_model());
  const Tensor start = Tensor::from<float>({2}, {1.0f, 10.0f}), step = Tensor::from<float>({2}, {1.0f, 2.0f});
  const NamedValues outputs =
      session.run({{"trips", Tensor::scalar(std::int64_t{3})}, {"start", start}, {"step", step}});
  EXPECT_TRUE(close_to(outputs.at("sum").tensor(), Tensor::from<float>({2}, {4.0f, 16.0f})));
  EXPECT_TRUE(
      close_to(outputs.at("history").tensor(), Tensor::from<float>({3, 2}, {2.0f, 12.0f, 3.0f, 14.0f, 4.0f, 16.0f})));
}

TEST(ControlFlow, LoopOfNoIterationsPassesItsStateThrough) {
  Session session(looping_model());
  const Tensor start = Tensor::from<float>({2}, {1.0f, 10.0f});
  const NamedValues outputs =
      session.run({{"trips", Tensor::scalar(std::int64_t{0})}, {"start", start}, {"step", start}});
  EXPECT_TRUE(close_to(outputs.at("sum").tensor(), start));
  EXPECT_FALSE(outputs.at("sum").tensor().shares_storage_with(start));
  EXPECT_EQ(outputs.at("history").tensor().shape(), (Shape{0, 2}));
}

// What the body gives for each iteration, of which there are none: sizes stay that are declared, inferred in the body,
// or known of the values that it gets.
TEST(ControlFlow, OfNoIterationsScanOutputsKeepTheSizesOfTheirElements) {
  const std::string body =
      "graph { input %i : i64[] input %go : bool[] input %s : f32[*] input %x : f32[*] "
      "constant %zero = i64[1] {0} %u = Unsqueeze (%i, %zero) %c = Concat (%u, %u) {axis = 0} "
      "%d = Concat (%s, %x) {axis = 0} %n = NonZero (%x) output %go, %s, %c, %d, %n }";
  for (const char* device : {"reference", "cpu"}) {
    for (const bool by_condition : {false, true}) {
      SCOPED_TRACE(std::string(device) + (by_condition ? ", a false condition" : ", no trips"));
      Session session(Model(std::make_shared<const ir::Graph>(test::parsed(
                          "graph { input %trips : i64[] input %go : bool[] input %s : f32[n, 3] input %x : f32[m, 3] "
                          "%a, %b, %c, %d = Loop (%trips, %go, %s) captures (%x) {body = " +
                          body + "} output %a, %b, %c, %d }"))),
                      {.device = device});
      const NamedValues outputs = session.run({{"trips", Tensor::scalar(std::int64_t{by_condition ? 5 : 0})},
                                               {"go", Tensor::scalar(!by_condition)},
                                               {"s", Tensor(DType::f32, {2, 3})},
                                               {"x", Tensor(DType::f32, {4, 3})}});
      EXPECT_EQ(outputs.at("a").tensor().shape(), (Shape{2, 3}));
      EXPECT_EQ(outputs.at("b").tensor().shape(), (Shape{0, 2}));
      EXPECT_EQ(outputs.at("b").tensor().dtype(), DType::i64);
      EXPECT_EQ(outputs.at("c").tensor().shape(), (Shape{0, 6, 3}));
      EXPECT_EQ(outputs.at("d").tensor().shape(), (Shape{0, 2, 0}));
      EXPECT_EQ(outputs.at("d").tensor().dtype(), DType::i64);
    }
  }
}

TEST(ControlFlow, AScanOfNoStepsKeepsTheSizesOfItsOutputs) {
  for (const char* device : {"reference", "cpu"}) {
    Session session(Model(std::make_shared<const ir::Graph>(test::parsed(
                        "graph { input %s : f32[2] input %x : f32[3, n, 5] %a, %b = Scan (%s, %x) {body = "
                        "graph { input %s : f32[*] input %e : f32[*] constant %z = i64[1] {0} %t = ReduceSum (%e, %z) "
                        "{keepdims = 0} output %s, %t }, num_scan_inputs = 1, scan_input_axes = [1], "
                        "scan_output_axes = [-1]} output %a, %b }"))),
                    {.device = device});
    const NamedValues outputs = session.run({{"s", Tensor(DType::f32, {2})}, {"x", Tensor(DType::f32, {3, 0, 5})}});
    EXPECT_EQ(outputs.at("b").tensor().shape(), (Shape{5, 0})) << device;
  }
}

TEST(ControlFlow, AnEndlessLoopCanBeCancelled) {
  // The body has no steps: it passes its state through.
  auto body = std::make_shared<ir::Graph>();
  body->add_input("i", ir::ValueType::tensor(DType::i64, ir::Dims{}));
  const ir::ValueId condition = body->add_input("condition", ir::ValueType::tensor(DType::boolean, ir::Dims{}));
  body->set_outputs({condition, body->add_input("state", f32({1}))});
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId start = graph->add_input("start", f32({1}));
  ir::Node node{"Loop", "forever", {{}, {}, start}, {graph->add_value("end")}, {{"body", ir::SubgraphPointer(body)}},
                0};
  graph->set_outputs(node.outputs);
  graph->add_node(node);
  Session session{Model(graph)};
  Cancellation cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancellation.cancel();
  });
  EXPECT_THROW(session.run({{"start", Tensor::from<float>({1}, {0.0f})}}, options), Error);
  stopper.join();
}

TEST(ControlFlow, ScanWalksAnAxisBackwards) {
  auto body = std::make_shared<ir::Graph>();
  {
    ops::GraphBuilder builder(*body);
    const ir::ValueId sum = body->add_input("sum_in", f32({}));
    const ir::ValueId element = body->add_input("element", f32({}));
    const ir::ValueId next = builder.add("Add", {sum, element});
    body->set_outputs({next, next});
  }
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId start = graph->add_input("start", f32({}));
  const ir::ValueId sequence = graph->add_input("sequence", f32({ir::Dim::symbol("length")}));
  ir::Node node{"Scan",
                "",
                {start, sequence},
                {graph->add_value("sum"), graph->add_value("sums")},
                {{"body", ir::SubgraphPointer(body)},
                 {"num_scan_inputs", std::int64_t{1}},
                 {"scan_input_directions", std::vector<std::int64_t>{1}}},
                0};
  graph->set_outputs(node.outputs);
  graph->add_node(node);
  Session session{Model(graph)};
  const NamedValues outputs =
      session.run({{"start", Tensor::scalar(0.0f)}, {"sequence", Tensor::from<float>({3}, {1.0f, 2.0f, 4.0f})}});
  EXPECT_TRUE(close_to(outputs.at("sum").tensor(), Tensor::scalar(7.0f)));
  EXPECT_TRUE(close_to(outputs.at("sums").tensor(), Tensor::from<float>({3}, {4.0f, 6.0f, 7.0f})));
}

}  // namespace
}  // namespace tessera::control_flow_test
