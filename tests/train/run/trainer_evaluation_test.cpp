#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/train.h"

namespace tessera::train::trainer_evaluation_test {
namespace {

using test::expect_error_containing;

constexpr std::int64_t kSamples = 64, kFeatures = 6, kClasses = 3;

// Class i % 3 of features around a centre; `shift` makes labels wrong.
std::map<std::string, Tensor> clusters(std::uint64_t seed, std::int64_t shift = 0) {
  Tensor x = test::random_tensor(DType::f32, {kSamples, kFeatures}, seed, -1, 1), y(DType::i64, {kSamples});
  Tensor age(DType::f32, {kSamples, 1});
  const Tensor centres = test::random_tensor(DType::f32, {kClasses, kFeatures}, 77, -1, 1);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    y.mutable_data<std::int64_t>()[i] = (i + shift) % kClasses;
    for (std::int64_t k = 0; k < kFeatures; ++k)
      x.mutable_data<float>()[i * kFeatures + k] += 2 * centres.data<float>()[i % kClasses * kFeatures + k];
    age.mutable_data<float>()[i] = x.data<float>()[i * kFeatures] * 0.5f;
  }
  return {{"x", x}, {"y", y}, {"age", age}};
}

// x -> hidden -> logits [N, 3], age [N, 1] and copy [N, 6]
Model net() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x =
      graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), kFeatures}));
  const auto weight = [&](const std::string& name, const Shape& shape, std::uint64_t seed) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed, -0.5, 0.5), name);
  };
  const ir::ValueId hidden = builder.add("Tanh", {builder.add("Gemm", {x, weight("w", {kFeatures, 16}, 1)})});
  const auto head = [&](const std::string& name, std::int64_t outputs, std::uint64_t seed) {
    const ir::ValueId made = builder.add(
        "Gemm", {hidden, weight(name + ".w", {16, outputs}, seed), weight(name + ".b", {outputs}, seed + 1)});
    graph.value(made).name = name;
    graph.add_output(made);
  };
  head("logits", kClasses, 2);
  head("age_of", 1, 4);
  head("copy", kFeatures, 6);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

TrainingConfig small() {
  TrainingConfig config;
  config.data.train_arrays = clusters(1);
  config.data.test_arrays = clusters(2);
  config.data.batch = 16;
  config.data.workers = 0;
  config.loss.prediction = "logits";
  config.optimiser.name = "adam";
  config.optimiser.learning_rate = 0.01;
  config.steps = 40;
  config.log_every = 1;
  config.evaluate_every = 10;
  return config;
}

std::vector<EvaluationReport> evaluations_of(Trainer& trainer, TrainingResult* result = nullptr) {
  std::vector<EvaluationReport> reports;
  TrainingHooks hooks;
  hooks.evaluation = [&](const EvaluationReport& report) { reports.push_back(report); };
  const TrainingResult made = trainer.run(hooks);
  if (result != nullptr) *result = made;
  return reports;
}

TEST(TrainerEvaluation, TellsOfSeveralMetrics) {
  TrainingConfig config = small();
  config.metrics = {"f1", "accuracy", "loss"};
  config.evaluate_training = true;
  Trainer trainer(net(), config);
  const std::vector<EvaluationReport> reports = evaluations_of(trainer);
  ASSERT_EQ(reports.size(), 8u);  // of the test and the training data, four times
  EXPECT_EQ(reports[0].data, "test");
  EXPECT_EQ(reports[1].data, "train");
  EXPECT_EQ(reports[0].metric, "f1");
  ASSERT_EQ(reports[0].metrics.size(), 3u);
  EXPECT_EQ(reports[0].metrics[1].first, "accuracy");
  EXPECT_EQ(reports[0].metrics[2].second, reports[0].loss);
  ASSERT_TRUE(reports[0].classes.has_value());
  // The confusion matrix, accuracy and F1 tell the same.
  const ClassReport& classes = *reports.back().classes;
  std::int64_t right = 0, all = 0;
  double f1 = 0;
  for (std::int64_t i = 0; i < kClasses * kClasses; ++i) {
    all += classes.confusion[static_cast<std::size_t>(i)];
    right += i % (kClasses + 1) == 0 ? classes.confusion[static_cast<std::size_t>(i)] : 0;
  }
  for (const auto& each : classes.classes) f1 += *each.f1 / kClasses;
  EXPECT_EQ(all, kSamples);
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / static_cast<double>(all), reports.back().metrics[1].second);
  EXPECT_DOUBLE_EQ(f1, reports.back().value);
}

