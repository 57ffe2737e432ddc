// Tables that a training step looks rows up in: their gradients are never stored as a whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/core/builder.h"
#include "runtime/session/random_inputs.h"
#include "support/random_tensor.h"
#include "tessera/session.h"
#include "train/net/training_graph.h"

namespace tessera::train::row_gradients_test {
namespace {

std::int64_t count(const ir::Graph& graph, const char* op) {
  return std::ranges::count_if(graph.order(), [&](ir::NodeId id) { return graph.node(id).op == op; });
}

// Rows of a table, and the same once more times nothing where the gradient is to be made as a whole.
ir::Graph look_up(bool twice) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId ids = graph.add_input("ids", ir::ValueType::tensor(DType::i64, ir::Dims{2, 3}));
  const ir::ValueId table = graph.add_constant(test::random_tensor(DType::f32, {20, 4}, 1, -1, 1), "table");
  ir::ValueId y = builder.add("Gather", {table, ids});
  if (twice) y = builder.add("Add", {y, builder.add("Mul", {builder.add("Gather", {table, ids}), builder.scalar(0)})});
  const ir::ValueId w = graph.add_constant(test::random_tensor(DType::f32, {4, 4}, 2, -1, 1), "w");
  const ir::ValueId result = builder.add("MatMul", {y, w});
  graph.value(result).name = "y_hat";
  graph.add_output(result);
  return graph;
}

TrainingGraphOptions options_for(const ir::Graph& model, const OptimiserOptions& optimiser) {
  TrainingGraphOptions options;
  options.loss.prediction = "y_hat";
  options.loss.name = "mse";
  options.target_dims = *model.value(model.outputs()[0]).type.dims;
  options.target_type = DType::f32;
  options.optimiser = optimiser;
  return options;
}

NamedValues inputs_of(std::int64_t first) {
  return {{"ids", Tensor::from<std::int64_t>({2, 3}, {first, 2, 7, 2, 19, -1})},
          {"y", test::random_tensor(DType::f32, {2, 3, 4}, 3, -1, 1)},
          {"learning_rate", Tensor::scalar(0.1f)}};
}

TEST(RowGradients, TrainAsWholeOnesDo) {
  for (const OptimiserOptions& optimiser :
       {OptimiserOptions{.name = "sgd"}, OptimiserOptions{.name = "sgd", .momentum = 0.9, .weight_decay = 0.01},
        OptimiserOptions{.name = "adam"}, OptimiserOptions{.name = "adamw", .weight_decay = 0.01},
        OptimiserOptions{.name = "adagrad", .clip_norm = 0.5}}) {
    SCOPED_TRACE(optimiser.name);
    const ir::Graph model = look_up(false), other = look_up(true);
    TrainingGraph rows = make_training_graph(model, options_for(model, optimiser));
    TrainingGraph whole = make_training_graph(other, options_for(other, optimiser));
    EXPECT_EQ(count(rows.graph, "tessera::RowOptimiserStep"), 1);
    EXPECT_EQ(count(rows.graph, "tessera::ScatterRows"), 0);
    EXPECT_EQ(count(whole.graph, "tessera::RowOptimiserStep"), 0);
    EXPECT_EQ(count(whole.graph, "tessera::ScatterRows"), 2);
    EXPECT_EQ(rows.parameters, whole.parameters);
    Session a(Model(std::make_shared<const ir::Graph>(std::move(rows.graph)))),
        b(Model(std::make_shared<const ir::Graph>(std::move(whole.graph))));
    for (std::int64_t i = 0; i < 6; ++i) {
      const NamedValues got = a.run(inputs_of(i)), want = b.run(inputs_of(i));
      for (const char* name : {"loss", "gradient_norm"}) {
        const float x = got.at(name).tensor().data<float>()[0], y = want.at(name).tensor().data<float>()[0];
        EXPECT_NEAR(x, y, 1e-5f * y) << name << " in step " << i;
      }
    }
  }
}

// Rules that need norms of the whole, and sums over several runs, take whole gradients.
TEST(RowGradients, WholeOnesWhereTheyAreNeeded) {
  const ir::Graph model = look_up(false);
  TrainingGraphOptions options = options_for(model, {.name = "lamb"});
  EXPECT_EQ(count(make_training_graph(model, options).graph, "tessera::ScatterRows"), 1);
  options.optimiser.name = "sgd";
  options.accumulate = 2;
  EXPECT_EQ(count(make_training_graph(model, options).graph, "tessera::ScatterRows"), 1);
}

TEST(RowGradients, LazyRowsAreLeftAlone) {
  const ir::Graph model = look_up(false);
  for (const bool lazy : {false, true}) {
    TrainingGraphOptions options = options_for(model, {.name = "sgd", .momentum = 0.9, .lazy_rows = lazy});
    SessionOptions shared;
    shared.variables = std::make_shared<VariableStore>();
    Session session(Model(std::make_shared<const ir::Graph>(make_training_graph(model, options).graph)), shared);
    session.run(inputs_of(4));  // gives row 4 a momentum
    const Tensor before = shared.variables->get("table");
    session.run(inputs_of(5));
    const Tensor after = shared.variables->get("table");
    const bool stays = std::equal(before.data<float>() + 16, before.data<float>() + 20, after.data<float>() + 16);
    EXPECT_EQ(stays, lazy);
  }
}

}  // namespace
}  // namespace tessera::train::row_gradients_test
