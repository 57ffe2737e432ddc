#include "train/net/pruning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "models/models.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "train/net/magnitude_mask.h"
#include "train/net/training_graph.h"
#include "train/run/checkpoint.h"

namespace tessera::train::pruning_test {
namespace {

using test::expect_error_containing;

constexpr std::int64_t kSamples = 64, kFeatures = 16;

std::map<std::string, Tensor> samples() {
  Tensor labels(DType::i64, {kSamples});
  for (std::int64_t i = 0; i < kSamples; ++i) labels.mutable_data<std::int64_t>()[i] = i % 3;
  return {{"input", test::random_tensor(DType::f32, {kSamples, kFeatures}, 3, -1, 1)}, {"y", labels}};
}

Model perceptron() {
  return Model(std::make_shared<const ir::Graph>(
      models::build_model("mlp", {.dims = {{"features", kFeatures}, {"width", 12}, {"classes", 3}}})));
}

TrainingConfig small() {
  TrainingConfig config;
  config.data.train_arrays = samples();
  config.data.test_arrays = samples();
  config.data.batch = 16;
  config.data.workers = 1;
  config.optimiser.name = "adam";
  config.optimiser.learning_rate = 0.01;
  config.steps = 40;
  config.prune.emplace();
  config.prune->sparsity = 0.8;
  config.prune->every = 3;
  return config;
}

Tensor weights_of(const Model& model, const char* name) {
  const ir::ValueId id = model.graph().find_value(name);
  return *model.graph().constant(id);
}

TEST(Pruning, FollowsTheCubicSchedule) {
  EXPECT_DOUBLE_EQ(scheduled_sparsity(0, 0.8, 10, 20, 9), 0);
  EXPECT_DOUBLE_EQ(scheduled_sparsity(0, 0.8, 10, 20, 10), 0);
  EXPECT_DOUBLE_EQ(scheduled_sparsity(0.2, 0.8, 10, 20, 15), 0.8 - 0.6 * 0.125);
  EXPECT_DOUBLE_EQ(scheduled_sparsity(0, 0.8, 10, 20, 20), 0.8);
  EXPECT_DOUBLE_EQ(scheduled_sparsity(0, 0.8, 10, 10, 10), 0.8);
}

TEST(Pruning, ReachesItsTargetsAndKeepsThem) {
  TrainingConfig config = small();
  config.prune->layers = {{"fc2.*", 0.5}};
  config.prune->exclude = {"classifier*"};
  config.average_decay = 0.9;
  Trainer trainer(perceptron(), config);
  trainer.run();
  const Model model = trainer.model();
  EXPECT_NEAR(sparsity_of(weights_of(model, "fc1.weight")), 0.8, 0.5 / (12 * kFeatures));
  EXPECT_DOUBLE_EQ(sparsity_of(weights_of(model, "fc2.weight")), 0.5);
  EXPECT_EQ(sparsity_of(weights_of(model, "classifier.weight")), 0);
  EXPECT_EQ(sparsity_of(weights_of(model, "fc1.bias")), 0);
}

TEST(Pruning, CountsAllLayersTogetherWhereItIsGlobal) {
  TrainingConfig config = small();
  config.prune->scope = "global";
  Trainer trainer(perceptron(), config);
  trainer.run();
  const Model model = trainer.model();
  std::int64_t zeros = 0, all = 0;
  for (const char* name : {"fc1.weight", "fc2.weight", "classifier.weight"}) {
    const Tensor weights = weights_of(model, name);
    zeros += std::ranges::count(weights.values<float>(), 0.0f);
    all += weights.elements();
  }
  EXPECT_NEAR(static_cast<double>(zeros) / static_cast<double>(all), 0.8, 0.5 / static_cast<double>(all));
  EXPECT_NE(sparsity_of(weights_of(model, "fc1.weight")), sparsity_of(weights_of(model, "classifier.weight")));
}

TEST(Pruning, KeepsTwoOfFour) {
  TrainingConfig config = small();
  config.prune->structure = "2:4";
  Trainer trainer(perceptron(), config);
  trainer.run();
  const Tensor weights = weights_of(trainer.model(), "fc1.weight");  // [outputs, inputs]
  for (std::int64_t i = 0; i < weights.elements(); i += 4)
    EXPECT_EQ(std::count(weights.data<float>() + i, weights.data<float>() + i + 4, 0.0f), 2);
}

TEST(Pruning, LeavesTheZerosOfAModelAlone) {
  TrainingConfig config = small();
  Trainer first(perceptron(), config);
  first.run();
  config.prune = PruneOptions{.keep_zeros = true};
  Trainer second(first.model(), config);
  second.run();
  const Tensor before = weights_of(first.model(), "fc1.weight"), after = weights_of(second.model(), "fc1.weight");
  EXPECT_FALSE(identical(before, after));
  for (std::int64_t i = 0; i < before.elements(); ++i)
    EXPECT_EQ(before.data<float>()[i] == 0, after.data<float>()[i] == 0);
}

TEST(Pruning, GoesOnFromACheckpointBitForBit) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.average_decay = 0.9;
  Trainer once(perceptron(), config);
  once.run();
  config.output = folder.path().string();
  {
    Trainer first(perceptron(), config);
    Cancellation stop;
    TrainingHooks hooks;
    hooks.cancellation = &stop;
    hooks.progress = [&](std::int64_t step, std::int64_t) {
      if (step == 17) stop.cancel();
    };
    EXPECT_TRUE(first.run(hooks).interrupted);
  }
  Trainer second(perceptron(), config);
  second.resume(config.output);
  second.run();
  for (const char* name : {"fc1.weight", "fc2.weight", "classifier.weight", "fc1.bias"})
    EXPECT_TRUE(identical(weights_of(once.model(), name), weights_of(second.model(), name))) << name;
}

TEST(Pruning, RefusesWhatDoesNotFit) {
  TrainingConfig config = small();
  config.prune->exclude = {"conv*"};
  expect_error_containing(ErrorKind::invalid_argument, "prune: no weight of a layer has a name like 'conv*'",
                          [&] { Trainer(perceptron(), config); });
  config.prune = PruneOptions{};
  expect_error_containing(ErrorKind::invalid_argument, "prune: there is nothing to prune",
                          [&] { Trainer(perceptron(), config); });
  config.prune = PruneOptions{.sparsity = 0.5, .begin_step = 30, .end_step = 40};
  expect_error_containing(ErrorKind::invalid_argument, "expected an interval within the 40 steps",
                          [&] { Trainer(perceptron(), config); });
  expect_error_containing(ErrorKind::invalid_argument, "prune.sparsity is 1, expected a number in [0, 1)",
                          [] { parse_training_config("[prune]\nsparsity = 1\n", "test"); });
}

TEST(Pruning, IsReadFromTheConfiguration) {
  const TrainingConfig config = parse_training_config(
      "[prune]\nsparsity = 0.9\nstructure = \"2:4\"\nbegin_step = 5\nend_step = 50\nevery = 2\n"
      "exclude = [\"head*\"]\nlayers = { \"fc1*\" = 0.95 }\n",
      "test");
  ASSERT_TRUE(config.prune.has_value());
  EXPECT_EQ(config.prune->sparsity, 0.9);
  EXPECT_EQ(config.prune->structure, "2:4");
  EXPECT_EQ(config.prune->layers.at("fc1*"), 0.95);
  EXPECT_EQ(config.prune->exclude, std::vector<std::string>{"head*"});
  EXPECT_EQ(config.prune->end_step, 50);
  EXPECT_FALSE(parse_training_config("", "test").prune.has_value());
}

}  // namespace
}  // namespace tessera::train::pruning_test
