#include "train/net/distillation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "io/toml_table.h"
#include "models/models.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/session.h"
#include "train/net/training_graph.h"
#include "train/run/checkpoint.h"

namespace tessera::train::distillation_test {
namespace {

using test::expect_error_containing;

constexpr std::int64_t kBatch = 4, kLength = 6, kClasses = 3;

// x [4, 1, 6] -> Conv -> BatchNormalization -> Relu "map" -> Flatten -> Gemm -> "logits"
ir::Graph small_net(std::int64_t width, std::uint64_t seed, std::int64_t classes = kClasses) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{kBatch, 1, kLength}));
  const auto weight = [&](const char* name, const Shape& shape, double low, double high) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed++, low, high), name);
  };
  ir::ValueId y =
      builder.add("Conv", {x, weight("conv", {width, 1, 3}, -1, 1)}, {{"pads", std::vector<std::int64_t>{1, 1}}});
  y = builder.add("BatchNormalization", {y, weight("scale", {width}, 0.5, 1), weight("bias", {width}, -0.2, 0.2),
                                         weight("mean", {width}, -0.2, 0.2), weight("variance", {width}, 0.5, 1)});
  y = builder.add("Relu", {y});
  graph.value(y).name = "map";
  y = builder.add("Flatten", {y}, {{"axis", std::int64_t{1}}});
  y = builder.add("Gemm", {y, weight("w", {width * kLength, classes}, -1, 1), weight("b", {classes}, -1, 1)});
  graph.value(y).name = "logits";
  graph.add_output(y);
  return graph;
}

TrainingGraphOptions frozen_norm(TeacherOptions taught, ir::Graph teacher = small_net(7, 50)) {
  TrainingGraphOptions options;
  options.target_dims = {ir::Dim(kBatch)};
  options.batch_norm = BatchNorm::frozen;
  options.optimiser.learning_rate = 1;
  options.teacher = std::make_shared<const Teacher>(Teacher{std::move(teacher), std::move(taught)});
  return options;
}

NamedValues batch(float rate = 0) {
  Tensor y(DType::i64, {kBatch});
  for (std::int64_t i = 0; i < kBatch; ++i) y.mutable_data<std::int64_t>()[i] = i % kClasses;
  return {{"x", test::random_tensor(DType::f32, {kBatch, 1, kLength}, 9, -1, 1)},
          {"y", y},
          {"learning_rate", Tensor::scalar(rate)}};
}

Model model_of(ir::Graph graph) {
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

// The outputs "logits" and "map" of the net.
NamedValues run_net(ir::Graph graph) {
  graph.add_output(graph.find_value("map"));
  return Session(model_of(std::move(graph))).run({{"x", batch().at("x")}});
}

std::vector<double> softmax(const float* logits, double temperature) {
  std::vector<double> p(kClasses);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += p[i] = std::exp(static_cast<double>(logits[i]) / temperature);
  for (double& each : p) each /= sum;
  return p;
}

// (1 − w) · cross-entropy + w · T² · KL, by the definition.
double expected_soft_loss(const Tensor& student, const Tensor& teacher, double weight, double temperature) {
  double loss = 0;
  for (std::int64_t n = 0; n < kBatch; ++n) {
    const float *own = student.data<float>() + n * kClasses, *other = teacher.data<float>() + n * kClasses;
    const std::vector<double> p = softmax(other, temperature), q = softmax(own, temperature);
    loss -= (1 - weight) * std::log(softmax(own, 1)[static_cast<std::size_t>(n % kClasses)]);
    for (std::size_t i = 0; i < p.size(); ++i)
      loss += weight * temperature * temperature * p[i] * std::log(p[i] / q[i]);
  }
  return loss / kBatch;
}

// The attention of one sample: mean of squares over the channels, of length 1.
std::vector<double> attention(const Tensor& map, std::int64_t sample) {
  const std::int64_t channels = map.shape()[1];
  std::vector<double> q(kLength);
  double norm = 0;
  for (std::int64_t k = 0; k < kLength; ++k) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double value = static_cast<double>(map.data<float>()[(sample * channels + c) * kLength + k]);
      q[static_cast<std::size_t>(k)] += value * value / static_cast<double>(channels);
    }
  }
  for (const double each : q) norm += each * each;
  for (double& each : q) each /= std::sqrt(norm);
  return q;
}

