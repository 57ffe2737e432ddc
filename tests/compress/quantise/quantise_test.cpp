// Length: the options of one function, on nets and data that most of the tests share.
#include "tessera/quantise.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "compress/quantise/exclusion.h"
#include "io/npy.h"
#include "io/npz.h"
#include "models/models.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/resident_memory.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"

namespace tessera::compress::quantise_test {
namespace {

using test::expect_error_containing;
constexpr std::int64_t kFeatures = 16, kSamples = 40;

Model as_model(ir::Graph graph) {
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

// A chain of products with Relu between. Before layer `ruined` one channel is made so large that bytes have nothing
// left for the others, and the layer's weights of this channel so small that it hardly counts; -1: none.
Model chain(int layers, int ruined) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, {ir::Dim::symbol("n"), kFeatures}));
  for (int i = 0; i < layers; ++i) {
    Tensor weights =
        test::random_tensor(DType::f32, {kFeatures, kFeatures}, static_cast<std::uint64_t>(i) + 1, -0.5, 0.5);
    if (i == ruined) {
      Tensor factors = Tensor(DType::f32, {kFeatures});
      std::fill_n(factors.mutable_data<float>(), kFeatures, 1.0f);
      factors.mutable_data<float>()[3] = 3000;
      for (std::int64_t c = 0; c < kFeatures; ++c) weights.mutable_data<float>()[3 * kFeatures + c] *= 1e-6f;
      x = builder.add("Mul", {x, builder.constant(factors)});
    }
    x = builder.add("MatMul", {x, builder.constant(weights)});
    graph.node(graph.value(x).producer).name = "layer" + std::to_string(i);
    x = builder.add("Add", {x, builder.constant(test::random_tensor(DType::f32, {kFeatures}, 90, -0.1, 0.1))});
    if (i + 1 < layers) x = builder.add("Relu", {x});
  }
  graph.value(x).name = "scores";
  graph.add_output(x);
  return as_model(std::move(graph));
}

class Quantise : public testing::Test {
 protected:
  QuantiseOptions full(std::int64_t samples = kSamples) {
    io::write_npz(folder_ / "data.npz", {{"x", test::random_tensor(DType::f32, {samples, kFeatures}, 5, -1, 1)}});
    QuantiseOptions options;
    options.full = true;
    options.data.path = folder_ / "data.npz";
    return options;
  }
  void expect_refused(const std::map<std::string, Tensor>& arrays, const std::string& text) {
    QuantiseOptions options = full();
    io::write_npz(folder_ / "data.npz", arrays);
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { quantise(chain(2, -1), options); });
  }

  test::TemporaryFolder folder_;
};

int count(const Model& model, const char* op) {
  int found = 0;
  for (const ir::NodeId id : model.graph().order()) found += model.graph().node(id).op == op ? 1 : 0;
  return found;
}

TEST_F(Quantise, FullKeepsTheOutputsOfAConvolutionalNet) {
  const Model model = as_model(models::build_model("cnn_digits", {.dims = {{"size", 8}, {"width", 8}}}));
  io::write_npz(folder_ / "data.npz", {{"input", test::random_tensor(DType::f32, {kSamples, 1, 8, 8}, 5, 0, 1)}});
  QuantiseOptions options;
  options.full = true;
  options.data.path = folder_ / "data.npz";
  options.metric = "agreement";
  const QuantisedModel made = quantise(model, options);
  EXPECT_GT(*made.report.snr_db, 20);
  EXPECT_GE(*made.report.metric_after, 0.9);
  EXPECT_EQ(made.report.samples, kSamples);
  EXPECT_GT(made.report.bytes_before, 2.5 * static_cast<double>(made.report.bytes_after));
  EXPECT_EQ(made.report.layers.size(), 5u);
  EXPECT_EQ(count(made.model, "QuantizeLinear") > 4, true);
}