// Validation data judge, the test data are asked once, at the end, of the last and of the best weights.
TEST(TrainerEvaluation, ValidatesApartFromTheTest) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.output = folder.path().string();
  config.data.validation_arrays = clusters(3, 1);  // labels that training makes worse and worse
  Trainer trainer(net(), config);
  TrainingResult result;
  const std::vector<EvaluationReport> reports = evaluations_of(trainer, &result);
  ASSERT_EQ(reports.size(), 6u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(reports[i].data, "validation");
  ASSERT_TRUE(result.best.has_value());
  ASSERT_LT(result.best->step, 40);
  EXPECT_EQ(result.best->data, "validation");
  EXPECT_EQ(reports[4].data, "test");
  EXPECT_EQ(reports[4].step, 40);
  EXPECT_TRUE(reports[5].of_best);
  EXPECT_EQ(reports[5].step, result.best->step);
  ASSERT_TRUE(result.test && result.best_test);
  EXPECT_GT(result.test->value, 0.9);
  EXPECT_EQ(trainer.evaluate().value, result.test->value);
  EXPECT_EQ(trainer.evaluate("validation").value, result.evaluation->value);
  // best.onnx is the net of the best validation.
  config.output.clear();
  Trainer best(Model::load((folder.path() / "best.onnx").string()), config);
  EXPECT_EQ(best.evaluate().value, result.best_test->value);
  // A training that goes on from a checkpoint finds the best weights in that file.
  config.output = folder.path().string();
  std::filesystem::remove(folder.path() / "checkpoint-000000040.npz");
  Trainer resumed(net(), config);
  resumed.resume(config.output);
  TrainingResult again;
  evaluations_of(resumed, &again);
  EXPECT_EQ(again.best_test->value, result.best_test->value);
  EXPECT_EQ(again.best_test->loss, result.best_test->loss);
}

TEST(TrainerEvaluation, HoldsOutTwice) {
  TrainingConfig config = small();
  config.data.test_arrays.clear();
  config.data.hold_out = 0.25;
  config.data.validation_share = 0.25;
  Trainer trainer(net(), config);
  EXPECT_EQ(trainer.evaluate().samples, 16);
  EXPECT_EQ(trainer.evaluate("validation").samples, 16);
  EXPECT_EQ(trainer.evaluate("train").samples, 32);
  config.data.validation_share = 0.75;
  expect_error_containing(ErrorKind::invalid_argument, "take all 64 samples: 16 and 48",
                          [&] { Trainer(net(), config); });
  expect_error_containing(ErrorKind::invalid_argument, "there are no data 'dev' to evaluate",
                          [&] { trainer.evaluate("dev"); });
  config.data.hold_out = config.data.validation_share = 0;
  Trainer without(net(), config);
  expect_error_containing(ErrorKind::invalid_argument, "there are no validation data",
                          [&] { without.evaluate("validation"); });
}

