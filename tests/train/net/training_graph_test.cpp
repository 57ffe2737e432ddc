#include "train/net/training_graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::train::training_graph_test {
namespace {

using test::expect_error_containing;

constexpr std::int64_t kBatch = 8, kFeatures = 5, kHidden = 7, kClasses = 3;

// x -> Gemm -> Relu -> Gemm -> logits
ir::Graph two_layers() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{kBatch, kFeatures}));
  const auto weight = [&](const char* name, const Shape& shape, std::uint64_t seed) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed, -0.5, 0.5), name);
  };
  const ir::ValueId hidden = builder.add(
      "Relu", {builder.add("Gemm", {x, weight("w1", {kFeatures, kHidden}, 1), weight("b1", {kHidden}, 2)})});
  const ir::ValueId logits =
      builder.add("Gemm", {hidden, weight("w2", {kHidden, kClasses}, 3), weight("b2", {kClasses}, 4)});
  graph.value(logits).name = "logits";
  graph.add_output(logits);
  return graph;
}

TrainingGraphOptions sgd() {
  TrainingGraphOptions options;
  options.target_dims = {ir::Dim(kBatch)};
  return options;
}

NamedValues batch(std::uint64_t seed, float rate = 0.1f) {
  Tensor y(DType::i64, {kBatch});
  for (std::int64_t i = 0; i < kBatch; ++i)
    y.mutable_data<std::int64_t>()[i] = (i + static_cast<std::int64_t>(seed)) % 3;
  return {{"x", test::random_tensor(DType::f32, {kBatch, kFeatures}, 100 + seed, -1, 1)},
          {"y", y},
          {"learning_rate", Tensor::scalar(rate)}};
}

Model model_of(TrainingGraph made) {
  return Model(std::make_shared<const ir::Graph>(std::move(made.graph)));
}

float scalar(const NamedValues& outputs, const char* name) {
  return outputs.at(name).tensor().data<float>()[0];
}
bool skipped(const NamedValues& outputs) {
  return outputs.at("skipped").tensor().data<bool>()[0];
}

TEST(TrainingGraph, LearnsByEveryOptimiser) {
  for (const auto& [name, rate] :
       {std::pair{"sgd", 0.5f}, {"adam", 0.05f}, {"adamw", 0.05f}, {"adagrad", 0.1f}, {"lamb", 0.05f}}) {
    TrainingGraphOptions options = sgd();
    options.optimiser.name = name;
    Session session(model_of(make_training_graph(two_layers(), options)), {.device = "reference"});
    const float first = scalar(session.run(batch(0, rate)), "loss");
    float last = first;
    for (int i = 0; i < 60; ++i) last = scalar(session.run(batch(0, rate)), "loss");
    EXPECT_LT(last, 0.7f * first) << name;
    EXPECT_EQ(session.variable("train/count").data<std::int64_t>()[0], 61);
  }
}

TEST(TrainingGraph, APlainStepFollowsTheNumericalGradient) {
  Session session(model_of(make_training_graph(two_layers(), sgd())), {.device = "reference"});
  const Tensor before = session.variable("w2");
  const auto loss_with = [&](const Tensor& weights) {
    session.set_variable("w2", weights);
    return scalar(session.run(batch(1, 0)), "loss");
  };
  std::vector<float> slopes;
  constexpr float kStep = 1e-2f;
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{4}, std::int64_t{20}}) {
    Tensor up = before.clone(), down = before.clone();
    up.mutable_data<float>()[i] += kStep;
    down.mutable_data<float>()[i] -= kStep;
    slopes.push_back((loss_with(up) - loss_with(down)) / (2 * kStep));
  }
  session.set_variable("w2", before);
  session.run(batch(1, 1));
  const Tensor after = session.variable("w2");
  std::size_t k = 0;
  for (const std::int64_t i : {0, 4, 20})
    EXPECT_NEAR(before.data<float>()[i] - after.data<float>()[i], slopes[k++], 2e-4f);
}

TEST(TrainingGraph, FrozenWeightsStayConstants) {
  TrainingGraphOptions options = sgd();
  options.frozen = {"*1"};
  const TrainingGraph made = make_training_graph(two_layers(), options);
  EXPECT_EQ(made.parameters, (std::vector<std::string>{"w2", "b2"}));
  options.frozen = {"conv*"};
  expect_error_containing(ErrorKind::invalid_argument, "no weight has a name like 'conv*'",
                          [&] { make_training_graph(two_layers(), options); });
  options.frozen = {"*"};
  expect_error_containing(ErrorKind::invalid_argument, "no float32 weights left to train",
                          [&] { make_training_graph(two_layers(), options); });
}

TEST(TrainingGraph, ClipsTheGlobalNorm) {
  TrainingGraphOptions options = sgd();
  options.optimiser.clip_norm = 0.01;
  Session session(model_of(make_training_graph(two_layers(), options)), {.device = "reference"});
  std::vector<Tensor> before;
  for (const char* name : {"w1", "b1", "w2", "b2"}) before.push_back(session.variable(name));
  const NamedValues outputs = session.run(batch(0, 1));
  EXPECT_GT(scalar(outputs, "gradient_norm"), 0.05f);
  double squares = 0;
  std::size_t k = 0;
  for (const char* name : {"w1", "b1", "w2", "b2"}) {
    const Tensor after = session.variable(name);
    for (std::int64_t i = 0; i < after.elements(); ++i) {
      const double change = after.data<float>()[i] - before[k].data<float>()[i];
      squares += change * change;
    }
    ++k;
  }
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-4);
}

