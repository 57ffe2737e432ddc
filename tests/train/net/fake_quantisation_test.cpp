#include "train/net/fake_quantisation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "train/net/fake_quantisation_nets.h"
#include "train/net/training_graph.h"
#include "train/run/checkpoint.h"

namespace tessera::train::fake_quantisation_test {
namespace {

using namespace fake_quantisation_nets;

// --- gradients ---

// y = x · w, whose squared error is trained.
struct Product {
  static constexpr std::int64_t kRows = 5, kInputs = 6, kOutputs = 2;
  Tensor x = test::random_tensor(DType::f32, {kRows, kInputs}, 1, -1, 1);
  Tensor w = test::random_tensor(DType::f32, {kInputs, kOutputs}, 2, -1, 1);
  Tensor target = test::random_tensor(DType::f32, {kRows, kOutputs}, 3, -1, 1);

  ir::Graph graph() const {
    ir::Graph graph;
    ops::GraphBuilder builder(graph);
    const ir::ValueId given = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{kRows, kInputs}));
    const ir::ValueId y = builder.add("MatMul", {given, graph.add_constant(w, "w")});
    graph.value(y).name = "y_hat";
    graph.add_output(y);
    return graph;
  }
};

// Esser et al., arXiv:1902.08153: the gradient of a step is round(w/s) − w/s within the range, and ±q beyond it.
TEST(FakeQuantisation, GradientsAreThoseOfLearnedSteps) {
  const Product product;
  TrainingGraphOptions options = graph_options({.weights = 4, .activations = 0});
  options.loss.name = "mse";
  options.target_type = DType::f32;
  options.target_dims = {Product::kRows, Product::kOutputs};
  Session session(model_of(make_training_graph(product.graph(), options).graph));
  const auto inputs = [&](float rate) {
    return NamedValues{{"x", product.x}, {"y", product.target}, {"learning_rate", Tensor::scalar(rate)}};
  };
  session.run(inputs(0));
  constexpr float kFactor = 0.6f;  // clips the largest weights
  session.set_variable(weight_factor_of("w"), Tensor::from<float>({2}, std::vector<float>{kFactor, kFactor}));
  const Tensor seen = session.variable(weight_step_of("w")).clone();
  session.run(inputs(1));
  const Tensor w = session.variable("w"), factors = session.variable(weight_factor_of("w"));
  int clipped = 0;
  for (std::int64_t c = 0; c < 2; ++c) {
    const double step = static_cast<double>(seen.data<float>()[c] * kFactor);
    std::vector<double> rounded(Product::kInputs);
    for (std::size_t i = 0; i < rounded.size(); ++i)
      rounded[i] =
          step *
          std::clamp(
              std::nearbyint(static_cast<double>(product.w.data<float>()[2 * i + static_cast<std::size_t>(c)]) / step),
              -7.0, 7.0);
    double of_factor = 0;
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      double of_weight = 0;
      for (std::int64_t n = 0; n < Product::kRows; ++n) {
        const float* row = product.x.data<float>() + n * Product::kInputs;
        double y = 0;
        for (std::size_t k = 0; k < rounded.size(); ++k) y += static_cast<double>(row[k]) * rounded[k];
        const double error = y - static_cast<double>(product.target.data<float>()[2 * n + c]);
        of_weight += 2 * error * static_cast<double>(row[i]) / (Product::kRows * Product::kOutputs);
      }
      const std::size_t at = 2 * i + static_cast<std::size_t>(c);
      const double code = static_cast<double>(product.w.data<float>()[at]) / step;
      const bool within = std::abs(code) <= 7;
      clipped += within ? 0 : 1;
      of_factor += static_cast<double>(seen.data<float>()[c]) * of_weight *
                   (within ? std::nearbyint(code) - code : std::copysign(7.0, code));
      const double moved = static_cast<double>(product.w.data<float>()[at] - w.data<float>()[at]);
      EXPECT_NEAR(moved, within ? of_weight : 0, 1e-5) << at;
    }
    EXPECT_NEAR(static_cast<double>(kFactor - factors.data<float>()[c]), of_factor, 1e-5) << c;
  }
  EXPECT_GT(clipped, 0);
}

TEST(FakeQuantisation, EveryWeightAndFactorLearns) {
  const TrainingGraph made = make_training_graph(sized_net(), graph_options({.weights = 4}));
  Session session(model_of(made.graph));
  session.run(batch(5, 0));
  std::map<std::string, Tensor> before;
  for (const std::string& name : made.parameters) before[name] = session.variable(name).clone();
  session.run(batch(5, 0.1f));
  int factors = 0;
  for (const auto& [name, value] : before) {
    if (name == "conv2.bias") continue;  // the mean of the batch takes it away
    factors += is_range_factor(name) ? 1 : 0;
    EXPECT_NE(std::memcmp(value.raw(), session.variable(name).raw(), static_cast<std::size_t>(value.bytes())), 0)
        << name << " stayed as it was";
  }
  EXPECT_EQ(factors, 8);  // of weights and data of four layers
}

// --- ranges ---

TEST(FakeQuantisation, AveragesWhatItObserves) {
  Session session = session_of(graph_options({.ranges = "averaged", .range_decay = 0.75}));
  double low = 0, high = 0;
  for (std::uint64_t run = 0; run < 3; ++run) {
    const NamedValues inputs = batch(20 + run, 0);
    session.run(inputs);
    const auto values = inputs.at("x").tensor().values<float>();
    const double least = *std::ranges::min_element(values), most = *std::ranges::max_element(values);
    low = run == 0 ? least : 0.75 * low + 0.25 * least;
    high = run == 0 ? most : 0.75 * high + 0.25 * most;
  }
  EXPECT_NEAR(session.variable(input_low_of("conv1")).data<float>()[0], low, 1e-6);
  EXPECT_NEAR(session.variable(input_high_of("conv1")).data<float>()[0], high, 1e-6);
}

