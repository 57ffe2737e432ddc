#include "train/net/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/core/builder.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/session.h"
#include "tessera/train.h"
#include "train/net/training_graph.h"

namespace tessera::train::batch_norm_test {
namespace {

using ir::ValueId;

constexpr std::int64_t kBatch = 6, kFeatures = 4, kClasses = 3;

// x -> BatchNormalization -> Relu -> Gemm -> logits. With `shared`, as an exporter writes a layer that is not trained
// yet: equal numbers are one constant, passed on by an Identity.
ir::Graph normalised(bool shared) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{kBatch, kFeatures}));
  const auto filled = [&](const char* name, float value) {
    Tensor tensor(DType::f32, {kFeatures});
    for (float& element : tensor.mutable_values<float>()) element = value;
    return graph.add_constant(tensor, name);
  };
  const auto passed = [&](ValueId value, const char* name) {
    const ValueId made = builder.add("Identity", {value});
    graph.value(made).name = name;
    return made;
  };
  const ValueId scale = filled("bn.weight", 1), bias = filled("bn.bias", 0);
  const ValueId mean = shared ? bias : filled("bn.running_mean", 0),
                variance = shared ? passed(scale, "bn.running_var") : filled("bn.running_var", 1);
  const ValueId normal = builder.add("BatchNormalization", {x, scale, bias, mean, variance}, {{"momentum", 0.75f}});
  graph.node(graph.value(normal).producer).name = "bn";
  const ValueId weights = graph.add_constant(test::random_tensor(DType::f32, {kFeatures, kClasses}, 3), "w");
  const ValueId logits = builder.add("Gemm", {builder.add("Relu", {normal}), weights});
  graph.value(logits).name = "logits";
  graph.add_output(logits);
  return graph;
}

TrainingGraphOptions options_of(BatchNorm mode) {
  TrainingGraphOptions options;
  options.batch_norm = mode;
  options.target_dims = {ir::Dim(kBatch)};
  return options;
}

NamedValues batch(float rate) {
  return {{"x", test::random_tensor(DType::f32, {kBatch, kFeatures}, 100, -1, 3)},
          {"y", Tensor::from<std::int64_t>({kBatch}, {0, 1, 2, 0, 1, 2})},
          {"learning_rate", Tensor::scalar(rate)}};
}

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> ops;
  for (const ir::NodeId id : graph.order()) ops.push_back(graph.node(id).op);
  return ops;
}

TEST(TrainBatchNorm, UpdatesRunningStatisticsAndTrainsScaleAndBias) {
  const TrainingGraph made = make_training_graph(normalised(false), options_of(BatchNorm::train));
  EXPECT_EQ(made.parameters, (std::vector<std::string>{"bn.weight", "bn.bias", "w"}));
  EXPECT_EQ(made.statistics, (std::vector<std::string>{"bn.running_mean", "bn.running_var"}));
  const std::vector<std::string> ops = ops_of(made.graph);
  EXPECT_EQ(std::ranges::count(ops, "tessera::BatchNormTraining"), 1);
  EXPECT_EQ(std::ranges::count(ops, "tessera::BatchNormTrainingGradient"), 1);
  EXPECT_EQ(std::ranges::count(ops, "Relu"), 0);
  const Model model(std::make_shared<const ir::Graph>(made.graph));
  for (const char* device : {"reference", "cpu"}) {
    Session session(model, {.device = device});
    const NamedValues inputs = batch(0.5f);
    session.run(inputs);
    const float* x = inputs.at("x").tensor().data<float>();
    for (std::int64_t c = 0; c < kFeatures; ++c) {
      double mean = 0, variance = 0;
      for (std::int64_t i = 0; i < kBatch; ++i) mean += static_cast<double>(x[i * kFeatures + c]) / kBatch;
      for (std::int64_t i = 0; i < kBatch; ++i)
        variance += std::pow(static_cast<double>(x[i * kFeatures + c]) - mean, 2) / kBatch;
      EXPECT_NEAR(session.variable("bn.running_mean").data<float>()[c], 0.25 * mean, 1e-6);
      EXPECT_NEAR(session.variable("bn.running_var").data<float>()[c], 0.75 + 0.25 * variance, 1e-6);
    }
    EXPECT_NE(session.variable("bn.weight").data<float>()[0], 1);
  }
}