double expected_attention_loss(const Tensor& student, const Tensor& teacher) {
  double loss = 0;
  for (std::int64_t n = 0; n < kBatch; ++n) {
    const std::vector<double> own = attention(student, n), other = attention(teacher, n);
    for (std::size_t i = 0; i < own.size(); ++i) loss += (own[i] - other[i]) * (own[i] - other[i]);
  }
  return loss / kBatch;
}

double loss_of(Session& session) {
  return static_cast<double>(session.run(batch()).at("loss").tensor().data<float>()[0]);
}

TEST(Distillation, BlendsSoftTargetsAndLabels) {
  TeacherOptions taught;
  taught.temperature = 3;
  taught.weight = 0.7;
  Session session(model_of(make_training_graph(small_net(2, 1), frozen_norm(taught)).graph));
  const Tensor student = run_net(small_net(2, 1)).at("logits").tensor(),
               teacher = run_net(small_net(7, 50)).at("logits").tensor();
  const double expected = expected_soft_loss(student, teacher, 0.7, 3);
  EXPECT_NEAR(loss_of(session), expected, 1e-5 * expected);
}

TEST(Distillation, ComparesAttention) {
  TeacherOptions taught;
  taught.weight = 0;
  taught.attention = {{"map", "map"}};
  taught.attention_weight = 20;
  Session session(model_of(make_training_graph(small_net(2, 1), frozen_norm(taught)).graph));
  const NamedValues student = run_net(small_net(2, 1)), teacher = run_net(small_net(7, 50));
  const double expected = expected_soft_loss(student.at("logits").tensor(), teacher.at("logits").tensor(), 0, 1) +
                          10 * expected_attention_loss(student.at("map").tensor(), teacher.at("map").tensor());
  EXPECT_NEAR(loss_of(session), expected, 1e-5 * expected);
}

TEST(Distillation, LeavesTheTeacherAsItIs) {
  const auto variables = [](const TrainingGraphOptions& options) {
    std::vector<std::string> names;
    const TrainingGraph made = make_training_graph(small_net(2, 1), options);
    for (const ir::Variable& each : made.graph.variables()) names.push_back(each.name);
    return names;
  };
  TrainingGraphOptions options = frozen_norm({});
  options.batch_norm = BatchNorm::train;
  TrainingGraphOptions alone = options;
  alone.teacher = nullptr;
  EXPECT_EQ(variables(options), variables(alone));
  // The loss of a teacher whose BatchNormalization is frozen does not depend on what else is in the batch; that of the
  // student does.
  const TrainingGraph made = make_training_graph(small_net(2, 1), options);
  int training = 0, inference = 0;
  for (const ir::NodeId id : made.graph.order()) {
    const ir::Node& node = made.graph.node(id);
    if (node.op == "BatchNormalization") ++inference;
    else training += node.op.find("BatchNorm") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(inference, 1);  // the teacher's
  EXPECT_GE(training, 1);
}

TEST(Distillation, GradientsAreThoseOfTheWholeLoss) {
  TeacherOptions taught;
  taught.weight = 0.6;
  taught.attention = {{"map", "map"}};
  const TrainingGraph made = make_training_graph(small_net(2, 1), frozen_norm(taught));
  for (const char* name : {"conv", "b"}) {
    Session session(model_of(made.graph));
    const Tensor before = session.variable(name).clone();
    constexpr float kStep = 1e-2f;
    for (std::int64_t i = 0; i < before.elements(); ++i) {
      const auto loss_at = [&](float change) {
        Tensor moved = before.clone();
        moved.mutable_data<float>()[i] += change;
        session.set_variable(name, moved);
        return loss_of(session);
      };
      const double numeric = (loss_at(kStep) - loss_at(-kStep)) / (2 * static_cast<double>(kStep));
      session.set_variable(name, before.clone());
      Session stepped(model_of(made.graph));
      stepped.run(batch(1));
      const double stated =
          static_cast<double>(before.data<float>()[i]) - static_cast<double>(stepped.variable(name).data<float>()[i]);
      EXPECT_NEAR(stated, numeric, 3e-3 * (1 + std::abs(numeric))) << name << " " << i;
    }
  }
}

TEST(Distillation, TakesClassesOfEachPosition) {
  // x [4, 5] of tokens -> logits [4, 5, 3]
  const auto tagger = [](std::uint64_t seed) {
    ir::Graph graph;
    ops::GraphBuilder builder(graph);
    const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::i64, ir::Dims{kBatch, 5}));
    const ir::ValueId table = graph.add_constant(test::random_tensor(DType::f32, {10, kClasses}, seed, -1, 1), "table");
    const ir::ValueId y = builder.add("Gather", {table, x});
    graph.value(y).name = "logits";
    graph.add_output(y);
    return graph;
  };
  TeacherOptions taught;
  taught.weight = 1;
  TrainingGraphOptions options = frozen_norm(taught, tagger(1));
  options.target_dims = {kBatch, 5};
  Tensor tokens(DType::i64, {kBatch, 5});
  for (std::int64_t i = 0; i < tokens.elements(); ++i) tokens.mutable_data<std::int64_t>()[i] = i % 10;
  Tensor labels(DType::i64, {kBatch, 5});
  for (std::int64_t i = 0; i < labels.elements(); ++i) labels.mutable_data<std::int64_t>()[i] = i % kClasses;
  const NamedValues inputs = {{"x", tokens}, {"y", labels}, {"learning_rate", Tensor::scalar(0.0f)}};
  Session same(model_of(make_training_graph(tagger(1), options).graph));
  EXPECT_NEAR(same.run(inputs).at("loss").tensor().data<float>()[0], 0.0f, 1e-5f);
  Session other(model_of(make_training_graph(tagger(2), options).graph));
  EXPECT_GT(other.run(inputs).at("loss").tensor().data<float>()[0], 0.1f);
}