TEST(FakeQuantisation, RoundsFromItsFirstStepOn) {
  Session rounds = session_of(graph_options({.weights = 4, .start_step = 2}));
  TrainingGraphOptions exact = graph_options({});
  exact.compress.reset();
  Session floats = session_of(exact);
  for (std::uint64_t run = 0; run < 4; ++run) {
    const float with = loss_of(rounds, batch(run, 0)), without = loss_of(floats, batch(run, 0));
    if (run < 2) EXPECT_NEAR(with, without, 1e-6f * without) << run;
    else EXPECT_GT(std::abs(with - without), 1e-4f * without) << run;
  }
}

TEST(FakeQuantisation, FreezesStatisticsLate) {
  for (const char* norm : {"kept", "folded"}) {
    Session session = session_of(graph_options({.ranges = "averaged", .batch_norm = norm, .freeze_step = 2}));
    const auto state = [&] {
      std::vector<float> values;
      for (const std::string& name :
           {std::string("norm1.mean"), std::string("norm2.variance"), input_high_of("conv1")}) {
        const Tensor now = session.variable(name);
        const auto part = now.values<float>();
        values.insert(values.end(), part.begin(), part.end());
      }
      return values;
    };
    session.run(batch(1, 0));
    const std::vector<float> first = state();
    session.run(batch(2, 0));
    const std::vector<float> second = state();
    session.run(batch(3, 0));
    EXPECT_NE(first, second) << norm;
    EXPECT_EQ(second, state()) << norm;
  }
}

// With 8 bits the net computes nearly what the float net does, and its running statistics follow the same batches.
TEST(FakeQuantisation, FoldsNormalisationOfTheBatch) {
  TrainingGraphOptions exact = graph_options({});
  exact.compress.reset();
  Session floats = session_of(exact), folded = session_of(graph_options({.batch_norm = "folded"}));
  const NamedValues inputs = batch(4, 0);
  const float expected = loss_of(floats, inputs), found = loss_of(folded, inputs);
  EXPECT_NEAR(found, expected, 0.05f * expected);
  for (const char* name : {"norm1.mean", "norm1.variance", "norm2.mean", "norm2.variance"}) {
    const Tensor a = floats.variable(name), b = folded.variable(name);
    for (std::int64_t i = 0; i < kWidth; ++i) EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 0.01f) << name;
  }
}

// --- with the rest of training ---

TEST(FakeQuantisation, LearnsPrunedAndTaughtAndResumesBitForBit) {
  const test::TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  TrainingConfig config = config_with({.weights = 4, .start_step = 4});
  config.prune.emplace();
  config.prune->sparsity = 0.5;
  config.teacher.emplace();
  config.teacher->model = model_of(small_net());
  config.average_decay = 0.5;
  config.accumulate = 2;
  Trainer whole(model_of(small_net()), config);
  const TrainingResult result = whole.run();
  EXPECT_TRUE(std::isfinite(result.loss));
  Cancellation stop;
  TrainingHooks hooks;
  hooks.cancellation = &stop;
  hooks.progress = [&](std::int64_t step, std::int64_t) {
    if (step == 11) stop.cancel();
  };
  Trainer first(model_of(small_net()), config);
  EXPECT_TRUE(first.run(hooks).interrupted);
  first.save(path("half.npz"));
  Trainer second(model_of(small_net()), config);
  second.resume(path("half.npz"));
  second.run();
  whole.save(path("a.npz"));
  second.save(path("b.npz"));
  const Checkpoint once = read_checkpoint(path("a.npz")), twice = read_checkpoint(path("b.npz"));
  ASSERT_EQ(once.variables.size(), twice.variables.size());
  for (const auto& [name, value] : once.variables)
    EXPECT_EQ(std::memcmp(value.raw(), twice.variables.at(name).raw(), static_cast<std::size_t>(value.bytes())), 0)
        << name;
  // Half of the codes of a pruned layer are zero.
  const ir::Graph exported = whole.model().graph();
  const ir::ValueId codes = exported.find_value("fc1_quantised");
  ASSERT_TRUE(codes.valid());
  const Tensor packed = *exported.constant(codes);
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < packed.elements(); ++i) {
    const auto byte = static_cast<const std::uint8_t*>(packed.raw())[i / 2];
    zeros += ((byte >> (i % 2 * 4)) & 0xF) == 0 ? 1 : 0;
  }
  EXPECT_GE(zeros, packed.elements() / 2);
}

TEST(FakeQuantisation, ComputesTheSameWithAnyNumberOfThreads) {
  std::vector<Tensor> found;
  for (const int threads : {1, 3}) {
    TrainingConfig config = config_with({.weights = 4, .batch_norm = "folded", .freeze_step = 10});
    config.threads = threads;
    Trainer trainer(model_of(small_net()), config);
    trainer.run();
    found.push_back(Session(trainer.model()).run({{"x", samples(2).at("x")}}).at("logits").tensor().clone());
  }
  EXPECT_EQ(std::memcmp(found[0].raw(), found[1].raw(), static_cast<std::size_t>(found[0].bytes())), 0);
}

}  // namespace
}  // namespace tessera::train::fake_quantisation_test