// Classes, a number and the input itself at once; each learns.
TEST(TrainerEvaluation, AddsSeveralLosses) {
  TrainingConfig config = small();
  config.steps = 300;
  config.evaluate_every = 300;
  config.further_losses = {{.name = "mse", .prediction = "age_of", .target = "age", .weight = 0.5},
                           {.name = "mse", .prediction = "copy", .target = "x"}};
  config.metrics = {"accuracy", "r2@age_of", "rmse@copy"};
  Trainer trainer(net(), config);
  const EvaluationReport before = trainer.evaluate();
  TrainingResult result;
  evaluations_of(trainer, &result);
  const EvaluationReport& after = *result.evaluation;
  EXPECT_GT(after.metrics[0].second, 0.9);
  EXPECT_GT(after.metrics[1].second, 0.9);
  EXPECT_LT(after.metrics[2].second, 0.5 * before.metrics[2].second);
  // The test loss is the weighted sum: that of the copy is the square of its error.
  TrainingConfig alone = config;
  alone.further_losses.pop_back();
  alone.metrics.pop_back();
  alone.steps = 1;
  const double two = Trainer(net(), alone).evaluate().loss;
  EXPECT_NEAR(before.loss - two, std::pow(before.metrics[2].second, 2), 0.3 * before.loss);  // RMSE is a mean of roots
  config.metrics = {"r2@age"};
  expect_error_containing(ErrorKind::invalid_argument, "metric 'r2@age': no loss compares an output 'age'",
                          [&] { Trainer(net(), config); });
}

// An autoencoder: the only field of the data is input and target.
TEST(TrainerEvaluation, TakesAnInputAsTarget) {
  TrainingConfig config = small();
  config.loss = {.name = "mse", .prediction = "copy", .target = "x"};
  config.data.train_arrays = {{"x", clusters(1).at("x")}};
  config.data.test_arrays = {{"x", clusters(2).at("x")}};
  Trainer trainer(net(), config);
  const double before = trainer.evaluate().loss;
  const Tensor x = config.data.test_arrays.at("x");
  Session session(trainer.model());
  const Tensor copy = session.run({{"x", x}}).at("copy").tensor();
  double sum = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i)
    sum += std::pow(static_cast<double>(x.data<float>()[i] - copy.data<float>()[i]), 2);
  EXPECT_NEAR(before, sum / static_cast<double>(x.elements()), 1e-5 * before);
  trainer.run();
  EXPECT_LT(trainer.evaluate().loss, 0.7 * before);
}

// Of a mean over a batch that weights of classes weigh, evaluations make the mean over all data.
TEST(TrainerEvaluation, WeighsClassesOverAllData) {
  TrainingConfig config = small();
  config.loss.class_weights = {1, 2, 5};
  config.data.batch = 10;  // with a rest of 4
  Trainer parts(net(), config);
  config.data.batch = 64;
  Trainer whole(net(), config);
  EXPECT_NEAR(parts.evaluate().loss, whole.evaluate().loss, 1e-5);
  config.loss.class_weights.clear();
  config.loss.balanced_classes = true;
  Tensor& y = config.data.train_arrays.at("y");
  for (std::int64_t i = 0; i < kSamples; ++i) y.mutable_data<std::int64_t>()[i] = i < 48 ? 0 : i < 56 ? 1 : 2;
  Trainer balanced(net(), config);
  config.loss.balanced_classes = false;
  config.loss.class_weights = {64.0 / (3 * 48), 64.0 / (3 * 8), 64.0 / (3 * 8)};
  EXPECT_EQ(balanced.evaluate().loss, Trainer(net(), config).evaluate().loss);
}

TEST(TrainerEvaluation, DrawsSamplesAndGoesOnBitForBit) {
  TrainingConfig config = small();
  config.data.sampling = "balanced";
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "state.npz").string();
  Trainer whole(net(), config);
  whole.run();
  Cancellation stop;
  TrainingHooks hooks;
  hooks.cancellation = &stop;
  hooks.progress = [&](std::int64_t step, std::int64_t) {
    if (step == 13) stop.cancel();
  };
  Trainer first(net(), config);
  first.run(hooks);
  first.save(file);
  Trainer second(net(), config);
  second.resume(file);
  second.run();
  EXPECT_EQ(whole.evaluate().loss, second.evaluate().loss);
  config.data.sampling = "once";
  Trainer once(net(), config);
  once.run();
  EXPECT_NE(whole.evaluate().loss, once.evaluate().loss);
  config.data.sampling = "weighted";
  expect_error_containing(ErrorKind::invalid_argument, "\"weighted\" needs the field of the weights",
                          [&] { Trainer(net(), config); });
  config.data.sampling_weights = "age";
  expect_error_containing(ErrorKind::invalid_argument, "expected a number of at least 0",
                          [&] { Trainer(net(), config); });
}