TEST(Distillation, RefusesWhatDoesNotFit) {
  const auto message = [](TeacherOptions taught, const char* part, ir::Graph teacher = small_net(7, 50)) {
    expect_error_containing(ErrorKind::invalid_argument, part, [&] {
      make_training_graph(small_net(2, 1), frozen_norm(std::move(taught), std::move(teacher)));
    });
  };
  TeacherOptions taught;
  taught.logits = "scores";
  message(taught, "teacher.logits is 'scores', expected one of the teacher's outputs 'logits'");
  message({}, "differ in shape", small_net(7, 50, 5));
  taught = {};
  taught.attention = {{"mapp", "map"}};
  message(taught, "the student has no value 'mapp'");
  taught.attention = {{"map", "features"}};
  message(taught, "the teacher has no value 'features'");
  taught.attention = {{"map", "logits"}};
  message(taught, "'map' of the student and 'logits' of the teacher are [4, 2, 6] and [4, 3]");
  ir::Graph longer = small_net(7, 50);
  longer.value(longer.inputs()[0]).type.dims->back() = ir::Dim(kLength + 1);
  message({}, "the teacher's input 'x' is f32[4, 1, 7], but the student's 'x' is f32[4, 1, 6]", longer);
}

TEST(Distillation, ReadsItsTable) {
  const auto parse = [](const std::string& text) {
    return parse_training_config("[teacher]\n" + text, "test.toml").teacher.value();
  };
  const TeacherOptions read = parse(
      "builder = 'mlp'\noptions = { width = 8 }\ntemperature = 2\nweight = 0.5\nattention = { a = 'b' }\n"
      "attention_weight = 3");
  EXPECT_EQ(read.net.builder, "mlp");
  EXPECT_EQ(read.net.dims.at("width"), 8);
  EXPECT_EQ(read.temperature, 2);
  EXPECT_EQ(read.attention.at("a"), "b");
  const auto refused = [&](const char* text, const char* part) {
    expect_error_containing(ErrorKind::invalid_argument, part, [&] { parse(text); });
  };
  refused("temperature = 0", "teacher.temperature is 0, expected a positive number");
  refused("temperature = -inf", "teacher.temperature is -inf");
  refused("temperature = nan", "teacher.temperature is nan");
  refused("weight = 1.5", "teacher.weight is 1.5, expected a number in [0, 1]");
  refused("weight = 0", "the teacher teaches nothing");
  refused("attention = { a = 'b' }\nattention_weight = -1", "teacher.attention_weight is -1");
  refused("attention = { a = 3 }", "attention.a");
  refused("seed = -2", "teacher.seed is -2");
  refused("temprature = 2", "temperature");
  EXPECT_FALSE(parse_training_config("output = 'x'", "test.toml").teacher.has_value());
  expect_error_containing(ErrorKind::invalid_argument, "teacher.builder or teacher.file", [&] { load_teacher({}); });
}