TEST(TrainBatchNorm, FrozenStaysConstant) {
  const TrainingGraph made = make_training_graph(normalised(false), options_of(BatchNorm::frozen));
  EXPECT_EQ(made.parameters, (std::vector<std::string>{"w"}));
  EXPECT_TRUE(made.statistics.empty());
  EXPECT_EQ(std::ranges::count(ops_of(made.graph), "BatchNormalization"), 1);
}

TEST(TrainBatchNorm, KeepsStatisticsWhereGradientsOverflow) {
  TrainingGraphOptions options = options_of(BatchNorm::train);
  options.loss_scale.on = true;
  Session session(Model(std::make_shared<const ir::Graph>(make_training_graph(normalised(false), options).graph)),
                  {.device = "reference"});
  NamedValues inputs = batch(0.5f);
  Tensor x = inputs.at("x").tensor().clone();
  x.mutable_data<float>()[0] = NAN;
  inputs["x"] = x;
  session.run(inputs);
  const Tensor kept = session.variable("bn.running_mean");
  for (const float mean : kept.values<float>()) EXPECT_EQ(mean, 0);
  session.run(batch(0.5f));
  EXPECT_NE(session.variable("bn.running_mean").data<float>()[0], 0);
}

// The test data are evaluated, and the net exported, with the statistics that the training gathered.
TEST(TrainBatchNorm, EvaluatesAndExportsRunningStatistics) {
  TrainingConfig config;
  const auto samples = [](std::uint64_t seed) {
    Tensor x = test::random_tensor(DType::f32, {96, kFeatures}, seed, 4, 6), y(DType::i64, {96});
    for (std::int64_t i = 0; i < 96; ++i) {
      y.mutable_data<std::int64_t>()[i] = i % kClasses;
      x.mutable_data<float>()[i * kFeatures + i % kClasses] += 3;
    }
    return std::map<std::string, Tensor>{{"x", x}, {"y", y}};
  };
  config.data.train_arrays = samples(1);
  config.data.test_arrays = samples(2);
  config.data.batch = kBatch;
  config.optimiser.learning_rate = 0.1;
  config.epochs = 20;
  for (const bool shared : {false, true}) {
    Trainer trainer(Model(std::make_shared<const ir::Graph>(normalised(shared))), config);
    trainer.run();
    EXPECT_GT(trainer.evaluate().value, 0.95);
    const Model trained = trainer.model();
    const ir::Graph& graph = trained.graph();
    const Tensor* mean = graph.constant(graph.find_value("bn.running_mean"));
    ASSERT_NE(mean, nullptr);
    EXPECT_NEAR(mean->data<float>()[3], 5, 0.5);  // of the feature that belongs to no class
    Session session(trained);
    const NamedValues outputs =
        session.run(NamedValues{{"x", test::random_tensor(DType::f32, {kBatch, kFeatures}, 3)}});
    EXPECT_EQ(outputs.at("logits").tensor().shape(), (Shape{kBatch, kClasses}));
  }
}

