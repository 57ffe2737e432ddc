#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "backends/backend_table.h"
#include "backends/device_activity.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/train.h"
#include "train/run/checkpoint.h"
#include "train/run/trainer_support.h"

namespace tessera::train::trainer_test {
namespace {

using test::expect_error_containing;

using namespace test_training;

TEST(Trainer, LearnsAndReports) {
  Trainer trainer(two_layers(), small());
  std::vector<StepReport> lines;
  std::int64_t last_step = 0;
  TrainingHooks hooks;
  hooks.step = [&](const StepReport& line) { lines.push_back(line); };
  hooks.progress = [&](std::int64_t step, std::int64_t steps) {
    last_step = step;
    EXPECT_EQ(steps, 60);
  };
  const TrainingResult result = trainer.run(hooks);
  ASSERT_EQ(lines.size(), 60u);
  EXPECT_EQ(last_step, 60);
  EXPECT_LT(lines.back().loss, 0.5 * lines.front().loss);
  ASSERT_TRUE(result.evaluation.has_value());
  EXPECT_EQ(result.evaluation->metric, "accuracy");
  EXPECT_GT(result.evaluation->value, 0.85);
  EXPECT_EQ(result.evaluation->samples, kSamples);
  EXPECT_EQ(result.samples, 60 * 16);
  EXPECT_FALSE(result.interrupted);
  // The exported net is the one that was tested.
  Session session(trainer.model());
  const Tensor logits = session.run({{"x", clusters(2).at("x")}}).at("logits").tensor();
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const float* row = logits.data<float>() + i * kClasses;
    right += std::max_element(row, row + kClasses) - row == i % kClasses;
  }
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / kSamples, result.evaluation->value);
}

TEST(Trainer, GoesOnFromACheckpointBitForBit) {
  const test::TemporaryFolder whole, parts;
  TrainingConfig config = small();
  config.average_decay = 0.9;
  config.accumulate = 2;
  config.data.mixup = 0;
  Trainer once(two_layers(), config);
  once.run();
  config.output = parts.path().string();
  config.checkpoint_every = 7;
  {
    Trainer first(two_layers(), config);
    Cancellation stop;
    TrainingHooks hooks;
    hooks.cancellation = &stop;
    hooks.progress = [&](std::int64_t step, std::int64_t) {
      if (step == 23) stop.cancel();
    };
    const TrainingResult result = first.run(hooks);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.steps, 23);
  }
  Trainer second(two_layers(), config);
  second.resume(config.output);
  EXPECT_EQ(second.run().steps, 60);
  expect_same_state(state_of(once, whole), state_of(second, whole));
  EXPECT_EQ(checkpoints_in(parts.path()).size(), 2u);
}

TEST(Trainer, PassesOverADamagedCheckpoint) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.output = folder.path().string();
  config.steps = 20;
  config.checkpoint_every = 10;
  Trainer(two_layers(), config).run();
  const std::filesystem::path newest = checkpoints_in(folder.path()).at(0);
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
  EXPECT_EQ(newest_checkpoint(folder.path()).step, 10);
  expect_error_containing(ErrorKind::not_found, "there is no checkpoint in",
                          [&] { newest_checkpoint(test::TemporaryFolder().path()); });
}

TEST(Trainer, SaysHowACheckpointOfAnotherTrainingDiffers) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.steps = 5;
  const auto resumes = [&](const TrainingConfig& other, const Model& net) {
    Trainer(net, other).resume((folder.path() / "state.npz").string());
  };
  {
    Trainer adam(two_layers(), config);
    adam.save((folder.path() / "state.npz").string());
  }
  TrainingConfig sgd = config;
  sgd.optimiser.name = "sgd";
  expect_error_containing(ErrorKind::invalid_argument, "another optimiser, or", [&] { resumes(sgd, two_layers()); });
  TrainingConfig averaged = config;
  averaged.average_decay = 0.9;
  expect_error_containing(ErrorKind::invalid_argument, "it has no 'w1/average' and 3 more",
                          [&] { resumes(averaged, two_layers()); });
  TrainingConfig frozen = config;
  frozen.model.frozen = {"b1"};
  expect_error_containing(ErrorKind::invalid_argument, "another net: only it has 'b1'",
                          [&] { resumes(frozen, two_layers()); });
  expect_error_containing(ErrorKind::invalid_argument, "'w1' is f32[8, 16] there, but f32[8, 24] here",
                          [&] { resumes(config, two_layers(24)); });
}