// --- with a trainer ---

std::map<std::string, Tensor> samples() {
  constexpr std::int64_t kSamples = 32;
  Tensor x = test::random_tensor(DType::f32, {kSamples, 1, 8}, 3, -1, 1), y(DType::i64, {kSamples});
  for (std::int64_t i = 0; i < kSamples; ++i)
    y.mutable_data<std::int64_t>()[i] = x.data<float>()[i * 8 + 3] > 0 ? 1 : 0;
  return {{"x", x}, {"y", y}};
}

TrainingConfig of_width(std::int64_t width) {
  TrainingConfig config;
  config.model.builder = "conv1d";
  config.model.dims = {{"length", 8}, {"width", width}, {"classes", 2}};
  config.data.train_arrays = config.data.test_arrays = samples();
  config.data.batch = 8;
  config.data.workers = 1;
  config.optimiser = {.name = "adamw", .learning_rate = 0.01};
  config.steps = 12;
  return config;
}

TrainingConfig taught_by(const std::string& checkpoint) {
  TrainingConfig config = of_width(2);
  config.teacher.emplace();
  config.teacher->net.builder = "conv1d";
  config.teacher->net.dims = of_width(4).model.dims;
  config.teacher->checkpoint = checkpoint;
  config.teacher->attention = {{"Relu_2:out", "Relu_2:out"}};
  return config;
}

TEST(Distillation, LearnsFromACheckpointAndResumesBitForBit) {
  const test::TemporaryFolder folder;
  const std::string teacher = (folder.path() / "teacher.npz").string(), half = (folder.path() / "half.npz").string();
  Trainer trained(of_width(4));
  trained.run();
  trained.save(teacher);
  Trainer whole(taught_by(teacher));
  Cancellation stop;
  TrainingHooks hooks;
  hooks.cancellation = &stop;
  hooks.progress = [&](std::int64_t step, std::int64_t) {
    if (step == 5) stop.cancel();
  };
  TrainingConfig config = taught_by(teacher);
  Trainer first(config);
  EXPECT_TRUE(first.run(hooks).interrupted);
  first.save(half);
  Trainer second(config);
  second.resume(half);
  second.run();
  const TrainingResult result = whole.run();
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_TRUE(result.evaluation.has_value());
  const std::string a = (folder.path() / "a.npz").string(), b = (folder.path() / "b.npz").string();
  whole.save(a);
  second.save(b);
  const Checkpoint once = read_checkpoint(a), twice = read_checkpoint(b);
  ASSERT_EQ(once.variables.size(), twice.variables.size());
  for (const auto& [name, value] : once.variables) {
    EXPECT_EQ(std::memcmp(value.raw(), twice.variables.at(name).raw(), static_cast<std::size_t>(value.bytes())), 0)
        << name;
  }
  // Nothing of the teacher is in the net that is exported.
  EXPECT_EQ(whole.model().graph().node_count(), Trainer(of_width(2)).model().graph().node_count());
}

TEST(Distillation, RefusesACheckpointOfAnotherNet) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "other.npz").string();
  Trainer other(of_width(3));
  other.save(path);
  expect_error_containing(ErrorKind::invalid_argument, "is of another net", [&] { Trainer trainer(taught_by(path)); });
  expect_error_containing(ErrorKind::not_found, "missing",
                          [&] { Trainer trainer(taught_by((folder.path() / "missing").string())); });
}

TEST(Distillation, WorksInMixedPrecision) {
  const test::TemporaryFolder folder;
  const std::string teacher = (folder.path() / "teacher.npz").string();
  Trainer trained(of_width(4));
  trained.save(teacher);
  TrainingConfig config = taught_by(teacher);
  config.precision = "bf16";
  config.accumulate = 2;
  EXPECT_TRUE(std::isfinite(Trainer(config).run().loss));
}

}  // namespace
}  // namespace tessera::train::distillation_test
