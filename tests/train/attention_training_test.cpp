// Attention in training: one node whose gradient stores no scores, where the model spells it out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/models.h"
#include "ops/core/builder.h"
#include "runtime/session/random_inputs.h"
#include "support/random_tensor.h"
#include "tessera/session.h"
#include "train/net/training_graph.h"

namespace tessera::train::attention_training_test {
namespace {

std::int64_t count(const ir::Graph& graph, const char* op) {
  return std::ranges::count_if(graph.order(), [&](ir::NodeId id) { return graph.node(id).op == op; });
}

TrainingGraphOptions options_for(const ir::Graph& model, bool fuse) {
  TrainingGraphOptions options;
  const ir::ValueInfo& prediction = model.value(model.outputs()[0]);
  options.loss.prediction = prediction.name;
  options.loss.name = "mse";
  options.target_dims = *prediction.type.dims;
  options.target_type = DType::f32;
  options.optimiser.name = "sgd";
  options.optimiser.momentum = 0.9;
  options.fuse_attention = fuse;
  return options;
}

void expect_same_losses(const ir::Graph& model, std::int64_t layers) {
  SCOPED_TRACE(model.name);
  TrainingGraph fused = make_training_graph(model, options_for(model, true));
  TrainingGraph composed = make_training_graph(model, options_for(model, false));
  EXPECT_EQ(count(fused.graph, "tessera::AttentionWithStatistics"), layers);
  EXPECT_EQ(count(fused.graph, "tessera::AttentionGradient"), layers);
  EXPECT_EQ(count(fused.graph, "Softmax"), 0);
  EXPECT_EQ(count(composed.graph, "Softmax"), layers);
  EXPECT_EQ(fused.parameters, composed.parameters);
  const auto model_of = [](TrainingGraph& made) {
    return Model(std::make_shared<const ir::Graph>(std::move(made.graph)));
  };
  const Model step = model_of(fused);
  NamedValues inputs = runtime::random_inputs(step, 1);
  inputs.insert_or_assign("learning_rate", Tensor::scalar(0.01f));
  Session a(step), b(model_of(composed));
  float first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    const NamedValues got = a.run(inputs), want = b.run(inputs);
    for (const char* name : {"loss", "gradient_norm"}) {
      const float x = got.at(name).tensor().data<float>()[0], y = want.at(name).tensor().data<float>()[0];
      EXPECT_NEAR(x, y, (name[0] == 'l' ? 1e-5f : 1e-4f) * std::abs(y)) << name << " in step " << i;
      if (name[0] == 'l') (i == 0 ? first : last) = x;
    }
  }
  EXPECT_LT(last, first);
}

TEST(AttentionTraining, FollowsTheComposedGradients) {
  expect_same_losses(models::build_model("transformer_small", {.dims = {{"batch", 3}, {"seq", 37}}}), 2);
  expect_same_losses(models::build_model("masked_lm", {.dims = {{"batch", 2}, {"seq", 21}}}), 2);
  expect_same_losses(models::build_model("bert_mini", {.dims = {{"batch", 2}, {"seq", 19}}}), 4);
}

// softmax(x (x w)' + mask) x with a mask that is a constant of the model.
ir::Graph masked_by_constant(bool causal) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{2, 1, 5, 4}));
  const ir::ValueId w = graph.add_constant(test::random_tensor(DType::f32, {4, 4}, 1, -1, 1), "w");
  Tensor mask = test::random_tensor(DType::f32, {5, 5}, 2, -1, 1);
  for (std::int64_t i = 0; causal && i < 25; ++i) mask.mutable_data<float>()[i] = i % 5 <= i / 5 ? 0.0f : -1e9f;
  const ir::ValueId keys =
      builder.add("Transpose", {builder.add("MatMul", {x, w})}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
  const ir::ValueId scores = builder.add("Add", {builder.add("MatMul", {x, keys}), graph.add_constant(mask, "mask")});
  const ir::ValueId y = builder.add("MatMul", {builder.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), x});
  graph.value(y).name = "y_hat";
  graph.add_output(y);
  return graph;
}

// softmax(x (x w)') x with dropped weights.
ir::Graph with_dropout(const char* mask) {
  ir::Graph graph = masked_by_constant(mask[0] == 'c');
  ops::GraphBuilder builder(graph);
  const ir::NodeId softmax =
      graph.value(graph.node(graph.value(graph.find_value("y_hat")).producer).inputs[0]).producer;
  const ir::ValueId weights = graph.node(softmax).outputs[0];
  const ir::ValueId dropped =
      builder.add("Dropout", {weights, builder.scalar(0.3), graph.add_constant(Tensor::scalar(true), "trains")},
                  {{"seed", std::int64_t{4}}});
  graph.node(graph.value(graph.find_value("y_hat")).producer).inputs[0] = dropped;
  graph.sort_topologically();
  return graph;
}

