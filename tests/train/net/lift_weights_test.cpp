#include "train/net/lift_weights.h"

#include <gtest/gtest.h>

#include "ir/constant_role.h"
#include "ops/core/builder.h"
#include "support/random_tensor.h"
#include "tessera/train.h"

namespace tessera::train::lift_weights_test {
namespace {

using ir::ValueId;

const ir::Dims kState = {ir::Dim::symbol("batch"), 4};

// (h, x) -> tanh(x W + h) + table, as a reader makes a body: constants from outside are copies.
ir::SubgraphPointer body(const Tensor& w) {
  auto body = std::make_shared<ir::Graph>();
  const ValueId h = body->add_input("h", ir::ValueType::tensor(DType::f32, kState)),
                x = body->add_input("x", ir::ValueType::tensor(DType::f32, kState));
  ops::GraphBuilder builder(*body);
  const ValueId table = body->add_constant(test::random_tensor(DType::f32, {4}, 5, -1, 1), "table");
  ir::set_role(*body, table, ir::ConstantRole::literal);
  const ValueId product = builder.add("MatMul", {x, body->add_constant(w, "w")});
  body->add_output(builder.add("Add", {builder.add("Tanh", {builder.add("Add", {product, h})}), table}));
  return body;
}

// x [5, batch, 4] -> Scan over time -> h V
ir::Graph recurrent() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 5, 4}));
  const ValueId steps = builder.add("Transpose", {x}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
  const ValueId first = builder.add("Gather", {steps, builder.scalar(0, DType::i64)}, {{"axis", std::int64_t{0}}});
  const Tensor w = test::random_tensor(DType::f32, {4, 4}, 1, -1, 1);
  const ValueId h = builder.add("Scan", {first, steps}, {{"body", body(w)}, {"num_scan_inputs", std::int64_t{1}}});
  graph.add_output(
      builder.add("MatMul", {h, graph.add_constant(test::random_tensor(DType::f32, {4, 2}, 2, -1, 1), "v")}));
  return graph;
}

TEST(LiftWeights, LeavesBodiesWithoutWeights) {
  const ir::Graph graph = lift_weights(recurrent());
  const ValueId w = graph.find_value("w");
  ASSERT_TRUE(w.valid());
  EXPECT_FALSE(graph.find_value("table").valid());
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op != "Scan") continue;
    EXPECT_EQ(graph.node(id).captures, 1);
    EXPECT_EQ(graph.node(id).inputs.back(), w);
    const auto inner = ir::subgraphs_of(graph.node(id))[0].second;
    EXPECT_EQ(inner->inputs().size(), 3u);
    EXPECT_FALSE(inner->find_value("w").valid() && inner->is_constant(inner->find_value("w")));
    EXPECT_TRUE(inner->is_constant(inner->find_value("table")));
  }
  EXPECT_TRUE(ir::structurally_equal(graph, lift_weights(graph)));
}

// The weight of a loop's body is trained, and the exported net has the trained one.
TEST(LiftWeights, WeightsOfBodiesAreTrained) {
  TrainingConfig config;
  config.data.train_arrays = {{"x", test::random_tensor(DType::f32, {32, 5, 4}, 3, -1, 1)},
                              {"y", Tensor(DType::i64, {32})}};
  for (std::int64_t i = 0; i < 32; ++i)
    config.data.train_arrays.at("y").mutable_data<std::int64_t>()[i] =
        config.data.train_arrays.at("x").data<float>()[i * 20 + 16] > 0 ? 1 : 0;
  config.data.batch = 16;
  config.optimiser.name = "adam";
  config.optimiser.learning_rate = 0.05;
  config.steps = 60;
  Trainer trainer(Model(std::make_shared<const ir::Graph>(recurrent())), config);
  EXPECT_EQ(trainer.weights().names, (std::vector<std::string>{"v", "w"}));
  const TrainingResult result = trainer.run();
  EXPECT_LT(result.loss, 0.4);
  const Model trained = trainer.model();
  const Tensor* w = trained.graph().constant(trained.graph().find_value("w"));
  ASSERT_NE(w, nullptr);
  EXPECT_NE(w->data<float>()[0], test::random_tensor(DType::f32, {4, 4}, 1, -1, 1).data<float>()[0]);
  // It runs with them.
  Session session(trained);
  EXPECT_EQ(session.run({{"x", config.data.train_arrays.at("x")}}).size(), 1u);
}

}  // namespace
}  // namespace tessera::train::lift_weights_test