TEST(TrainingGraph, APowerOfTwoAsLossScaleChangesNoBit) {
  TrainingGraphOptions plain = sgd(), scaled = sgd();
  plain.optimiser.name = scaled.optimiser.name = "adam";
  scaled.loss_scale.on = true;
  scaled.loss_scale.grow_after = 3;  // it doubles on the way
  Session a(model_of(make_training_graph(two_layers(), plain)), {.device = "reference"});
  Session b(model_of(make_training_graph(two_layers(), scaled)), {.device = "reference"});
  for (std::uint64_t i = 0; i < 10; ++i) {
    const NamedValues left = a.run(batch(i)), right = b.run(batch(i));
    EXPECT_EQ(scalar(left, "loss"), scalar(right, "loss"));
  }
  for (const char* name : {"w1", "b2", "w1/first", "w1/second"})
    EXPECT_TRUE(identical(a.variable(name), b.variable(name))) << name;
  EXPECT_EQ(b.variable("train/loss_scale").data<float>()[0], 65536 * 8);
}

TEST(TrainingGraph, OverflowSkipsExactlyOneStep) {
  TrainingGraphOptions options = sgd();
  options.optimiser.name = "adam";
  options.loss_scale.on = true;
  Session session(model_of(make_training_graph(two_layers(), options)), {.device = "reference"});
  session.run(batch(0));
  std::vector<Tensor> before;
  for (const char* name : {"w1", "w1/first", "w1/second", "train/count"}) before.push_back(session.variable(name));
  NamedValues bad = batch(1);
  Tensor x = bad.at("x").tensor().clone();
  x.mutable_data<float>()[3] = HUGE_VALF;
  bad["x"] = x;
  EXPECT_TRUE(skipped(session.run(bad)));
  std::size_t k = 0;
  for (const char* name : {"w1", "w1/first", "w1/second", "train/count"})
    EXPECT_TRUE(identical(session.variable(name), before[k++])) << name;
  EXPECT_EQ(session.variable("train/loss_scale").data<float>()[0], 32768);
  EXPECT_FALSE(skipped(session.run(batch(1))));
  EXPECT_EQ(session.variable("train/count").data<std::int64_t>()[0], 2);
}

TEST(TrainingGraph, AccumulatedRunsAreOneUpdateByTheirMean) {
  TrainingGraphOptions options = sgd();
  options.accumulate = 2;
  Session accumulated(model_of(make_training_graph(two_layers(), options)), {.device = "reference"});
  const Tensor initial = accumulated.variable("w2");
  accumulated.run(batch(0));
  EXPECT_TRUE(identical(accumulated.variable("w2"), initial));
  accumulated.run(batch(1));
  const Tensor both = accumulated.variable("w2");
  EXPECT_EQ(accumulated.variable("train/count").data<std::int64_t>()[0], 1);
  // Each batch alone, from the initial weights.
  std::vector<Tensor> alone;
  for (const std::uint64_t seed : {0u, 1u}) {
    Session session(model_of(make_training_graph(two_layers(), sgd())), {.device = "reference"});
    session.run(batch(seed));
    alone.push_back(session.variable("w2"));
  }
  for (std::int64_t i = 0; i < initial.elements(); ++i) {
    EXPECT_NEAR(both.data<float>()[i], (alone[0].data<float>()[i] + alone[1].data<float>()[i]) / 2, 1e-6f);
  }
  accumulated.run(batch(2));
  EXPECT_TRUE(identical(accumulated.variable("w2"), both));
}

TEST(TrainingGraph, KeepsAMovingAverage) {
  TrainingGraphOptions options = sgd();
  options.average_decay = 0.75;
  Session session(model_of(make_training_graph(two_layers(), options)), {.device = "reference"});
  const Tensor initial = session.variable("b2");
  session.run(batch(0));
  const Tensor next = session.variable("b2"), average = session.variable("b2/average");
  for (std::int64_t i = 0; i < kClasses; ++i)
    EXPECT_NEAR(average.data<float>()[i], 0.75f * initial.data<float>()[i] + 0.25f * next.data<float>()[i], 1e-7f);
}

TEST(TrainingGraph, SaysWhatIsWrong) {
  TrainingGraphOptions options = sgd();
  const auto refuses = [&](const std::string& text) {
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { make_training_graph(two_layers(), options); });
  };
  options.loss.prediction = "scores";
  refuses("the model has no output 'scores'; its outputs are 'logits'");
  options = sgd();
  options.optimiser.momentum = 1;
  refuses("momentum is 1, expected a number in [0, 1)");
  options = sgd();
  options.accumulate = 0;
  refuses("accumulate is 0");
  options = sgd();
  options.loss_scale = {.on = true, .initial = 1000};
  refuses("expected powers of two");
  options = sgd();
  options.optimiser.name = "adan";
  expect_error_containing(ErrorKind::invalid_model, "algorithm is 'adan'",
                          [&] { make_training_graph(two_layers(), options); });
}

}  // namespace
}  // namespace tessera::train::training_graph_test
