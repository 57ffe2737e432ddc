// Convolutions by a dictionary: learning vectors and coefficients, giving them to a net, and the recipe that trains
// them.
#include "tessera/dictionary.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compress/deep_compression/dictionary_learning.h"
#include "ir/graph.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"
#include "tessera/deep_compression.h"
#include "tessera/optimise.h"
#include "tessera/session.h"

namespace tessera::compress::dictionary_test {
namespace {

using test::close_to;
using test::expect_error_containing;
using test::random_tensor;
using test::Tolerance;

// [outputs, channels, kernel...] of the operands of DictionaryConv.
std::vector<float> kernels_of(const LearnedDictionary& learned) {
  const Shape& shape = learned.coefficients.shape();
  const std::int64_t channels = learned.vectors.shape()[1],
                     taps = learned.coefficients.elements() / shape[0] / shape[1];
  std::vector<float> kernels(static_cast<std::size_t>(shape[0] * channels * taps), 0.0f);
  for (std::int64_t i = 0; i < learned.coefficients.elements(); ++i) {
    const std::int64_t output = i / taps / shape[1], tap = i % taps;
    const float* vector = learned.vectors.data<float>() + learned.indices.data<std::int32_t>()[i] * channels;
    for (std::int64_t c = 0; c < channels; ++c)
      kernels[static_cast<std::size_t>((output * channels + c) * taps + tap)] +=
          learned.coefficients.data<float>()[i] * vector[c];
  }
  return kernels;
}

TEST(LearnDictionary, FindsTheCombinationsThatKernelsWereMadeOf) {
  LearnedDictionary made{random_tensor(DType::f32, {6, 12}, 1, -1, 1), random_tensor(DType::i32, {40, 2, 3}, 2, 0, 5),
                         random_tensor(DType::f32, {40, 2, 3}, 3, 0.5, 1)};
  const std::vector<float> kernels = kernels_of(made);
  const Tensor given = Tensor::from<float>({40, 12, 3}, std::span<const float>(kernels));
  const LearnedDictionary learned = learn_dictionary(given, 6, 2);
  EXPECT_EQ(learned.vectors.shape(), (Shape{6, 12}));
  EXPECT_EQ(learned.coefficients.shape(), (Shape{40, 2, 3}));
  EXPECT_LT(learned.error, 0.2);
  // The error that it states is that of the kernels.
  const std::vector<float> back = kernels_of(learned);
  double error = 0, all = 0;
  for (std::size_t i = 0; i < back.size(); ++i) {
    error += std::pow(back[i] - kernels[i], 2);
    all += std::pow(kernels[i], 2);
  }
  EXPECT_NEAR(learned.error, std::sqrt(error / all), 1e-3);
}

TEST(LearnDictionary, IsExactWithEnoughVectorsAndTerms) {
  const Tensor kernels = random_tensor(DType::f32, {5, 4, 3, 3}, 1, -1, 1);
  EXPECT_LT(learn_dictionary(kernels, 4, 4).error, 1e-3);
  Tensor zeros(DType::f32, {3, 2, 1});
  std::ranges::fill(zeros.mutable_values<float>(), 0.0f);
  const LearnedDictionary learned = learn_dictionary(zeros, 8, 3);  // more vectors than there are samples
  EXPECT_EQ(learned.vectors.shape(), (Shape{3, 2}));
  EXPECT_EQ(learned.error, 0);
}

// conv1 of 3 channels, conv2 of 16, and a classifier.
Model net(std::int64_t group = 1) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const auto constant = [&](const char* name, const Shape& shape, std::uint64_t seed) {
    return builder.constant(random_tensor(DType::f32, shape, seed, -0.3, 0.3), name);
  };
  const ir::Attributes same{{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}};
  ir::ValueId x =
      graph.add_input("input", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 3, 8, 8}));
  x = builder.add("Relu", {builder.add("Conv", {x, constant("conv1.weight", {16, 3, 3, 3}, 1)}, same)});
  ir::Attributes grouped = same;
  grouped["group"] = group;
  x = builder.add("Conv", {x, constant("conv2.weight", {24, 16 / group, 3, 3}, 2), constant("conv2.bias", {24}, 3)},
                  grouped);
  x = builder.add("Flatten", {builder.add("GlobalAveragePool", {builder.add("Relu", {x})})});
  x = builder.add("MatMul", {x, constant("fc.weight", {24, 4}, 4)});
  graph.value(x).name = "output";
  graph.add_output(x);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

TEST(WithDictionaries, ComputesTheSameWithEnoughVectorsAndTerms) {
  DictionaryReport report;
  const Model converted =
      with_dictionaries(net(), {.vectors = 16, .terms = 16, .least_saved = 0, .exclude = {"conv1*"}}, &report);
  ASSERT_EQ(report.layers.size(), 2u);
  EXPECT_EQ(report.layers[0].kept, "excluded by a pattern");
  EXPECT_EQ(report.layers[1].vectors, 16);
  EXPECT_LT(report.layers[1].error, 1e-3);
  const NamedValues input{{"input", random_tensor(DType::f32, {2, 3, 8, 8}, 5, -1, 1)}};
  EXPECT_TRUE(close_to(Session(converted).run(input).at("output").tensor(),
                       Session(net()).run(input).at("output").tensor(), {.absolute = 1e-3}));
}

