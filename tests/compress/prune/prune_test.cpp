#include "tessera/prune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/models.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/pruned_model.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"
#include "tessera/optimise.h"
#include "train/net/layer_weights.h"
#include "train/net/magnitude_mask.h"

namespace tessera::compress::prune_test {
namespace {

using test::expect_error_containing;
using test::masked;
using test::output_of;

Model net(const char* name, std::map<std::string, std::int64_t> dims = {{"batch", 2}}) {
  return Model(std::make_shared<const ir::Graph>(models::build_model(name, {.dims = std::move(dims)})));
}

class Channels : public testing::TestWithParam<const char*> {};

TEST_P(Channels, GoWithoutChangingWhatIsLeft) {
  const Model model = net(GetParam());
  for (const bool global : {false, true}) {
    PruneReport report;
    const Model smaller = prune(model, {.sparsity = 0.5, .structure = "channels", .global = global}, &report);
    EXPECT_LT(report.parameters_after, report.parameters_before * 3 / 5) << GetParam();
    const Tensor expected = output_of(masked(model, report)), actual = output_of(smaller);
    EXPECT_TRUE(test::close_to(actual, expected, test::Tolerance::epsilons(DType::f32, 500))) << GetParam();
    // What is written is read, with its smaller shapes.
    const test::TemporaryFolder folder;
    for (const char* name : {"small.onnx", "small.tsr"}) {
      const std::string path = (folder.path() / name).string();
      const std::int64_t bytes = write_pruned(smaller, path);
      EXPECT_EQ(static_cast<std::uintmax_t>(bytes), std::filesystem::file_size(path));
      EXPECT_TRUE(identical(output_of(Model::load(path)), actual)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, Channels,
                         testing::Values("lenet5_caffe", "lenet_300_100", "mlp", "resnet8", "cnn_digits", "conv1d"));

// Inverted residuals: depthwise convolutions, sums, squeeze and excitation.
TEST(ChannelsOfMobileNets, GoInTiedSets) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const auto weight = [&](const char* name, const Shape& shape, std::uint64_t seed) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed, -1, 1), name);
  };
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2, 3, 6, 6}));
  const ir::ValueId stem = builder.add("Conv", {x, weight("stem", {8, 3, 1, 1}, 1)});
  ir::ValueId y = builder.add("Relu", {builder.add("Conv", {stem, weight("expand", {24, 8, 1, 1}, 2)})});
  y = builder.add("Conv", {y, weight("depthwise", {24, 1, 3, 3}, 3)},
                  {{"group", std::int64_t{24}}, {"pads", std::vector<std::int64_t>(4, 1)}});
  const ir::ValueId squeezed = builder.add(
      "Relu", {builder.add("Conv", {builder.add("GlobalAveragePool", {y}), weight("squeeze", {6, 24, 1, 1}, 4)})});
  y = builder.add("Mul",
                  {y, builder.add("Sigmoid", {builder.add("Conv", {squeezed, weight("excite", {24, 6, 1, 1}, 5)})})});
  y = builder.add("Mul", {y, weight("scale", {24, 1, 1}, 6)});
  y = builder.add("Add", {stem, builder.add("Conv", {y, weight("project", {8, 24, 1, 1}, 7), weight("bias", {8}, 8)})});
  y = builder.add("Concat", {y, stem}, {{"axis", std::int64_t{1}}});
  y = builder.add(
      "Reshape",
      {builder.add("MaxPool", {y},
                   {{"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"strides", std::vector<std::int64_t>{2, 2}}}),
       builder.integers({2, 16 * 9})});
  y = builder.add("Gemm", {y, weight("head", {10, 16 * 9}, 9), weight("head_bias", {10}, 10)},
                  {{"transB", std::int64_t{1}}});
  graph.value(y).name = "y";
  graph.add_output(y);
  const Model model(std::make_shared<const ir::Graph>(graph));
  PruneReport report;
  const Model smaller = prune(model, {.sparsity = 0.5, .structure = "channels"}, &report);
  const auto shape = [&](const char* name) {
    return smaller.graph().constant(smaller.graph().find_value(name))->shape();
  };
  EXPECT_EQ(shape("stem"), (Shape{4, 3, 1, 1}));
  EXPECT_EQ(shape("expand"), (Shape{12, 4, 1, 1}));
  EXPECT_EQ(shape("depthwise"), (Shape{12, 1, 3, 3}));
  EXPECT_EQ(shape("excite"), (Shape{12, 3, 1, 1}));
  EXPECT_EQ(shape("scale"), (Shape{12, 1, 1}));
  EXPECT_EQ(shape("project"), (Shape{4, 12, 1, 1}));
  EXPECT_EQ(shape("bias"), (Shape{4}));
  EXPECT_EQ(shape("head"), (Shape{10, 8 * 9}));
  EXPECT_TRUE(
      test::close_to(output_of(smaller), output_of(masked(model, report)), test::Tolerance::epsilons(DType::f32, 500)));
}

TEST(Channels, StayWhereAnOperatorMixesThem) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{1, 3, 4, 4}));
  ir::ValueId y = builder.add("Conv", {x, graph.add_constant(test::random_tensor(DType::f32, {4, 3, 1, 1}, 1), "w")});
  y = builder.add("Softmax", {y}, {{"axis", std::int64_t{1}}});
  y = builder.add("Conv", {y, graph.add_constant(test::random_tensor(DType::f32, {4, 4, 1, 1}, 2), "v")});
  graph.add_output(y);
  const Model model(std::make_shared<const ir::Graph>(graph));
  expect_error_containing(ErrorKind::invalid_argument, "no channel can go: they are kept by ",
                          [&] { prune(model, {.sparsity = 0.5, .structure = "channels"}); });
}