// A residual block whose shortcut is normalised too: its step is the same with the fused kernels, channels last, as on
// the reference device, and follows the numerical gradient.
struct ResidualNet {
  static ir::Graph build() {
    ir::Graph graph;
    ops::GraphBuilder builder(graph);
    const ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{kBatch, 3, 8, 8}));
    std::uint64_t seed = 10;
    const auto weights = [&](const std::string& name, const Shape& shape, double low, double high) {
      return graph.add_constant(test::random_tensor(DType::f32, shape, ++seed, low, high), name);
    };
    const auto layer = [&](ValueId from, const std::string& name, std::int64_t in, std::int64_t kernel) {
      const std::int64_t pad = kernel / 2;
      const ValueId made = builder.add("Conv", {from, weights(name + ".weight", {16, in, kernel, kernel}, -0.3, 0.3)},
                                       {{"pads", std::vector<std::int64_t>{pad, pad, pad, pad}}});
      return builder.add("BatchNormalization",
                         {made, weights(name + ".scale", {16}, 0.5, 1.5), weights(name + ".bias", {16}, -0.2, 0.2),
                          weights(name + ".mean", {16}, 0, 0), weights(name + ".var", {16}, 1, 1)});
    };
    const ValueId first = builder.add("Relu", {layer(x, "a", 3, 3)});
    const ValueId sum = builder.add("Add", {layer(first, "b", 16, 3), layer(x, "shortcut", 3, 1)});
    const ValueId pooled =
        builder.add("MaxPool", {builder.add("Relu", {sum})},
                    {{"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"strides", std::vector<std::int64_t>{2, 2}}});
    const ValueId mean = builder.add("Flatten", {builder.add("GlobalAveragePool", {pooled})});
    const ValueId logits = builder.add("Gemm", {mean, weights("w", {16, kClasses}, -1, 1)});
    graph.value(logits).name = "logits";
    graph.add_output(logits);
    return graph;
  }

  static NamedValues batch(float rate) {
    return {{"x", test::random_tensor(DType::f32, {kBatch, 3, 8, 8}, 5, -1, 3)},
            {"y", Tensor::from<std::int64_t>({kBatch}, {0, 1, 2, 0, 1, 2})},
            {"learning_rate", Tensor::scalar(rate)}};
  }
};

TEST(TrainBatchNorm, StepsOfAResidualNetAreAlikeOnBothDevices) {
  const TrainingGraph made = make_training_graph(ResidualNet::build(), options_of(BatchNorm::train));
  EXPECT_EQ(std::ranges::count(ops_of(made.graph), "Relu"), 0);
  EXPECT_EQ(made.statistics.size(), 6u);
  const Model model(std::make_shared<const ir::Graph>(made.graph));
  Session reference(model, {.device = "reference"}), cpu(model, {.device = "cpu"});
  for (int step = 0; step < 5; ++step) {
    const Tensor expected = reference.run(ResidualNet::batch(0.1f)).at("loss").tensor(),
                 found = cpu.run(ResidualNet::batch(0.1f)).at("loss").tensor();
    EXPECT_TRUE(test::close_to(found, expected, {.relative = 1e-4}));
  }
  for (const auto* names : {&made.parameters, &made.statistics}) {
    for (const std::string& name : *names) {
      EXPECT_TRUE(test::close_to(cpu.variable(name), reference.variable(name), {.relative = 1e-3, .absolute = 1e-4}))
          << name;
    }
  }
}

TEST(TrainBatchNorm, AStepOfAResidualNetFollowsTheNumericalGradient) {
  const TrainingGraph made = make_training_graph(ResidualNet::build(), options_of(BatchNorm::train));
  Session session(Model(std::make_shared<const ir::Graph>(made.graph)), {.device = "cpu"});
  const auto loss_with = [&](const std::string& name, const Tensor& value) {
    session.set_variable(name, value);
    return static_cast<double>(session.run(ResidualNet::batch(0)).at("loss").tensor().data<float>()[0]);
  };
  // Along the gradient itself the loss falls by the gradient's squared norm: Σ (Δw / rate)².
  for (const char* name : {"a.weight", "a.scale", "b.bias", "shortcut.weight", "w"}) {
    std::map<std::string, Tensor> before;
    for (const std::string& each : made.parameters) before[each] = session.variable(each);
    session.run(ResidualNet::batch(1));
    const Tensor after = session.variable(name);
    for (const auto& [each, value] : before) session.set_variable(each, value);
    const Tensor& start = before.at(name);
    Tensor up = start.clone(), down = start.clone();
    double squares = 0;
    for (std::int64_t i = 0; i < start.elements(); ++i) {
      const float slope = start.data<float>()[i] - after.data<float>()[i];
      squares += static_cast<double>(slope) * static_cast<double>(slope);
    }
    const auto step = static_cast<float>(5e-3 / std::sqrt(squares));
    for (std::int64_t i = 0; i < start.elements(); ++i) {
      const float slope = start.data<float>()[i] - after.data<float>()[i];
      up.mutable_data<float>()[i] += step * slope;
      down.mutable_data<float>()[i] -= step * slope;
    }
    const double numeric = (loss_with(name, up) - loss_with(name, down)) / (2 * static_cast<double>(step));
    session.set_variable(name, start);
    EXPECT_NEAR(numeric, squares, 0.02 * squares) << name;
  }
}

// An Identity between each convolution and what follows it, so that nothing is taken up.
ir::Graph apart(ir::Graph graph) {
  ops::GraphBuilder builder(graph);
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    if (graph.node(id).op != "BatchNormalization") continue;
    const ValueId passed = builder.add("Identity", {graph.node(id).inputs[0]});
    graph.node(id).inputs[0] = passed;
  }
  graph.sort_topologically();
  return graph;
}