TEST(Trainer, TheBestOfAPrunedNetHasItsSparsity) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.output = folder.path().string();
  config.evaluate_every = 5;
  config.optimiser.learning_rate = 0;  // the first evaluation would stay the best one
  config.prune.emplace();
  config.prune->sparsity = 0.5;
  config.prune->end_step = 40;
  const TrainingResult result = Trainer(two_layers(), config).run();
  ASSERT_TRUE(result.best.has_value());
  EXPECT_GT(result.best->step, 40);
  const Model best = Model::load((folder.path() / "best.onnx").string());
  const Tensor* w = best.graph().constant(best.graph().find_value("w1"));
  EXPECT_EQ(std::ranges::count(w->values<float>(), 0.0f), kFeatures * 16 / 2);
}

TEST(Trainer, HasTheSameBitsForAnyNumberOfThreadsAndWorkers) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.steps = 25;
  config.threads = 1;
  config.data.workers = 0;
  Trainer one(two_layers(), config);
  one.run();
  const Checkpoint expected = state_of(one, folder);
  for (const int threads : {2, 3}) {
    config.threads = threads;
    config.data.workers = threads;
    Trainer other(two_layers(), config);
    other.run();
    expect_same_state(expected, state_of(other, folder));
  }
}

TEST(Trainer, APowerOfTwoAsLossScaleChangesNoBit) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.steps = 25;
  Trainer plain(two_layers(), config);
  plain.run();
  config.loss_scale.on = true;
  config.loss_scale.initial = 1024;
  config.loss_scale.grow_after = 1000;
  Trainer scaled(two_layers(), config);
  scaled.run();
  const Checkpoint a = state_of(plain, folder), b = state_of(scaled, folder);
  for (const char* name : {"w1", "b1", "w2", "b2", "w1/first", "w2/second"}) {
    const Tensor &x = a.variables.at(name), &y = b.variables.at(name);
    EXPECT_EQ(std::memcmp(x.raw(), y.raw(), static_cast<std::size_t>(x.bytes())), 0) << name;
  }
}

TEST(Trainer, AnOverflowSkipsOneStepAndHalvesTheScale) {
  TrainingConfig config = small();
  config.steps = 10;
  config.precision = "f16";
  config.loss_scale.on = true;
  // The gradients of the logits overflow f16 at the first scale alone.
  config.loss_scale.initial = 0x1p20;
  const test::TemporaryFolder folder;
  Trainer trainer(two_layers(), config);
  const TrainingResult result = trainer.run();
  const Checkpoint state = state_of(trainer, folder);
  EXPECT_GE(result.skipped_steps, 1);
  EXPECT_LT(result.skipped_steps, 8);
  EXPECT_EQ(state.variables.at("train/count").data<std::int64_t>()[0], 10 - result.skipped_steps);
  EXPECT_EQ(state.variables.at("train/loss_scale").data<float>()[0],
            std::ldexp(1.0f, 20 - static_cast<int>(result.skipped_steps)));
}

TEST(Trainer, NamesTheFirstTensorThatIsNotFinite) {
  TrainingConfig config = small();
  config.data.train_arrays.at("x").mutable_data<float>()[3 * kFeatures + 1] = NAN;
  Trainer trainer(two_layers(), config);
  expect_error_containing(ErrorKind::failed, "the data: input 'x' is nan at [1] in the training data sample 3",
                          [&] { trainer.run(); });
  config = small();
  config.optimiser.name = "sgd";
  config.optimiser.learning_rate = 1e30;
  Trainer diverging(two_layers(), config);
  expect_error_containing(ErrorKind::failed, "The training diverged", [&] { diverging.run(); });
}