TEST(TrainerEvaluation, TrainsGroupsAtTheirRates) {
  TrainingConfig config = small();
  config.optimiser = {.name = "sgd", .learning_rate = 0.1};
  config.optimiser.groups = {{.parameters = {"w"}, .learning_rate = 0},
                             {.parameters = {"logits.*"}, .learning_rate = 0.02}};
  config.steps = 1;
  config.data.shuffle = false;
  const auto change_of = [&](const std::string& name) {
    Trainer trainer(net(), config);
    trainer.run();
    const ir::Graph before = net().graph(), after = trainer.model().graph();
    return static_cast<double>(after.constant(after.find_value(name))->data<float>()[0] -
                               before.constant(before.find_value(name))->data<float>()[0]);
  };
  EXPECT_EQ(change_of("w"), 0);
  const double slow = change_of("logits.w");
  config.optimiser.groups.clear();
  EXPECT_NEAR(change_of("logits.w"), 5 * slow, 1e-6);
  EXPECT_NE(change_of("w"), 0);
  config.optimiser.groups = {{.parameters = {"nothing*"}}};
  expect_error_containing(ErrorKind::invalid_argument, "no trained weight has a name like 'nothing*'",
                          [&] { Trainer(net(), config); });
}

TEST(TrainerEvaluation, LogsWhatItFinds) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.output = folder.path().string();
  config.tensorboard = true;
  config.metrics = {"accuracy", "auc"};
  Trainer(net(), config).run();
  std::ifstream log(folder.path() / "log.jsonl");
  nlohmann::json evaluation;
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.contains("best")) evaluation = entry;
  }
  EXPECT_GT(evaluation.at("test_auc").get<double>(), 0.9);
  EXPECT_EQ(evaluation.at("classes").size(), 3u);
  EXPECT_EQ(evaluation.at("confusion").at(0).size(), 3u);
  EXPECT_FALSE(std::filesystem::is_empty(folder.path() / "tensorboard"));
}

TEST(TrainingConfig, ReadsTheWantsOfThoseWhoTrain) {
  const TrainingConfig config = parse_training_config(R"(
[model]
classes = 7
weights = "other.npz"
[data]
validation = "v.npz"
sampling = "weighted"
sampling_weights = "w"
[[loss]]
class_weights = [1, 2.5]
[[loss]]
name = "bce"
logits = "b"
target = "t"
pos_weight = "balanced"
weight = 0.5
[optimiser]
groups = [{ parameters = ["a*"], learning_rate = 0.5 }]
[train]
steps = 1
metrics = ["f1", "auc@b"]
tensorboard = true
)",
                                                      "c.toml");
  EXPECT_EQ(config.model.classes, 7);
  EXPECT_EQ(config.data.sampling_weights, "w");
  EXPECT_EQ(config.loss.class_weights, (std::vector<double>{1, 2.5}));
  ASSERT_EQ(config.further_losses.size(), 1u);
  EXPECT_TRUE(config.further_losses[0].balanced_positives);
  EXPECT_EQ(config.further_losses[0].weight, 0.5);
  EXPECT_EQ(config.optimiser.groups.at(0).learning_rate, 0.5);
  EXPECT_EQ(config.metrics.at(1), "auc@b");
  expect_error_containing(ErrorKind::invalid_argument, "loss[1].weigth is unknown; did you mean 'weight'?",
                          [] { parse_training_config("[[loss]]\n[[loss]]\nweigth = 1\n", "c.toml"); });
  expect_error_containing(ErrorKind::invalid_argument, "loss.class_weights is 'even', expected numbers or \"balanced\"",
                          [] { parse_training_config("[loss]\nclass_weights = \"even\"\n", "c.toml"); });
}

}  // namespace
}  // namespace tessera::train::trainer_evaluation_test
