#include "train/untrained.h"

#include <gtest/gtest.h>

#include "ops/builder.h"
#include "support/random_tensor.h"
#include "train/training_graph.h"

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
  std::vector<std::string> computed;
  const ir::Graph after = compute_untrained(graph, computed);
  EXPECT_EQ(computed, std::vector<std::string>{"three"});
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

}  // namespace
}  // namespace tessera::train::untrained_test