// The same numbers are drawn as by Dropout on its own; a mask that may be trained keeps attention spelt out.
TEST(AttentionTraining, DropsWeightsInOneNode) {
  for (const char* mask : {"causal", "trained"}) {
    const ir::Graph model = with_dropout(mask);
    TrainingGraph fused = make_training_graph(model, options_for(model, true));
    TrainingGraph composed = make_training_graph(model, options_for(model, false));
    const bool fuses = mask[0] == 'c';
    EXPECT_EQ(count(fused.graph, "tessera::AttentionWithDropout"), fuses ? 1 : 0);
    EXPECT_EQ(count(fused.graph, "tessera::AttentionGradient"), fuses ? 1 : 0);
    EXPECT_EQ(count(fused.graph, "Softmax"), fuses ? 0 : 1);
    EXPECT_EQ(count(composed.graph, "Dropout"), 1);
    const Model step(std::make_shared<const ir::Graph>(std::move(fused.graph)));
    NamedValues inputs = runtime::random_inputs(step, 1);
    inputs.insert_or_assign("learning_rate", Tensor::scalar(0.05f));
    Session a(step), b(Model(std::make_shared<const ir::Graph>(std::move(composed.graph))));
    for (int i = 0; i < 6; ++i) {
      const NamedValues got = a.run(inputs), want = b.run(inputs);
      for (const char* name : {"loss", "gradient_norm"}) {
        const float x = got.at(name).tensor().data<float>()[0], y = want.at(name).tensor().data<float>()[0];
        EXPECT_NEAR(x, y, 1e-4f * std::abs(y)) << name << " in step " << i << ", mask " << mask;
      }
    }
  }
}

// What exporters write of a causal mask: [length, length] from the shape of the data, the lowest float above the
// diagonal.
ir::Graph masked_by_computation() {
  ir::Graph graph = masked_by_constant(true);
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.find_value("x"), mask = graph.find_value("mask");
  const ir::ValueId length = builder.add("Shape", {x}, {{"start", std::int64_t{2}}, {"end", std::int64_t{3}}});
  const ir::ValueId square = builder.add("Concat", {length, length}, {{"axis", std::int64_t{0}}});
  const Tensor lowest = Tensor::from<float>({1}, std::vector<float>{std::numeric_limits<float>::lowest()});
  const ir::ValueId full = builder.add("ConstantOfShape", {square}, {{"value", lowest}});
  graph.replace_uses(mask, builder.add("Trilu", {full, builder.scalar(1, DType::i64)}, {{"upper", std::int64_t{1}}}));
  graph.sort_topologically();
  graph.remove_dead_and_compact();
  return graph;
}

TEST(AttentionTraining, MasksThatAreComputed) {
  const ir::Graph model = masked_by_computation();
  const TrainingGraph step = make_training_graph(model, options_for(model, true));
  EXPECT_EQ(step.parameters, std::vector<std::string>{"w"});
  EXPECT_EQ(count(step.graph, "tessera::AttentionGradient"), 1);
  expect_same_losses(model, 1);
}

TEST(AttentionTraining, AFrozenPatternMayNameAMask) {
  const ir::Graph model = masked_by_constant(true);
  TrainingGraphOptions options = options_for(model, true);
  options.frozen = {"mask"};
  EXPECT_EQ(make_training_graph(model, options).parameters, std::vector<std::string>{"w"});
  options.fuse_attention = false;
  const TrainingGraph composed = make_training_graph(model, options);
  EXPECT_EQ(composed.parameters, std::vector<std::string>{"w"});
  ASSERT_EQ(composed.untrained.size(), 1u);
  EXPECT_EQ(composed.untrained[0].second, "frozen");
}

// A mask that says no more than "causal" is no weight; another one is trained, by the composed gradient.
TEST(AttentionTraining, MasksThatAreConstants) {
  using Names = std::vector<std::string>;
  for (const bool causal : {true, false}) {
    const ir::Graph model = masked_by_constant(causal);
    const TrainingGraph step = make_training_graph(model, options_for(model, true));
    const TrainingGraph evaluation = make_evaluation_graph(model, options_for(model, true));
    const Names want = causal ? Names{"w"} : Names{"w", "mask"};
    EXPECT_EQ(step.parameters, want);
    EXPECT_EQ(evaluation.parameters, want);
    EXPECT_EQ(count(step.graph, "tessera::AttentionGradient"), causal ? 1 : 0);
    Session session(Model(std::make_shared<const ir::Graph>(step.graph)));
    NamedValues inputs = runtime::random_inputs(Model(std::make_shared<const ir::Graph>(step.graph)), 1);
    inputs.insert_or_assign("learning_rate", Tensor::scalar(0.05f));
    const float first = session.run(inputs).at("loss").tensor().data<float>()[0];
    for (int i = 0; i < 5; ++i) session.run(inputs);
    EXPECT_LT(session.run(inputs).at("loss").tensor().data<float>()[0], first);
  }
}

// A padding mask behind the causal one is no weight either, and both reach the node.
TEST(AttentionTraining, TwoMasksThatAreConstants) {
  ir::Graph model = masked_by_constant(true);
  ops::GraphBuilder builder(model);
  const ir::ValueId weights = model.node(model.value(model.find_value("y_hat")).producer).inputs[0];
  const ir::NodeId softmax = model.value(weights).producer;
  const Tensor padding = Tensor::from<float>({1, 5}, std::vector<float>{0, 0, 0, -1e9f, -1e9f});
  const ir::ValueId padded =
      builder.add("Add", {model.node(softmax).inputs[0], model.add_constant(padding, "padding")});
  model.node(softmax).inputs[0] = padded;
  model.sort_topologically();
  const TrainingGraph step = make_training_graph(model, options_for(model, true));
  EXPECT_EQ(step.parameters, std::vector<std::string>{"w"});
  EXPECT_EQ(count(step.graph, "tessera::AttentionGradient"), 1);
}

// Products that are to be rounded stay on their own.
TEST(AttentionTraining, LeavesRoundedProductsAlone) {
  const ir::Graph model = models::build_model("transformer_small", {.dims = {{"batch", 2}, {"seq", 8}}});
  TrainingGraphOptions options = options_for(model, true);
  options.precision = DType::bf16;
  EXPECT_EQ(count(make_training_graph(model, options).graph, "tessera::AttentionGradient"), 0);
}

}  // namespace
}  // namespace tessera::train::attention_training_test
