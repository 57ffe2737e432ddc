#include "models/models.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::models::models_test {
namespace {

// Without weights a net takes next to no memory.
BuildOptions shapes_only(std::map<std::string, std::int64_t> dims) {
  return {.dims = std::move(dims), .fill_weights = false};
}

// Trained numbers: floating-point weights that are not running statistics; buffers of rank 0 (bounds, factors) are
// none.
std::int64_t parameter_count(const ir::Graph& graph) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* tensor = graph.constant(id);
    if (tensor == nullptr || tensor->dtype() != DType::f32 || tensor->shape().empty()) continue;
    if (graph.value(id).name.find(".running_") == std::string::npos) count += tensor->elements();
  }
  return count;
}

std::string output_types(const ir::Graph& graph) {
  std::string text;
  for (ir::ValueId id : graph.outputs())
    text += (text.empty() ? "" : " ") + graph.value(id).name + ":" + to_string(graph.value(id).type);
  return text;
}

class EveryModel : public testing::TestWithParam<ModelEntry> {};

TEST_P(EveryModel, HasATypeForEveryValue) {
  const ir::Graph graph = build_model(GetParam().name, shapes_only({{"batch", 1}}));
  EXPECT_GT(graph.node_count(), 0u);
  EXPECT_FALSE(graph.inputs().empty());
  EXPECT_FALSE(graph.outputs().empty());
  for (ir::NodeId node : graph.order()) {
    for (ir::ValueId id : graph.node(node).outputs) {
      if (!id.valid()) continue;
      EXPECT_NE(graph.value(id).type.dtype, DType::undefined) << describe(graph, node);
      EXPECT_TRUE(graph.value(id).type.dims.has_value()) << describe(graph, node);
    }
  }
}

TEST_P(EveryModel, KeepsAnUnknownBatch) {
  const ir::Graph graph = build_model(GetParam().name, shapes_only({}));
  const ir::Dims& dims = *graph.value(graph.inputs().front()).type.dims;
  EXPECT_EQ(dims.front(), ir::Dim::symbol("batch"));
}

std::string name_of_entry(const testing::TestParamInfo<ModelEntry>& info) {
  return std::string(info.param.name);
}
INSTANTIATE_TEST_SUITE_P(Zoo, EveryModel, testing::ValuesIn(all_models().begin(), all_models().end()), name_of_entry);

struct Published {
  const char* name;
  std::int64_t parameters;
  const char* outputs;  // for batch 2
};

class VisionModel : public testing::TestWithParam<Published> {};

TEST_P(VisionModel, HasThePublishedSizeAndOutputs) {
  const ir::Graph graph = build_model(GetParam().name, shapes_only({{"batch", 2}}));
  EXPECT_EQ(parameter_count(graph), GetParam().parameters);
  EXPECT_EQ(output_types(graph), GetParam().outputs);
}

