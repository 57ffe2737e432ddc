#include "train/net/untrained.h"

#include <gtest/gtest.h>

#include "ir/constant_role.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "train/net/training_graph.h"

namespace tessera::train::untrained_test {
namespace {

// x [2, 3, 4, 4] -> Resize by factors -> times w -> plus what is added
ir::Graph net(const Tensor& added) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{2, 3, 4, 4}));
  const ir::ValueId factors = graph.add_constant(Tensor::from<float>({4}, std::vector<float>{1, 1, 2, 2}), "factors");
  const ir::ValueId wide = builder.add("Resize", {x, {}, factors});
  const ir::ValueId w = graph.add_constant(test::random_tensor(DType::f32, {3, 1, 1}, 1, -1, 1), "w");
  const ir::ValueId y = builder.add("Add", {builder.add("Mul", {wide, w}), graph.add_constant(added, "added")});
  graph.add_output(y);
  return graph;
}

TrainingGraph step_of(const Tensor& added) {
  TrainingGraphOptions options;
  options.loss.name = "mse";
  options.target_type = DType::f32;
  options.target_dims = {2, 3, 8, 8};
  return make_training_graph(net(added), options);
}

TEST(Untrained, SettingsAndMasksStay) {
  using Names = std::vector<std::string>;
  using Reasons = std::vector<std::pair<std::string, std::string>>;
  const TrainingGraph masked = step_of(Tensor::from<float>({8}, std::vector<float>{0, 0, 0, 0, 0, 0, 0, -1e9f}));
  EXPECT_EQ(masked.parameters, Names{"w"});
  EXPECT_EQ(masked.untrained, (Reasons{{"factors", "a setting of Resize"}, {"added", "a mask"}}));
  const TrainingGraph biased = step_of(Tensor::from<float>({1}, std::vector<float>{-9999}));
  EXPECT_EQ(biased.parameters, (Names{"w", "added"}));
  EXPECT_EQ(biased.untrained, (Reasons{{"factors", "a setting of Resize"}}));
}

TEST(Untrained, ComputesNothingFromWeights) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId w = graph.add_constant(test::random_tensor(DType::f32, {4}, 1, -1, 1), "w");
  const ir::ValueId twice = builder.add("Add", {w, w});
  const ir::ValueId three = builder.add("Range", {builder.scalar(0), builder.scalar(4), builder.scalar(1)});
  const ir::ValueId sum = builder.add("Add", {twice, three});
  graph.value(three).name = "three";
  graph.value(twice).name = "twice";
  graph.add_output(sum);
  const ir::Graph after = compute_untrained(graph, {});
  EXPECT_EQ(ir::role_of(after, after.find_value("three")), ir::ConstantRole::computed);
  EXPECT_FALSE(after.is_constant(after.find_value("twice")));
  EXPECT_TRUE(after.is_constant(after.find_value("three")));
}

TEST(Untrained, ComputesSettingsThatAreJoined) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{2, 3, 4, 4}));
  const ir::ValueId planes = graph.add_constant(Tensor::from<float>({2}, {1, 1}), "planes");
  const ir::ValueId sizes = graph.add_constant(Tensor::from<float>({2}, {2, 2}), "sizes");
  const ir::ValueId factors = builder.add("Concat", {planes, sizes}, {{"axis", std::int64_t{0}}});
  graph.value(factors).name = "factors";
  const ir::ValueId wide = builder.add("Resize", {x, {}, factors});
  const ir::ValueId w = graph.add_constant(test::random_tensor(DType::f32, {3, 1, 1}, 1, -1, 1), "w");
  graph.add_output(builder.add("Mul", {wide, w}));
  TrainingGraphOptions options;
  options.loss.name = "mse";
  options.target_type = DType::f32;
  options.target_dims = {2, 3, 8, 8};
  EXPECT_EQ(make_training_graph(graph, options).parameters, std::vector<std::string>{"w"});
}

// x [2, 3] times `scale`, plus `shift`, plus the product of two tables, each with its role.
ir::Graph marked(ir::ConstantRole scale, ir::ConstantRole shift, ir::ConstantRole tables) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{2, 3}));
  const auto constant = [&](const char* name, ir::ConstantRole role) {
    const ir::ValueId id = graph.add_constant(test::random_tensor(DType::f32, {3}, 1, -1, 1), name);
    ir::set_role(graph, id, role);
    return id;
  };
  const ir::ValueId table = builder.add("Mul", {constant("table.a", tables), constant("table.b", tables)});
  const ir::ValueId y =
      builder.add("Add", {builder.add("Mul", {x, constant("scale", scale)}), constant("shift", shift)});
  graph.add_output(builder.add("Add", {y, builder.add("Sin", {table})}));
  return graph;
}

