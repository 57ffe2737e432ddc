#include "train/fake_quantisation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/toml_table.h"
#include "ops/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/session.h"
#include "train/checkpoint.h"
#include "train/training_graph.h"

namespace tessera::train::fake_quantisation_test {
namespace {

using test::expect_error_containing;

constexpr std::int64_t kBatch = 8, kLength = 6, kWidth = 4, kClasses = 3;

// x -> Conv -> BatchNormalization -> Relu -> Conv with bias -> BatchNormalization -> Relu -> Flatten -> Gemm -> MatMul.
// Some of the normalisation's scales are negative.
ir::Graph small_net() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  std::uint64_t seed = 1;
  const auto weight = [&](const std::string& name, const Shape& shape, double low, double high) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed++, low, high), name);
  };
  const auto norm = [&](const std::string& name, ir::ValueId x) {
    return builder.add("Relu", {builder.add("BatchNormalization", {x, weight(name + ".scale", {kWidth}, -1, 1),
                                                                   weight(name + ".bias", {kWidth}, -0.2, 0.5),
                                                                   weight(name + ".mean", {kWidth}, -0.2, 0.2),
                                                                   weight(name + ".variance", {kWidth}, 0.5, 1)})});
  };
  const ir::Attributes same{{"pads", std::vector<std::int64_t>{1, 1}}};
  ir::ValueId y = graph.add_input(
      "x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), ir::Dim(2), ir::Dim(kLength)}));
  y = norm("norm1", builder.add("Conv", {y, weight("conv1", {kWidth, 2, 3}, -1, 1)}, same));
  y = norm("norm2",
           builder.add("Conv",
                       {y, weight("conv2", {kWidth, kWidth, 3}, -0.5, 0.5), weight("conv2.bias", {kWidth}, -0.5, 0.5)},
                       same));
  y = builder.add("Flatten", {y}, {{"axis", std::int64_t{1}}});
  y = builder.add("Gemm", {y, weight("fc1", {5, kWidth * kLength}, -0.4, 0.4), weight("fc1.bias", {5}, -0.4, 0.4)},
                  {{"transB", std::int64_t{1}}});
  y = builder.add("MatMul", {y, weight("fc2", {5, kClasses}, -1, 1)});
  graph.value(y).name = "logits";
  graph.add_output(y);
  return graph;
}

Model model_of(ir::Graph graph) {
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

std::map<std::string, Tensor> samples(std::uint64_t seed) {
  constexpr std::int64_t kSamples = 48;
  Tensor x = test::random_tensor(DType::f32, {kSamples, 2, kLength}, seed, -1, 1), y(DType::i64, {kSamples});
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const float* values = x.data<float>() + i * 2 * kLength;
    y.mutable_data<std::int64_t>()[i] = std::max_element(values, values + kClasses) - values;
  }
  return {{"x", x}, {"y", y}};
}

TrainingConfig config_with(CompressOptions compress) {
  TrainingConfig config;
  config.data.train_arrays = samples(1);
  config.data.test_arrays = samples(2);
  config.data.batch = kBatch;
  config.data.workers = 1;
  config.optimiser = {.name = "adamw", .learning_rate = 0.01};
  config.steps = 30;
  config.log_every = 1;
  config.compress = std::move(compress);
  return config;
}

TrainingGraphOptions graph_options(CompressOptions compress) {
  TrainingGraphOptions options;
  options.target_dims = {ir::Dim(kBatch)};
  options.compress = std::move(compress);
  return options;
}

NamedValues batch(std::uint64_t seed, float rate) {
  Tensor y(DType::i64, {kBatch});
  for (std::int64_t i = 0; i < kBatch; ++i) y.mutable_data<std::int64_t>()[i] = i % kClasses;
  return {{"x", test::random_tensor(DType::f32, {kBatch, 2, kLength}, seed, -1, 1)},
          {"y", y},
          {"learning_rate", Tensor::scalar(rate)}};
}

ir::Graph sized_net() {
  return model_of(small_net()).with_dims({{"batch", kBatch}}).graph();
}