// Counts of torchvision's nets and of arXiv:1510.00149; those of lenet5 and of the U-Nets follow from their layers.
INSTANTIATE_TEST_SUITE_P(Zoo, VisionModel,
                         testing::Values(Published{"lenet5", 61'706, "output:f32[2, 10]"},
                                         Published{"lenet_300_100", 266'610, "output:f32[2, 10]"},
                                         Published{"lenet5_caffe", 431'080, "output:f32[2, 10]"},
                                         Published{"resnet18", 11'689'512, "output:f32[2, 1000]"},
                                         Published{"resnet50", 25'557'032, "output:f32[2, 1000]"},
                                         Published{"mobilenet_v2", 3'504'872, "output:f32[2, 1000]"},
                                         Published{"mobilenet_v3_small", 2'542'856, "output:f32[2, 1000]"},
                                         Published{"efficientnet_b0", 5'288'548, "output:f32[2, 1000]"},
                                         Published{"vgg16", 138'357'544, "output:f32[2, 1000]"},
                                         Published{"unet2d", 7'763'074, "output:f32[2, 2, 256, 256]"},
                                         Published{"unet3d", 1'401'282, "output:f32[2, 2, 64, 64, 64]"},
                                         Published{"resnet18_cifar", 11'173'962, "output:f32[2, 10]"},
                                         Published{"resnet8", 78'042, "output:f32[2, 10]"}),
                         [](const auto& info) { return std::string(info.param.name); });

// Sizes of layers are options like those of dimensions; counts follow from the layers.
TEST(Models, SmallNetsHaveTheSizesThatAreAskedFor) {
  const auto counted = [](const char* name, std::map<std::string, std::int64_t> dims) {
    return parameter_count(build_model(name, shapes_only(std::move(dims))));
  };
  EXPECT_EQ(counted("mlp", {{"features", 5}, {"width", 7}, {"layers", 3}, {"classes", 2}}),
            5 * 7 + 7 + 2 * (7 * 7 + 7) + 7 * 2 + 2);
  EXPECT_EQ(counted("cnn_digits", {{"size", 16}, {"width", 4}, {"classes", 3}}),
            (9 + 1) * 4 + (36 + 1) * 4 + (36 + 1) * 8 + (8 * 16 + 1) * 16 + 17 * 3);
  EXPECT_EQ(counted("gru_classifier", {{"width", 6}, {"time", 10}}), 2 * (18 + 18 * 6 + 36) + (10 * 12 + 1) * 10);
  EXPECT_EQ(counted("lstm_classifier", {{"width", 6}, {"time", 10}}), 2 * (24 + 24 * 6 + 48) + (10 * 12 + 1) * 10);
  EXPECT_EQ(counted("dlrm_small", {{"tables", 3}, {"rows", 20}, {"width", 4}, {"dense", 2}, {"hidden", 8}}),
            3 * 80 + (2 + 1) * 8 + (8 + 1) * 4 + (4 + 1) * 4 + (4 + 6 + 1) * 8 + (8 + 1) * 4 + (4 + 1));
  EXPECT_EQ(output_types(build_model("masked_lm", shapes_only({{"vocabulary", 50}, {"seq", 12}}))),
            "output:f32[batch, 12, 50]");
  EXPECT_EQ(output_types(build_model("unet_small", shapes_only({{"size", 16}, {"classes", 3}}))),
            "output:f32[batch, 3, 16, 16]");
  test::expect_error(ErrorKind::invalid_argument, "width 10 cannot be divided among 4 heads",
                     [] { build_model("transformer_small", shapes_only({{"width", 10}})); });
  test::expect_error(ErrorKind::invalid_argument, "cnn_digits: size is 6, expected a multiple of 4",
                     [] { build_model("cnn_digits", shapes_only({{"size", 6}})); });
}

TEST(Models, ABatchThatIsNotGivenStaysSymbolicToTheOutput) {
  EXPECT_EQ(output_types(build_model("resnet18", shapes_only({}))), "output:f32[batch, 1000]");
  EXPECT_EQ(output_types(build_model("mobilenet_v2", shapes_only({}))), "output:f32[batch, 1000]");
  EXPECT_EQ(output_types(build_model("unet2d", shapes_only({}))), "output:f32[batch, 2, 256, 256]");
}

TEST(Models, TheDetectorGivesBoxesScoresAndAChoice) {
  EXPECT_EQ(output_types(build_model("ssd", shapes_only({}))),
            "boxes:f32[batch, 1980, 4] scores:f32[batch, 20, 1980] selected:i64[?, 3]");
}

TEST(Models, TheSeedDecidesTheWeights) {
  const ir::Graph one = build_model("lenet5"), same = build_model("lenet5"), other = build_model("lenet5", {.seed = 2});
  EXPECT_TRUE(ir::structurally_equal(one, same));
  EXPECT_FALSE(ir::structurally_equal(one, other));
}

TEST(Models, RejectsUnknownNetsAndDims) {
  std::string names;
  for (const ModelEntry& entry : all_models()) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  test::expect_error(ErrorKind::invalid_argument, "there is no net 'resnet19'; nets: " + names,
                     [] { build_model("resnet19"); });
  test::expect_error(ErrorKind::invalid_argument, "'lenet5' has no dimension 'seq'; its dimensions: batch",
                     [] { build_model("lenet5", shapes_only({{"seq", 3}})); });
  test::expect_error(ErrorKind::invalid_argument, "dimension 'batch' cannot be 0",
                     [] { build_model("lenet5", shapes_only({{"batch", 0}})); });
}

TEST(Models, RefusesNetsThatTakeAllMemory) {
  test::expect_error(ErrorKind::over_budget, "999999999 layers are more than the 10000 of a net here",
                     [] { build_model("mlp", {.dims = {{"layers", 999'999'999}}}); });
  test::expect_error(ErrorKind::over_budget, "10001 tables are more than the 10000 of a net here",
                     [] { build_model("dlrm_small", {.dims = {{"tables", 10'001}}}); });
  test::expect_error_containing(ErrorKind::over_budget, "the net's weights take more than the ",
                                [] { build_model("mlp", {.dims = {{"features", std::int64_t{1} << 40}}}); });
}

}  // namespace
}  // namespace tessera::models::models_test