TEST(Trainer, SaysHowAStepWouldFit) {
  TrainingConfig config = small();
  config.steps = 2;
  config.data.train_arrays.clear();
  config.data.test_arrays.clear();
  config.data.train_arrays = {{"input", test::random_tensor(DType::f32, {64, 3, 32, 32}, 1, -1, 1)},
                              {"y", Tensor(DType::i64, {64})}};
  std::ranges::fill(config.data.train_arrays.at("y").mutable_values<std::int64_t>(), std::int64_t{1});
  config.data.batch = 64;
  config.memory_limit_bytes = std::int64_t{42} << 20;
  config.model.builder = "resnet8";
  Trainer trainer(config);
  expect_error_containing(ErrorKind::over_budget, "With train.recompute_bytes = ", [&] { trainer.run(); });
}

TEST(Trainer, StopsWhenNothingGetsBetter) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.optimiser.learning_rate = 0;
  config.output = folder.path().string();
  config.evaluate_every = 5;
  config.patience = 2;
  const TrainingResult result = Trainer(two_layers(), config).run();
  EXPECT_TRUE(result.stopped_early);
  EXPECT_EQ(result.best->step, 5);
  EXPECT_LE(result.steps, 20);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "best.onnx"));
}

TEST(Trainer, SkipsSamplesThatCannotBeRead) {
  TrainingConfig config = small();
  const std::map<std::string, Tensor> arrays = clusters(1);
  config.data.train_arrays.clear();
  SampleSource source;
  source.fields = {{"x", DType::f32, {kFeatures}}, {"y", DType::i64, {}}};
  source.size = kSamples;
  source.read = [&](std::int64_t i) -> std::map<std::string, Tensor> {
    if (i == 11) throw Error(ErrorKind::io, "the disk is broken there");
    return {{"x", Tensor::from<float>({kFeatures}, arrays.at("x").values<float>().subspan(
                                                       static_cast<std::size_t>(i * kFeatures), kFeatures))},
            {"y", Tensor::scalar(i % kClasses)}};
  };
  config.data.train_source = source;
  const TrainingResult result = Trainer(two_layers(), config).run();
  EXPECT_EQ(result.skipped_samples, 1);
  ASSERT_EQ(result.skipped_reasons.size(), 1u);
  EXPECT_NE(result.skipped_reasons[0].find("the disk is broken there"), std::string::npos);
}

TEST(Trainer, SaysWhatDoesNotFit) {
  const auto refuses = [](const char* text, TrainingConfig config) {
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { Trainer(two_layers(), config); });
  };
  TrainingConfig config = small();
  config.epochs = 3;
  refuses("either train.epochs or train.steps", config);
  config = small();
  config.loss.target = "label";
  refuses("the data have no field 'label' to compare with", config);
  config = small();
  config.data.train_arrays["x"] = test::random_tensor(DType::f32, {kSamples, kFeatures + 1}, 1, -1, 1);
  refuses("the field 'x' does not fit the input 'x'", config);
  config = small();
  config.data.test_arrays = {{"y", clusters(2).at("y")}};
  refuses("no field of the test data feeds the input 'x', as 'x' of the training data does: the net's inputs are x",
          config);
  config.data.test_arrays = {{"x", clusters(2).at("x")}};
  refuses("the test data have no field 'y' to compare with", config);
  config = small();
  config.metric = "beauty";
  refuses("beauty", config);
  config.data.test_arrays.clear();
  refuses("beauty", config);
  config = small();
  config.metric = "mae";
  refuses("the prediction [16, 3] and the target [16] differ in shape", config);
  config = small();
  config.data.hold_out = 0.2;
  refuses("data.hold_out is 0.2, but there are test data too", config);
  config = small();
  config.data.height = 32;
  refuses("data.height is 32 and data.width 0; expected both", config);
  config = small();
  config.data.target_column = "price";
  refuses("data.target_column is for tables (.csv, .tsv), but data.train is given as arrays", config);
}