// With frozen statistics each convolution is one with its normalisation, and trains the same weights.
TEST(FrozenBatchNorm, ConvolutionsTakeItUp) {
  const TrainingGraph taken = make_training_graph(ResidualNet::build(), options_of(BatchNorm::frozen)),
                      other = make_training_graph(apart(ResidualNet::build()), options_of(BatchNorm::frozen));
  EXPECT_EQ(std::ranges::count(ops_of(taken.graph), "BatchNormalization"), 0);
  EXPECT_EQ(std::ranges::count(ops_of(other.graph), "BatchNormalization"), 3);
  EXPECT_EQ(taken.parameters, (std::vector<std::string>{"a.weight", "b.weight", "shortcut.weight", "w"}));
  EXPECT_EQ(other.parameters, taken.parameters);
  Session a(Model(std::make_shared<const ir::Graph>(taken.graph)), {.device = "cpu"}),
      b(Model(std::make_shared<const ir::Graph>(other.graph)), {.device = "cpu"});
  for (int step = 0; step < 6; ++step) {
    const NamedValues found = a.run(ResidualNet::batch(0.1f)), expected = b.run(ResidualNet::batch(0.1f));
    for (const char* name : {"loss", "gradient_norm"})
      EXPECT_TRUE(test::close_to(found.at(name).tensor(), expected.at(name).tensor(), {.relative = 1e-4})) << name;
  }
  for (const std::string& name : taken.parameters)
    EXPECT_TRUE(test::close_to(a.variable(name), b.variable(name), {.relative = 1e-3, .absolute = 1e-4})) << name;
}

TEST(SeparateBatchNorm, GivesEachLayerConstantsOfItsOwn) {
  const ir::Graph graph = separate_batch_norm(normalised(true));
  std::set<std::string> names;
  for (const ValueId id : batch_norm_constants(graph, true)) names.insert(graph.value(id).name);
  EXPECT_EQ(names.size(), 4u);
  EXPECT_TRUE(names.contains("bn.running_mean") && names.contains("bn.running_var"));
  const TrainingGraph made = make_training_graph(normalised(true), options_of(BatchNorm::train));
  EXPECT_EQ(made.statistics, (std::vector<std::string>{"bn.running_mean", "bn.running_var"}));
  const ir::Graph again = separate_batch_norm(graph);
  EXPECT_EQ(batch_norm_constants(again, true), batch_norm_constants(graph, true));
  // The same steps as with constants that were apart from the start.
  Session apart(Model(std::make_shared<const ir::Graph>(
                    make_training_graph(normalised(false), options_of(BatchNorm::train)).graph)),
                {.device = "reference"});
  Session shared(Model(std::make_shared<const ir::Graph>(made.graph)), {.device = "reference"});
  for (int i = 0; i < 3; ++i) {
    const Tensor expected = apart.run(batch(0.1f)).at("loss").tensor(),
                 found = shared.run(batch(0.1f)).at("loss").tensor();
    EXPECT_TRUE(test::close_to(found, expected));
  }
}

}  // namespace
}  // namespace tessera::train::batch_norm_test
