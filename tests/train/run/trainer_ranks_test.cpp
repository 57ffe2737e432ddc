// Ranks as threads of one process train with the bits of one trainer that runs all micro-batches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "dist/thread_ranks.h"
#include "support/error_of.h"
#include "train/run/trainer_support.h"

namespace tessera::train::trainer_ranks_test {
namespace {

using test_training::small;

// x -> Gemm -> BatchNormalization -> Relu -> Dropout -> Gemm -> logits
Model normalised() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  constexpr std::int64_t kWidth = 16;
  const ir::ValueId x = graph.add_input(
      "x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), test_training::kFeatures}));
  const auto weight = [&](const char* name, const Shape& shape, std::uint64_t seed, double least, double most) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed, least, most), name);
  };
  const ir::ValueId first = builder.add("Gemm", {x, weight("w1", {test_training::kFeatures, kWidth}, 1, -0.5, 0.5),
                                                 weight("b1", {kWidth}, 2, -0.5, 0.5)});
  const ir::ValueId norm =
      builder.add("BatchNormalization", {first, weight("scale", {kWidth}, 3, 0.5, 1), weight("bias", {kWidth}, 4, 0, 1),
                                         weight("mean", {kWidth}, 5, -1, 1), weight("variance", {kWidth}, 6, 0.5, 1)});
  const ir::ValueId hidden = builder.add("Dropout", {builder.add("Relu", {norm})});
  const ir::ValueId logits = builder.add("Gemm", {hidden, weight("w2", {kWidth, test_training::kClasses}, 7, -0.5, 0.5),
                                                  weight("b2", {test_training::kClasses}, 8, -0.5, 0.5)});
  graph.value(logits).name = "logits";
  graph.add_output(logits);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

TrainingConfig accumulated(std::int64_t accumulate) {
  TrainingConfig config = small();
  config.data.batch = 8;
  config.accumulate = accumulate;
  config.steps = 9;
  config.evaluate_every = 4;
  config.checkpoint_every = 3;
  return config;
}

struct Trained {
  Checkpoint state;
  std::vector<double> losses, norms, evaluations;
};

Trained train_alone(const Model& net, const TrainingConfig& config, const std::string& from = "") {
  const test::TemporaryFolder folder;
  Trained trained;
  Trainer trainer(net, config);
  if (!from.empty()) trainer.resume(from);
  trainer.run({.step =
                   [&](const StepReport& line) {
                     trained.losses.push_back(line.loss);
                     trained.norms.push_back(line.gradient_norm);
                   },
               .evaluation = [&](const EvaluationReport& line) { trained.evaluations.push_back(line.loss); }});
  trained.state = test_training::state_of(trainer, folder);
  return trained;
}

// What each rank ends with.
std::vector<Trained> train_ranks(int count, const Model& net, const TrainingConfig& config,
                                 const std::string& from = "") {
  const auto ranks = dist::make_thread_ranks(count);
  std::vector<Trained> trained(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const base::CommunicatorNumber number(ranks[rank]);
      TrainingConfig own = config;
      own.communicator = number.value();
      trained[rank] = train_alone(net, own, from);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return trained;
}

void expect_ranks_equal(const Model& net, const TrainingConfig& config, std::initializer_list<int> counts) {
  const Trained alone = train_alone(net, config);
  for (const int count : counts) {
    const std::vector<Trained> all = train_ranks(count, net, config);
    for (const Trained& each : all) {
      test_training::expect_same_state(each.state, alone.state);
      EXPECT_EQ(each.losses, alone.losses) << count;
      EXPECT_EQ(fmt::format("{}", fmt::join(each.norms, " ")), fmt::format("{}", fmt::join(alone.norms, " "))) << count;
    }
    EXPECT_EQ(all[0].evaluations, alone.evaluations);
  }
}

TEST(TrainerRanks, HaveTheBitsOfOneProcess) {
  expect_ranks_equal(normalised(), accumulated(4), {1, 2, 3, 4});
  expect_ranks_equal(normalised(), accumulated(6), {2, 3, 5});
}

TEST(TrainerRanks, HaveThemWithEveryOptimiser) {
  for (const char* name : {"sgd", "adamw", "adagrad", "lars", "lamb"}) {
    TrainingConfig config = accumulated(4);
    config.optimiser.name = name;
    config.optimiser.clip_norm = 0.5;
    config.average_decay = 0.9;
    expect_ranks_equal(normalised(), config, {2, 4});
  }
}

TEST(TrainerRanks, HaveThemInHalfPrecisionThatOverflows) {
  TrainingConfig config = accumulated(4);
  config.precision = "f16";
  config.loss_scale = {.on = true, .initial = 0x1p24, .grow_after = 3};
  const Trained alone = train_alone(normalised(), config);
  EXPECT_GT(alone.state.variables.at("train/skipped").data<std::int64_t>()[0], 0);
  expect_ranks_equal(normalised(), config, {2, 3});
}

TEST(TrainerRanks, GoOnFromCheckpointsOfOtherNumbersOfRanks) {
  const test::TemporaryFolder folder;
  TrainingConfig config = accumulated(4);
  const Trained whole = train_alone(normalised(), config);
  config.output = (folder.path() / "run").string();
  train_ranks(2, normalised(), config);
  config.output.clear();
  const std::string middle = (folder.path() / "run" / checkpoint_name(6)).string();
  test_training::expect_same_state(train_alone(normalised(), config, middle).state, whole.state);
  for (const Trained& each : train_ranks(4, normalised(), config, middle))
    test_training::expect_same_state(each.state, whole.state);
}

TEST(TrainerRanks, NeedABatchForEachRank) {
  const auto ranks = dist::make_thread_ranks(3);
  const base::CommunicatorNumber number(ranks[0]);
  TrainingConfig config = accumulated(2);
  config.communicator = number.value();
  EXPECT_NE(test::error_of([&] { Trainer(normalised(), config); }).find("3 ranks share the 2 batches of a step"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::train::trainer_ranks_test