TEST_F(Quantise, NamesTheRuinedLayerFirstAndLeavesItAloneInFloat) {
  QuantiseOptions options = full(200);
  options.max_drop = 0.05;
  options.metric = "cosine";
  options.equalise = false;
  const QuantisedModel made = quantise(chain(5, 2), options);
  EXPECT_EQ(made.report.layers[0].name, "layer2");
  EXPECT_FALSE(made.report.layers[0].quantised);
  EXPECT_NE(made.report.layers[0].reason.find("cosine"), std::string::npos);
  for (std::size_t i = 1; i < made.report.layers.size(); ++i)
    EXPECT_TRUE(made.report.layers[i].quantised) << made.report.layers[i].name;
  EXPECT_GE(*made.report.metric_after, *made.report.metric_before - 0.05);
  ASSERT_EQ(made.report.steps.size(), 2u);
  EXPECT_LT(made.report.steps[0].metric, 0.95);
  // Equalised, the large channel is none any more.
  options.equalise = true;
  const QuantiseReport equalised = quantise(chain(5, 2), options).report;
  EXPECT_TRUE(equalised.smoothed);
  ASSERT_EQ(equalised.steps.size(), 1u);
  EXPECT_GE(equalised.steps[0].metric, 0.95);
}

TEST_F(Quantise, AsksACommandForTheMetric) {
  QuantiseOptions options = full();
  options.max_drop = 0.1;
  options.metric = "command:echo 0.5 #";
  const QuantisedModel made = quantise(chain(3, -1), options);
  EXPECT_EQ(*made.report.metric_before, 0.5);
  EXPECT_EQ(*made.report.metric_after, 0.5);
  options.metric = "command:test -s";  // the file is there, but nothing is printed
  expect_error_containing(ErrorKind::failed, "expected one number", [&] { quantise(chain(3, -1), options); });
  options.metric = "command:exit 3 #";
  expect_error_containing(ErrorKind::failed, "status 3", [&] { quantise(chain(3, -1), options); });
}

TEST_F(Quantise, EveryEstimatorWorksAndTheBestIsTaken) {
  QuantiseOptions options = full();
  const QuantisedModel automatic = quantise(chain(3, -1), options);
  EXPECT_EQ(automatic.report.estimator_snr_db.size(), 4u);
  for (const RangeEstimator each :
       {RangeEstimator::min_max, RangeEstimator::percentile, RangeEstimator::mse, RangeEstimator::kl}) {
    options.estimator = each;
    const QuantisedModel made = quantise(chain(3, -1), options);
    EXPECT_EQ(made.report.estimator, name_of(each));
    EXPECT_GT(*made.report.snr_db, 10) << name_of(each);
    EXPECT_GE(*automatic.report.snr_db, *made.report.snr_db) << name_of(each);
    EXPECT_EQ(automatic.report.estimator_snr_db.at(std::string(name_of(each))), *made.report.snr_db);
  }
}

// Judged on the first samples alone, the outputs would seem exact.
TEST_F(Quantise, OutputsAreComparedOverAllSamples) {
  constexpr std::int64_t kMany = 2000;
  Tensor x = test::random_tensor(DType::f32, {kMany, kFeatures}, 5, -1, 1);
  std::fill_n(x.mutable_data<float>(), kMany / 2 * kFeatures, 0.0f);
  QuantiseOptions options = full();
  io::write_npz(folder_ / "data.npz", {{"x", x}});
  const Model model = chain(3, -1);
  const QuantisedModel made = quantise(model, options);
  EXPECT_EQ(made.report.snr_samples, kMany);
  EXPECT_EQ(made.report.diagnosis_samples, 512);
  const auto outputs = [&](const Model& each) { return Session(each).run({{"x", x}}).at("scores").tensor(); };
  const Tensor before = outputs(model), after = outputs(made.model);
  double signal = 0, noise = 0;
  for (std::int64_t i = 0; i < before.elements(); ++i) {
    const double a = static_cast<double>(before.data<float>()[i]), b = static_cast<double>(after.data<float>()[i]);
    signal += a * a;
    noise += (a - b) * (a - b);
  }
  EXPECT_NEAR(*made.report.snr_db, 10 * std::log10(signal / noise), 0.01);
  EXPECT_NEAR(made.report.estimator_snr_db.at(made.report.estimator), *made.report.snr_db, 3);
}