TEST(WithDictionaries, CountsWhatIsSaved) {
  DictionaryReport report;
  const Model converted = with_dictionaries(net(), {.vectors = 8, .terms = 2}, &report);
  ASSERT_EQ(report.layers.size(), 2u);
  EXPECT_EQ(report.layers[0].kept, "it would take only 1.38 times fewer multiply-adds");
  const double first = 64 * 16 * 27, second = 64 * 24 * 144, last = 24 * 4, smaller = 64 * (8 * 16 + 24 * 9 * 2);
  EXPECT_EQ(report.layers[1].multiply_adds_before, second);
  EXPECT_EQ(report.layers[1].multiply_adds_after, smaller);
  EXPECT_EQ(report.multiply_adds_before, first + second + last);
  EXPECT_EQ(report.multiply_adds_after, first + smaller + last);
  EXPECT_EQ(count_multiply_adds(converted), report.multiply_adds_after);
  EXPECT_EQ(count_multiply_adds(net()), report.multiply_adds_before);
}

TEST(WithDictionaries, WritesStandardOperators) {
  const Model converted = with_dictionaries(net(), {.vectors = 8, .terms = 2});
  const test::TemporaryFolder folder;
  const OptimiseReport written = optimise(converted, folder / "model.onnx");
  EXPECT_TRUE(written.own_operators.empty());
  const NamedValues input{{"input", random_tensor(DType::f32, {2, 3, 8, 8}, 5, -1, 1)}};
  EXPECT_TRUE(close_to(Session(Model::load(folder / "model.onnx")).run(input).at("output").tensor(),
                       Session(converted).run(input).at("output").tensor(), {.absolute = 1e-4}));
}

TEST(WithDictionaries, RefusesWhatDoesNotFit) {
  expect_error_containing(ErrorKind::invalid_argument, "a dictionary has 0 vectors of which 2 are combined",
                          [] { with_dictionaries(net(), {.vectors = 0}); });
  expect_error_containing(ErrorKind::invalid_argument, "exclude: no weight of a layer has a name like 'head*'",
                          [] { with_dictionaries(net(), {.exclude = {"head*"}}); });
  expect_error_containing(ErrorKind::invalid_argument,
                          "no convolution gains by a dictionary: conv1.weight: it would take only",
                          [] { with_dictionaries(net(), {.vectors = 16, .least_saved = 100}); });
  expect_error_containing(ErrorKind::invalid_argument, "conv2.weight: it has groups of channels",
                          [] { with_dictionaries(net(2), {.vectors = 16}); });
}

// Pictures of four classes, each around a pattern of its own.
std::map<std::string, Tensor> pictures() {
  constexpr std::int64_t kSamples = 160, kClasses = 4, kElements = 3 * 8 * 8;
  Tensor x = random_tensor(DType::f32, {kSamples, 3, 8, 8}, 1, -1, 1), y(DType::i64, {kSamples});
  const Tensor patterns = random_tensor(DType::f32, {kClasses, kElements}, 77, -1, 1);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    y.mutable_data<std::int64_t>()[i] = i % kClasses;
    for (std::int64_t k = 0; k < kElements; ++k)
      x.mutable_data<float>()[i * kElements + k] += patterns.data<float>()[i % kClasses * kElements + k];
  }
  return {{"input", x}, {"y", y}};
}

TEST(DictionaryRecipe, TrainsVectorsAndCoefficients) {
  const test::TemporaryFolder folder;
  net().save(folder / "net.onnx");
  CompressionRecipe recipe = parse_compression_recipe(
      "[model]\nfile = \"" + (folder / "net.onnx").string() +
          "\"\n[data]\ntrain = \"none\"\nbatch = 16\nworkers = 1\n[optimiser]\nname = \"adam\"\nlearning_rate = 0.01\n"
          "[train]\nepochs = 8\n[dictionary]\nvectors = 6\nterms = 2\n"
          "[prune]\nsparsity = 0\nlayers = { \"*/coefficients\" = 0.5 }\n",
      "test");
  EXPECT_FALSE(recipe.share.has_value());
  recipe.training.output = (folder / "out").string();
  recipe.training.data.train_arrays = recipe.training.data.test_arrays = pictures();
  const CompressedFold fold = run_deep_compression(recipe).at(0);
  EXPECT_GT(fold.dense, 0.9);
  EXPECT_GT(fold.compressed, 0.9);
  EXPECT_GT(fold.multiply_adds_dense, 3 * fold.multiply_adds);
  const auto layer = std::ranges::find(fold.layers, "conv2.weight/coefficients", &CompressedLayer::name);
  ASSERT_NE(layer, fold.layers.end());
  EXPECT_EQ(layer->weights, 24 * 2 * 9);
  EXPECT_EQ(layer->nonzero, 24 * 9);
  // The package has what was trained: other vectors than those that the weights were taken apart to.
  const Model read = Model::load(fold.path);
  const Tensor* vectors = read.graph().constant(read.graph().find_value("conv2.weight/dictionary"));
  ASSERT_NE(vectors, nullptr);
  EXPECT_EQ(vectors->shape(), (Shape{6, 16}));
}

}  // namespace
}  // namespace tessera::compress::dictionary_test