TEST(Prune, SetsTheSmallestWeightsToZero) {
  const Model model = net("lenet_300_100");
  PruneReport report;
  const auto sparsity = [](const Model& pruned, const char* name) {
    return train::sparsity_of(*pruned.graph().constant(pruned.graph().find_value(name)));
  };
  Model pruned = prune(model, {.sparsity = 0.8, .exclude = {"fc3*"}}, &report);
  EXPECT_NEAR(sparsity(pruned, "fc1.weight"), 0.8, 1e-5);
  EXPECT_NEAR(sparsity(pruned, "fc2.weight"), 0.8, 1e-4);
  EXPECT_EQ(sparsity(pruned, "fc3.weight"), 0);
  EXPECT_EQ(report.layers.size(), 2u);
  EXPECT_EQ(report.layers[0].nonzero_after, 47040);
  pruned = prune(model, {.sparsity = 0.8, .global = true});
  EXPECT_NE(sparsity(pruned, "fc1.weight"), sparsity(pruned, "fc2.weight"));
  pruned = prune(model, {.structure = "2:4"});
  EXPECT_EQ(sparsity(pruned, "fc2.weight"), 0.5);
}

TEST(Prune, CallsLayersOfNumberedWeightsByTheirModules) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const auto constant = [&](const char* name, const Shape& shape) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, 3, -1, 1), name);
  };
  ir::ValueId y = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2, 3, 8}));
  y = builder.add("MatMul", {y, constant("onnx::MatMul_140", {8, 8})});
  y = builder.add("Add", {constant("encoder.linear1.bias", {8}), y});
  y = builder.add("MatMul", {y, constant("val_12", {8, 8})});
  graph.node(graph.value(y).producer).name = "/decoder/MatMul";
  y = builder.add("MatMul", {y, constant("head.weight", {8, 4})});
  graph.add_output(y);
  const Model model(std::make_shared<const ir::Graph>(graph));
  PruneReport report;
  prune(model, {}, &report);
  std::vector<std::string> labels;
  for (const PrunedLayer& layer : report.layers) labels.push_back(layer.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"encoder.linear1", "/decoder/MatMul", "head.weight"}));
  prune(model, {.exclude = {"encoder.*"}}, &report);
  EXPECT_EQ(report.layers.size(), 2u);
  EXPECT_EQ(report.layers[0].name, "val_12");
}

TEST(Prune, RefusesWhatDoesNotFit) {
  const Model model = net("lenet_300_100");
  expect_error_containing(ErrorKind::invalid_argument, "the sparsity is 1, expected a number in [0, 1)",
                          [&] { prune(model, {.sparsity = 1}); });
  expect_error_containing(ErrorKind::invalid_argument, "the structure is '4:2'",
                          [&] { prune(model, {.structure = "4:2"}); });
  expect_error_containing(ErrorKind::invalid_argument, "exclude: no weight of a layer has a name like 'conv*'",
                          [&] { prune(model, {.exclude = {"conv*"}}); });
  expect_error_containing(ErrorKind::invalid_argument, "whose inputs are a multiple of 64",
                          [&] { prune(model, {.structure = "3:64"}); });
}

TEST(Prune, OfAnOptimisedModelIsRefusedInPlaceOfPruningWhatIsNotFused) {
  const test::TemporaryFolder folder;
  for (const char* name : {"mlp", "resnet8"}) {
    const std::filesystem::path path = folder.path() / "optimised.tsr";
    optimise(net(name), path, {});
    const Model optimised = Model::load(path);
    for (const char* structure : {"none", "channels"})
      expect_error_containing(ErrorKind::invalid_argument, "prune the .onnx model that it was made from",
                              [&] { prune(optimised, {.sparsity = 0.5, .structure = structure}); });
  }
}

}  // namespace
}  // namespace tessera::compress::prune_test