TEST_F(Quantise, NoLayerBecomesLarger) {
  for (const std::int64_t inputs : {1, 3, 8, 24, 130, 192}) {
    ir::Graph graph;
    ops::GraphBuilder builder(graph);
    const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, {ir::Dim::symbol("n"), inputs}));
    const ir::ValueId y = builder.add(
        "Relu",
        {builder.add("MatMul", {x, builder.constant(test::random_tensor(DType::f32, {inputs, 96}, 3, -1, 1))})});
    const ir::ValueId weights = builder.constant(test::random_tensor(DType::f32, {24, 96}, 4, -1, 1));
    graph.add_output(builder.add("Gemm", {y, weights}, {{"transB", std::int64_t{1}}}));
    const Model model = as_model(std::move(graph));
    for (const char* weight : {"int8", "int4"}) {
      for (const std::int64_t group : {0, 16, 128, 256}) {
        const QuantisedModel made = quantise(model, {.weights = weight, .group = group});
        const std::string where = fmt::format("{} inputs, {} in groups of {}", inputs, weight, group);
        std::int64_t sum = 0;
        for (const QuantisedLayer& layer : made.report.layers) {
          EXPECT_EQ(layer.quantised, layer.bytes_after < layer.bytes_before) << where;
          EXPECT_NE(layer.quantised, layer.bytes_after == layer.bytes_before) << where;
          sum += layer.bytes_after;
        }
        EXPECT_LE(std::abs(sum - made.report.bytes_after), 8) << where;  // what is counted is what is stored
        const Tensor data = test::random_tensor(DType::f32, {5, inputs}, 9, -1, 1);
        const auto run = [&](const Model& each) { return Session(each).run({{"x", data}}).begin()->second.tensor(); };
        EXPECT_TRUE(test::close_to(run(made.model), run(model), {.absolute = weight[3] == '8' ? 0.5 : 8.0})) << where;
      }
    }
  }
}

TEST_F(Quantise, AGroupThatPaysIsTaken) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, {ir::Dim::symbol("n"), 256}));
  graph.add_output(builder.add("MatMul", {x, builder.constant(test::random_tensor(DType::f32, {256, 64}, 3, -1, 1))}));
  const Model model = as_model(std::move(graph));
  for (const auto& [weights, group, taken] :
       {std::tuple("int8", 0, 128), std::tuple("int8", 32, 32), std::tuple("int8", 256, 256), std::tuple("int4", 0, 32),
        std::tuple("int4", 16, 16), std::tuple("int4", 128, 128)}) {
    const Model made = quantise(model, {.weights = weights, .group = group}).model;
    ASSERT_EQ(count(made, "com.microsoft::MatMulNBits"), 1);
    const ir::Node& node = made.graph().node(made.graph().order()[0]);
    EXPECT_EQ(std::get<std::int64_t>(node.attributes.at("block_size")), taken) << weights << " " << group;
  }
}

// ALBERT's layers, and unrolled loops, multiply by the same weights again and again.
TEST_F(Quantise, WeightsThatLayersShareAreStoredOnce) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, {ir::Dim::symbol("n"), 64}));
  const ir::ValueId weights = builder.constant(test::random_tensor(DType::f32, {64, 64}, 3, -0.2, 0.2), "shared");
  for (int i = 0; i < 8; ++i) x = builder.add("Tanh", {builder.add("MatMul", {x, weights})});
  graph.add_output(x);
  const Model model = as_model(std::move(graph));
  for (const char* how : {"int8", "int4"})
    EXPECT_LT(2 * quantise(model, {.weights = how}).report.bytes_after,
              quantise(model, {.weights = how}).report.bytes_before);
}

TEST_F(Quantise, WeightsAlone) {
  for (const char* weights : {"int8", "int4"}) {
    QuantiseOptions options = full();
    options.full = false;
    options.weights = weights;
    const QuantisedModel made = quantise(chain(3, -1), options);
    EXPECT_EQ(count(made.model, "com.microsoft::MatMulNBits"), 3) << weights;
    EXPECT_GT(*made.report.snr_db, std::string(weights) == "int8" ? 35 : 12) << weights;
  }
}

TEST_F(Quantise, AdaptiveRoundingBringsTheOutputsCloser) {
  for (const bool everything : {false, true}) {
    QuantiseOptions options = full(200);
    options.full = everything;
    options.weights = everything ? "int8" : "int4";
    const QuantisedModel nearest = quantise(chain(3, -1), options);
    EXPECT_FALSE(nearest.report.adaptively_rounded.has_value());
    options.adaptive_rounding = true;
    options.rounding_steps = 200;
    const QuantisedModel adaptive = quantise(chain(3, -1), options);
    ASSERT_TRUE(adaptive.report.adaptively_rounded.has_value());
    EXPECT_EQ(*adaptive.report.adaptively_rounded, *adaptive.report.snr_db > *nearest.report.snr_db);
    if (!everything) {
      EXPECT_GT(*adaptive.report.snr_db, *nearest.report.snr_db + 1);
    }
    for (const QuantisedLayer& layer : adaptive.report.layers) EXPECT_GT(*layer.rounding_gain_db, 0) << layer.name;
  }
  QuantiseOptions options;
  options.adaptive_rounding = true;
  expect_error_containing(ErrorKind::invalid_argument, "--data", [&] { quantise(chain(2, -1), options); });
}