TrainingGraph step_of(const ir::Graph& graph, std::vector<std::string> frozen, std::vector<std::string> trained) {
  TrainingGraphOptions options;
  options.loss.name = "mse";
  options.target_type = DType::f32;
  options.target_dims = {2, 3};
  options.frozen = std::move(frozen);
  options.trained = std::move(trained);
  return make_training_graph(graph, options);
}

TEST(Untrained, WhatTheExporterSaysIsBelieved) {
  using Names = std::vector<std::string>;
  using Reasons = std::vector<std::pair<std::string, std::string>>;
  using enum ir::ConstantRole;
  const TrainingGraph step = step_of(marked(parameter, buffer, literal), {}, {});
  EXPECT_EQ(step.parameters, Names{"scale"});
  EXPECT_EQ(step.reasons, Names{"a parameter, as the exporter says"});
  // What is computed from the tables is computed before the training, and is not listed.
  EXPECT_EQ(step.untrained, (Reasons{{"shift", "a buffer, as the exporter says"}}));
  EXPECT_EQ(step_of(marked(unmarked, literal, literal), {}, {}).parameters, Names{"scale"});
}

TEST(Untrained, PatternsTurnEitherWay) {
  using Names = std::vector<std::string>;
  using Reasons = std::vector<std::pair<std::string, std::string>>;
  using enum ir::ConstantRole;
  const ir::Graph graph = marked(parameter, buffer, literal);
  const TrainingGraph step = step_of(graph, {"sc*"}, {"shift", "table.a"});
  EXPECT_EQ(step.parameters, (Names{"table.a", "shift"}));
  EXPECT_EQ(step.reasons, Names(2, "named by model.trained"));
  EXPECT_EQ(step.untrained,
            (Reasons{{"table.b", "a constant of the program, as the exporter says"}, {"scale", "frozen"}}));
  // Where both name a weight it is trained: everything but a part is frozen.
  EXPECT_EQ(step_of(graph, {"*"}, {"scale"}).parameters, Names{"scale"});
  test::expect_error_containing(ErrorKind::invalid_argument, "trained: no weight has a name like 'shfit'",
                                [&] { step_of(graph, {}, {"shfit"}); });
  test::expect_error_containing(ErrorKind::invalid_argument, "model.trained names those",
                                [&] { step_of(marked(buffer, buffer, buffer), {}, {}); });
}

TEST(Untrained, ScalarsAmongPyTorchsInitializersAreParameters) {
  using Names = std::vector<std::string>;
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{2, 3}));
  const ir::ValueId half = builder.constant(Tensor::scalar(0.5f), "half");
  ir::set_role(graph, half, ir::ConstantRole::literal);
  const ir::ValueId scaled = builder.add("Mul", {x, builder.constant(Tensor::scalar(2.0f), "alpha")});
  const ir::ValueId w = graph.add_constant(test::random_tensor(DType::f32, {3}, 1, -1, 1), "w");
  graph.add_output(builder.add("Mul", {builder.add("Add", {scaled, half}), w}));
  EXPECT_EQ(step_of(graph, {}, {}).parameters, Names{"w"});
  graph.metadata["producer_name"] = "pytorch";
  EXPECT_EQ(step_of(graph, {}, {}).parameters, (Names{"alpha", "w"}));
}

// What only a comparison reads has no gradient, and weight decay would change it.
TEST(Untrained, WhatNoGradientReachesIsNotTrained) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{2, 3}));
  const ir::ValueId limits = builder.constant(Tensor::from<float>({3}, {0, 1, 0}), "limits");
  const ir::ValueId w = graph.add_constant(test::random_tensor(DType::f32, {3}, 1, -1, 1), "w");
  graph.add_output(builder.add("Where", {builder.add("Greater", {x, limits}), builder.add("Mul", {x, w}), x}));
  const TrainingGraph step = step_of(graph, {}, {});
  EXPECT_EQ(step.parameters, std::vector<std::string>{"w"});
  EXPECT_EQ(step.untrained[0], std::pair(std::string("limits"), std::string("no gradient reaches it")));
}

}  // namespace
}  // namespace tessera::train::untrained_test