// What a device of its own computes while the host goes on is recorded once and replayed.
TEST(Trainer, AStepThatIsReplayedHasTheSameBits) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.steps = 12;
  config.log_every = 6;
  config.device = "cpu";
  Trainer eager(two_layers(), config);
  eager.run();
  config.device = "simulated:h100-sxm,compute=cpu";
  Trainer replayed(two_layers(), config);
  replayed.run();
  expect_same_state(state_of(eager, folder), state_of(replayed, folder));
}

// Steps copy their inputs up and what the log reads down; weights, moments and averages stay on the device.
TEST(Trainer, NoWeightCrossesTheLinkInAStep) {
  for (const bool averages : {false, true}) {
    const test::TemporaryFolder folder;
    TrainingConfig config = small();
    config.steps = 12;
    config.log_every = 6;
    config.data.test_arrays.clear();  // an evaluation beside the steps would copy as well
    config.optimiser.weight_decay = 0.01;
    if (averages) config.average_decay = 0.9;
    config.device = "cpu";
    Trainer eager(two_layers(), config);
    eager.run();
    config.device = averages ? "simulated:h100-sxm,compute=cpu,number=72" : "simulated:h100-sxm,compute=cpu,number=71";
    const backends::Device& device = backends::find_device(config.device);
    std::vector<backends::DeviceActivity> steps;
    TrainingHooks hooks;
    hooks.run = [&](Session& session, const NamedValues& inputs, const std::vector<OutputRequest>& wanted,
                    const RunOptions& how) {
      std::int64_t input_bytes = 0;
      for (const auto& [name, value] : inputs) input_bytes += value.tensor().bytes();
      const backends::DeviceActivity before = device.activity();
      std::vector<Value> outputs = session.run(inputs, wanted, how);
      steps.push_back(device.activity() - before);
      if (steps.size() > 1) {
        EXPECT_EQ(steps.back().bytes_to_device, input_bytes);
      }
      return outputs;
    };
    Trainer trainer(two_layers(), config);
    trainer.run(hooks);
    ASSERT_EQ(steps.size(), 12u);
    for (std::size_t i = 1; i < steps.size(); ++i) {
      // The outputs: logits, loss, norm of the gradient, and whether it is finite.
      EXPECT_EQ(steps[i].bytes_to_host, 16 * kClasses * 4 + 4 + 4 + 1) << i;
      EXPECT_EQ(steps[i].replays, 1) << i;
      EXPECT_EQ(steps[i].instantiations, i == 1 ? 1 : 0) << i;
    }
    expect_same_state(state_of(eager, folder), state_of(trainer, folder));
  }
}

TEST(TrainingConfig, NamesTheNearestKey) {
  const auto refuses = [](const char* text, const char* toml, std::vector<std::string> settings = {}) {
    expect_error_containing(ErrorKind::invalid_argument, text,
                            [&] { parse_training_config(toml, "a.toml", settings); });
  };
  refuses("a.toml: train.epoch is unknown; did you mean 'epochs'?", "[train]\nepoch = 3");
  refuses("a.toml: optimizer is unknown; did you mean 'optimiser'?", "[optimizer]\nname = 'sgd'");
  refuses("a.toml: train.seed is 'one', expected a whole number", "[train]\nseed = 'one'");
  refuses("optimiser.name is 'adamm', expected sgd, adam", "[optimiser]\nname = 'adamm'");
  refuses("line 1", "[train");
  refuses("is no KEY=VALUE", "", {"train.seed"});
  const TrainingConfig config = parse_training_config(
      "output = 'x'\n[train]\nseed = 1\nepochs = 2\n[optimiser]\nschedule = { name = 'cosine', warmup_steps = 10 }",
      "a.toml", {"train.seed=3", "data.train=digits.npz", "optimiser.schedule.power=2"});
  EXPECT_EQ(config.seed, 3u);
  EXPECT_EQ(config.epochs, 2);
  EXPECT_EQ(config.data.train, "digits.npz");
  EXPECT_EQ(config.optimiser.schedule.name, "cosine");
  EXPECT_EQ(config.optimiser.schedule.warmup_steps, 10);
}

}  // namespace
}  // namespace tessera::train::trainer_test