// The output layer of a language model multiplies by the table that its first layer gathers from.
TEST_F(Quantise, TheOutputLayerMayShareATable) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  constexpr std::int64_t kTokens = 1100, kWidth = 128;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::i64, {ir::Dim::symbol("n"), 8}));
  const ir::ValueId table =
      builder.constant(test::random_tensor(DType::f32, {kTokens, kWidth}, 4, -0.5, 0.5), "tokens");
  const ir::ValueId hidden = builder.add("Tanh", {builder.add("Gather", {table, x})});
  const ir::ValueId turned = builder.add("Transpose", {table}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  const ir::ValueId scores = builder.add("MatMul", {hidden, turned});
  graph.value(scores).name = "scores";
  graph.add_output(scores);
  io::write_npz(folder_ / "tokens.npz", {{"x", test::random_tensor(DType::i64, {12, 8}, 5, 0, kTokens - 1)}});
  const Model model = as_model(std::move(graph));
  for (const char* how : {"int8", "int4", "full"}) {
    QuantiseOptions options;
    options.full = std::string(how) == "full";
    options.weights = options.full ? "int8" : how;
    options.data.path = folder_ / "tokens.npz";
    const QuantisedModel made = quantise(model, options);
    EXPECT_EQ(made.report.layers.size(), 2u) << how;
    EXPECT_EQ(count(made.model, "Transpose"), 0) << how;
    EXPECT_GT(*made.report.snr_db, std::string(how) == "int4" ? 15 : 30) << how;
    EXPECT_GT(made.report.bytes_before, made.report.bytes_after * (std::string(how) == "int4" ? 2.4 : 1.85)) << how;
  }
}

TEST_F(Quantise, LayersOfNumberedNodesHaveTheirModulesNames) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, {ir::Dim::symbol("n"), 64}));
  const ir::ValueId weights = builder.constant(test::random_tensor(DType::f32, {64, 64}, 3, -1, 1), "val_2");
  const ir::ValueId y = builder.add("MatMul", {x, weights});
  graph.node(graph.value(y).producer).name = "node_MatMul_3";
  graph.add_output(builder.add(
      "Add", {y, builder.constant(test::random_tensor(DType::f32, {64}, 4, -1, 1), "encoder.linear1.bias")}));
  EXPECT_EQ(quantise(as_model(std::move(graph)), {}).report.layers[0].name, "encoder.linear1");
}

TEST_F(Quantise, PatternsKeepLayersInFloat) {
  QuantiseOptions options = full();
  options.exclude = {"layer[02]"};
  const QuantisedModel made = quantise(chain(3, -1), options);
  EXPECT_EQ(count(made.model, "QuantizeLinear"), 1);
  options.exclude = {"nothing*"};
  expect_error_containing(ErrorKind::invalid_argument, "layer0", [&] { quantise(chain(3, -1), options); });
}