Session session_of(const TrainingGraphOptions& options) {
  return Session(model_of(make_training_graph(sized_net(), options).graph));
}

float loss_of(Session& session, const NamedValues& inputs) {
  return session.run(inputs).at("loss").tensor().data<float>()[0];
}

// The logits of the evaluation graph, which rounds in float, with the variables of a training.
Tensor evaluated(Trainer& trainer, const TrainingGraphOptions& options, const Tensor& x) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "state.npz").string();
  trainer.save(path);
  TrainingGraphOptions of_all = options;
  of_all.target_dims = {ir::Dim(x.shape()[0])};
  const TrainingGraph made =
      make_evaluation_graph(model_of(small_net()).with_dims({{"batch", x.shape()[0]}}).graph(), of_all);
  Session session(model_of(made.graph));
  const Checkpoint state = read_checkpoint(path);
  for (const ir::Variable& each : made.graph.variables())
    session.set_variable(each.name, state.variables.at(each.name));
  return session.run({{"x", x}, {"y", samples(2).at("y")}}).at("logits").tensor();
}

// Integers round biases to steps of the products, and codes at the border of two may differ by the order in which
// floats are summed, which is a step of the data. Without quantised data neither is the case.
void expect_close(const Tensor& exported, const Tensor& evaluated, int activations, const std::string& what) {
  double largest = 0, sum = 0, most = 0;
  for (std::int64_t i = 0; i < evaluated.elements(); ++i) {
    const double expected = static_cast<double>(evaluated.data<float>()[i]);
    const double difference = std::abs(static_cast<double>(exported.data<float>()[i]) - expected);
    largest = std::max(largest, std::abs(expected));
    most = std::max(most, difference);
    sum += difference;
  }
  EXPECT_LT(sum / static_cast<double>(evaluated.elements()), (activations > 0 ? 5e-3 : 1e-5) * largest) << what;
  EXPECT_LT(most, (activations > 0 ? 4e-2 : 1e-4) * largest) << what;
}

TEST(FakeQuantisation, TheExportedIntegersGiveWhatWasEvaluated) {
  for (const int bits : {8, 4}) {
    for (const int activations : {8, 0}) {
      for (const char* ranges : {"learned", "averaged"}) {
        for (const char* norm : {"kept", "folded", "kept and frozen late", "frozen"}) {
          CompressOptions compress{.weights = bits, .activations = activations, .ranges = ranges};
          if (std::string(norm) == "folded") compress.batch_norm = norm;
          if (std::string(norm) == "kept and frozen late") compress.freeze_step = 7;
          TrainingConfig config = config_with(compress);
          config.steps = 10;
          TrainingGraphOptions options = graph_options(compress);
          if (std::string(norm) == "frozen") {
            config.model.batch_norm = norm;
            options.batch_norm = BatchNorm::frozen;
          }
          const std::string what = fmt::format("{} bits, {} {} {}", bits, activations, ranges, norm);
          Trainer trainer(model_of(small_net()), config);
          trainer.run();
          const Model exported = trainer.model();
          const Tensor x = samples(2).at("x");
          expect_close(Session(exported).run({{"x", x}}).at("logits").tensor(), evaluated(trainer, options, x),
                       activations, what);
          int integers = 0;
          for (const ir::NodeId id : exported.graph().order()) {
            const ir::Node& node = exported.graph().node(id);
            EXPECT_NE(node.op, "BatchNormalization") << what;
            if (node.op != "DequantizeLinear" || !exported.graph().is_constant(node.inputs[0])) continue;
            integers +=
                exported.graph().constant(node.inputs[0])->dtype() == (bits == 8 ? DType::i8 : DType::i4) ? 1 : 0;
          }
          EXPECT_EQ(integers, 4) << what;
        }
      }
    }
  }
}

