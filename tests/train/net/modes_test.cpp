#include "train/net/modes.h"

#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/train.h"

namespace tessera::train::modes_test {
namespace {

using ir::ValueId;

// x [batch, 4] -> BatchNormalization that normalises by its batch -> Dropout that drops -> Gemm, as exporters write a
// net that is in training mode.
ir::Graph in_training_mode(bool drops = true) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 4}));
  const auto constant = [&](const char* name, std::vector<float> values) {
    const auto size = static_cast<std::int64_t>(values.size());
    return graph.add_constant(Tensor::from<float>({size}, values), name);
  };
  std::vector<ValueId> outputs;
  for (const char* name : {"normalised", "new_mean", "new_var"}) outputs.push_back(graph.add_value(name));
  graph.add_node({"BatchNormalization",
                  "norm",
                  {x, constant("norm.weight", {1, 1, 1, 1}), constant("norm.bias", {0, 0, 0, 0}),
                   constant("norm.running_mean", {0, 0, 0, 0}), constant("norm.running_var", {1, 1, 1, 1})},
                  outputs,
                  {{"training_mode", std::int64_t{1}}, {"momentum", 0.9f}},
                  0});
  ops::infer_graph(graph);
  ValueId y = outputs[0];
  if (drops) y = builder.add("Dropout", {y, builder.scalar(0.5), builder.constant(Tensor::scalar(true))});
  const ValueId w = graph.add_constant(test::random_tensor(DType::f32, {4, 2}, 3, -1, 1), "w");
  y = builder.add("Gemm", {y, w, constant("b", {0, 0})});
  graph.value(y).name = "loss";  // as an output of the step is called
  graph.add_output(y);
  return graph;
}

std::map<std::string, Tensor> samples(std::uint64_t seed) {
  Tensor y(DType::i64, {64});
  Tensor x = test::random_tensor(DType::f32, {64, 4}, seed, 2, 4);
  for (std::int64_t i = 0; i < 64; ++i) {
    y.mutable_data<std::int64_t>()[i] = i % 2;
    x.mutable_data<float>()[i * 4] += static_cast<float>(i % 2);
  }
  return {{"x", x}, {"y", y}};
}

TrainingConfig config() {
  TrainingConfig config;
  config.data.train_arrays = samples(1);
  config.data.test_arrays = samples(2);
  config.data.batch = 16;
  config.optimiser.learning_rate = 0.05;
  config.steps = 40;
  return config;
}

bool drops(const ir::Graph& graph) {
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op == "Dropout" && graph.node(id).inputs.size() > 2) return true;
  }
  return false;
}

TEST(Modes, InferenceFormNormalisesByStatisticsAndDropsNothing) {
  const ir::Graph graph = inference_form(in_training_mode());
  EXPECT_FALSE(drops(graph));
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op != "BatchNormalization") continue;
    EXPECT_FALSE(graph.node(id).attributes.contains("training_mode"));
    EXPECT_EQ(graph.node(id).outputs.size(), 1u);
  }
}

// Statistics move, the exported net normalises by them, and what was tested is what it computes.
TEST(Modes, TrainsNetsThatWereExportedInTrainingMode) {
  const Model model(std::make_shared<const ir::Graph>(in_training_mode()));
  Trainer trainer(model, config());
  const TrainingResult result = trainer.run();
  ASSERT_TRUE(result.evaluation.has_value());
  const Model trained = trainer.model();
  EXPECT_FALSE(drops(trained.graph()));
  const Tensor* mean = trained.graph().constant(trained.graph().find_value("norm.running_mean"));
  ASSERT_NE(mean, nullptr);
  EXPECT_NEAR(mean->data<float>()[1], 3, 0.2);
  Session session(trained);
  const std::map<std::string, Tensor> test = samples(2);
  const Tensor logits = session.run({{"x", test.at("x")}}).at("loss").tensor();
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < 64; ++i)
    right += (logits.data<float>()[2 * i + 1] > logits.data<float>()[2 * i]) == i % 2;
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / 64, result.evaluation->value);
  EXPECT_GT(result.evaluation->value, 0.7);
}

TEST(Modes, StatisticsOfFrozenNamesStay) {
  const Model model(std::make_shared<const ir::Graph>(in_training_mode()));
  TrainingConfig frozen = config();
  frozen.model.frozen = {"norm.*"};
  Trainer trainer(model, frozen);
  trainer.run();
  const Model trained = trainer.model();
  const Tensor* mean = trained.graph().constant(trained.graph().find_value("norm.running_mean"));
  EXPECT_EQ(mean->data<float>()[1], 0);
  EXPECT_EQ(trainer.weights().names, (std::vector<std::string>{"w", "b"}));
}

TEST(Modes, DropoutIsTurnedByTheConfiguration) {
  const auto has_mode = [](double dropout) {
    TrainingConfig given = config();
    given.model.dropout = dropout;
    const Trainer trainer(Model(std::make_shared<const ir::Graph>(in_training_mode())), given);
    const ir::Graph& step = trainer.step_model().graph();
    for (const ir::NodeId id : step.order()) {
      if (step.node(id).op == "Dropout")
        return std::pair(*step.constant(step.node(id).inputs[2])->data<bool>(),
                         *step.constant(step.node(id).inputs[1])->data<float>());
    }
    return std::pair(false, -1.0f);
  };
  EXPECT_EQ(has_mode(-1), std::pair(true, 0.5f));
  EXPECT_EQ(has_mode(0.25), std::pair(true, 0.25f));
  EXPECT_FALSE(has_mode(0).first);
  TrainingConfig without = config();
  without.model.dropout = 0.1;
  test::expect_error_containing(ErrorKind::invalid_argument, "the net has no Dropout", [&] {
    Trainer(Model(std::make_shared<const ir::Graph>(in_training_mode(false))), without);
  });
}

}  // namespace
}  // namespace tessera::train::modes_test