TEST_F(Quantise, RefusesHostileData) {
  const auto x = [](float value) {
    Tensor tensor = test::random_tensor(DType::f32, {kSamples, kFeatures}, 5, -1, 1);
    tensor.mutable_data<float>()[17 * kFeatures + 1] = value;
    return tensor;
  };
  expect_refused({{"x", x(std::nanf(""))}}, "NaN in sample 17");
  expect_refused({{"x", x(std::numeric_limits<float>::infinity())}}, "an infinity in sample 17");
  expect_refused({{"x", Tensor(DType::f32, {0, kFeatures})}}, "no samples");
  expect_refused({{"x", test::random_tensor(DType::f32, {4, 3}, 1)}}, "f32[4, 3], expected f32[n, 16]");
  expect_refused({{"x", test::random_tensor(DType::f64, {4, kFeatures}, 1, 1e299, 1e300)}}, "which f32 cannot hold");
  expect_refused({{"w", x(0)}, {"z", x(0)}}, "is no input of the model; expected x");
  expect_refused({{"pixels", x(0)}}, "the array 'pixels' is no input of the model; expected x, labels");
  expect_refused({{"x", x(0)}, {"labels", Tensor(DType::i64, {3})}}, "rows");
  expect_refused({{"labels", Tensor(DType::i64, {3})}}, "no array for the input 'x'");
  expect_refused({}, "no array for the input 'x'; the file has none");
  QuantiseOptions options = full();
  std::ofstream(folder_ / "data.npz") << "PK\x03\x04 this is no archive";
  expect_error_containing(ErrorKind::invalid_argument, "data.npz", [&] { quantise(chain(2, -1), options); });
  options.data.path = folder_ / "absent.npz";
  expect_error_containing(ErrorKind::not_found, "absent.npz", [&] { quantise(chain(2, -1), options); });
  options.data.path = folder_.path();
  std::filesystem::remove(folder_ / "data.npz");
  expect_error_containing(ErrorKind::invalid_argument, "no samples", [&] { quantise(chain(2, -1), options); });
  options.data.path.clear();
  expect_error_containing(ErrorKind::invalid_argument, "--data", [&] { quantise(chain(2, -1), options); });
}

TEST_F(Quantise, LabelsThatAreNamedMustBeThere) {
  QuantiseOptions options = full();
  const auto refuses = [&](const std::string& labels, const std::string& text) {
    options.data.labels = labels;
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { quantise(chain(2, -1), options); });
  };
  refuses("foo", "there is no array 'foo' for the labels; the file has x");
  refuses("x", "the array 'x' is an input of the model, expected labels");
  io::write_npy(folder_ / "files.npy", test::random_tensor(DType::f32, {3, kFeatures}, 6));
  std::filesystem::create_directory(folder_ / "files");
  std::filesystem::rename(folder_ / "files.npy", folder_ / "files/a.npy");
  options.data.path = folder_ / "files";
  refuses("foo", "there is no array 'foo' for the labels in '");
}

TEST_F(Quantise, ReadsAFolderAndSettings) {
  QuantiseOptions options = full();
  std::filesystem::create_directory(folder_ / "files");
  std::filesystem::rename(folder_ / "data.npz", folder_ / "files/a.npz");
  io::write_npz(folder_ / "files/b.npz", {{"x", test::random_tensor(DType::f32, {3, kFeatures}, 6)}});
  options.data.path = folder_ / "files";
  EXPECT_EQ(quantise(chain(2, -1), options).report.samples, kSamples + 3);
  std::ofstream(folder_ / "inputs.toml") << "data = \"files\"\nsamples = 10\n";
  options.data.path = folder_ / "inputs.toml";
  EXPECT_EQ(quantise(chain(2, -1), options).report.samples, kSamples);  // whole runs
  std::ofstream(folder_ / "inputs.toml") << "datum = \"files\"\n";
  expect_error_containing(ErrorKind::invalid_argument, "datum", [&] { quantise(chain(2, -1), options); });
}

TEST_F(Quantise, MemoryDoesNotGrowWithTheSamples) {
  const auto most_resident = [&](std::int64_t samples) {
    QuantiseOptions options = full(samples);
    options.diagnose = false;
    options.data.batch = 64;
    options.estimator = RangeEstimator::mse;
    malloc_trim(0);  // what earlier tests gave back is no memory of this one
    const std::int64_t before = test::resident_bytes();
    std::int64_t most = before;
    options.progress = [&](std::string_view, double) { most = std::max(most, test::resident_bytes()); };
    EXPECT_EQ(quantise(chain(2, -1), options).report.samples, samples);
    return most - before;
  };
  most_resident(2000);  // more than are kept to compare outputs on
  const std::int64_t few = most_resident(2000), many = most_resident(200'000);
  constexpr std::int64_t kMost = 6 << 20;  // the file has 12.8 MB
  EXPECT_LT(many - few, kMost);
}

TEST(FewestExcluded, IsFoundByBisection) {
  for (std::size_t needed = 0; needed <= 20; ++needed) {
    int asked = 0;
    EXPECT_EQ(fewest_excluded(20,
                              [&](std::size_t excluded) {
                                ++asked;
                                return excluded >= needed;
                              }),
              needed);
    EXPECT_LE(asked, 11);
  }
}

}  // namespace
}  // namespace tessera::compress::quantise_test