TEST(FakeQuantisation, SurvivesAFile) {
  const test::TemporaryFolder folder;
  Trainer trainer(model_of(small_net()), config_with({.weights = 4}));
  trainer.run();
  const std::filesystem::path path = folder.path() / "quantised.onnx";
  trainer.model().save(path);
  const Tensor x = samples(2).at("x");
  const Tensor read = Session(Model::load(path)).run({{"x", x}}).at("logits").tensor();
  expect_close(read, Session(trainer.model()).run({{"x", x}}).at("logits").tensor(), 0, "read");
}

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

TEST(FakeQuantisation, LeavesLayersThatAreExcludedAsTheyAre) {
  TrainingConfig config = config_with({.exclude = {"fc*"}});
  Trainer trainer(model_of(small_net()), config);
  trainer.run();
  const Model exported = trainer.model();
  const ir::Graph& graph = exported.graph();
  EXPECT_TRUE(graph.find_value("conv2_quantised").valid());
  EXPECT_TRUE(graph.is_constant(graph.find_value("fc1")));
  EXPECT_FALSE(graph.find_value("fc1_quantised").valid());
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

TEST(FakeQuantisation, RefusesWhatItCannotQuantise) {
  const auto refused = [](const CompressOptions& compress, const char* part) {
    expect_error_containing(ErrorKind::invalid_argument, part,
                            [&] { Trainer trainer(model_of(small_net()), config_with(compress)); });
  };
  refused({.exclude = {"conv9*"}}, "compress.exclude: no weight of a layer has a name like 'conv9*'");
  refused({.exclude = {"*"}}, "no convolution or product with float32 weights that could be quantised");
  refused({.start_step = 30}, "compress.start_step is 30, but the training has 30 steps");
  refused({.weights = 2}, "compress.weights is 2, expected 8 or 4 bits");
  expect_error_containing(ErrorKind::invalid_argument, "no training step has observed",
                          [&] { Trainer(model_of(small_net()), config_with({})).model(); });
}

TEST(FakeQuantisation, ReadsItsTable) {
  const auto parse = [](const std::string& text) {
    return parse_training_config("[compress]\n" + text, "test.toml").compress.value();
  };
  const CompressOptions read = parse(
      "weights = 4\nactivations = 'none'\nranges = 'averaged'\nrange_decay = 0.5\nbatch_norm = 'folded'\n"
      "start_step = 3\nfreeze_step = 9\nexclude = ['head*']");
  EXPECT_EQ(read.weights, 4);
  EXPECT_EQ(read.activations, 0);
  EXPECT_EQ(read.ranges, "averaged");
  EXPECT_EQ(read.range_decay, 0.5);
  EXPECT_EQ(read.batch_norm, "folded");
  EXPECT_EQ(read.start_step, 3);
  EXPECT_EQ(read.freeze_step, 9);
  EXPECT_EQ(read.exclude, std::vector<std::string>{"head*"});
  EXPECT_EQ(parse("").weights, 8);
  const auto refused = [&](const char* text, const char* part) {
    expect_error_containing(ErrorKind::invalid_argument, part, [&] { parse(text); });
  };
  refused("weights = 5", "compress.weights is 5, expected 8 or 4 bits");
  refused("weights = -8", "compress.weights is -8");
  refused("weights = 4294967304", "compress.weights is 4294967304");
  refused("weights = 'int4'", "weights is 'int4', expected a whole number");
  refused("activations = 4", "compress.activations is 4, expected 8 bits or none");
  refused("activations = 'all'", "activations is 'all', expected a whole number");
  refused("ranges = 'guessed'", "compress.ranges is 'guessed', expected learned or averaged");
  refused("range_decay = 1", "compress.range_decay is 1, expected a number in [0, 1)");
  refused("range_decay = nan", "compress.range_decay is nan");
  refused("batch_norm = 'train'", "compress.batch_norm is 'train', expected folded or kept");
  refused("start_step = -1", "compress.start_step is -1");
  refused("freeze_step = 9223372036854775807", "compress.freeze_step is 9223372036854775807");
  refused("weight = 4", "compress.weight is unknown; did you mean 'weights'?");
}

}  // namespace
}  // namespace tessera::train::fake_quantisation_test
