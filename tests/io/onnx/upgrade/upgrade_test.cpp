#include "io/onnx/upgrade/upgrade.h"

#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"
#include "tessera/session.h"

namespace tessera::test::upgrade_test {
namespace {

const io::ReadOptions kAsItIs{.infer = false, .require_supported = false};

std::vector<std::int64_t> integers(const ir::Graph& graph, ir::ValueId id) {
  const auto values = graph.constant(id)->values<std::int64_t>();
  return {values.begin(), values.end()};
}
using Integers = std::vector<std::int64_t>;

// A model with one node op(x) -> y of that version.
struct OneNode : ModelBuilder {
  tessera_onnx::NodeProto* only;
  OneNode(const std::string& op, std::int64_t version, std::initializer_list<std::int64_t> dims = {2, 3, 4},
          std::initializer_list<std::string> inputs = {"x"}, std::initializer_list<std::string> outputs = {"y"})
      : ModelBuilder(version, dims) {
    only = &node(op, inputs, outputs);
  }
};

TEST(Upgrade, AxesBecomeAnInput) {
  for (const auto& [op, version] :
       {std::pair{"ReduceMean", 13}, {"ReduceSum", 11}, {"Squeeze", 1}, {"Unsqueeze", 11}}) {
    OneNode model(op, version);
    set(*model.only, "axes", {1});
    const ir::Graph graph = model.read(kAsItIs);
    const ir::Node& node = last_node(graph);
    EXPECT_TRUE(node.attributes.empty()) << op;
    EXPECT_EQ(integers(graph, node.inputs.at(1)), Integers{1}) << op;
  }
}

TEST(Upgrade, KeepsTheNewestForm) {
  OneNode model("ReduceMean", 18);
  set(*model.only, "keepdims", std::int64_t{0});
  const ir::Graph graph = model.read(kAsItIs);
  EXPECT_EQ(last_node(graph).inputs.size(), 1u);
  EXPECT_EQ(last_node(graph).attributes.size(), 1u);
}

TEST(Upgrade, SliceAttributes) {
  OneNode model("Slice", 1);
  set(*model.only, "starts", {0});
  set(*model.only, "ends", {1});
  set(*model.only, "axes", {2});
  const ir::Graph graph = model.read(kAsItIs);
  const ir::Node& node = last_node(graph);
  ASSERT_EQ(node.inputs.size(), 4u);
  EXPECT_EQ(integers(graph, node.inputs[2]), Integers{1});
  EXPECT_EQ(integers(graph, node.inputs[3]), Integers{2});
  EXPECT_EQ(OneNode("Slice", 9).error(kAsItIs),
            "invalid model: attribute 'starts' is missing (in node 'the_Slice' (Slice))");
}

TEST(Upgrade, ClipAttributes) {
  OneNode model("Clip", 6);
  set(*model.only, "max", 6.0f);
  const ir::Graph graph = model.read(kAsItIs);
  const ir::Node& node = last_node(graph);
  ASSERT_EQ(node.inputs.size(), 3u);
  EXPECT_FALSE(node.inputs[1].valid());
  EXPECT_EQ(graph.constant(node.inputs[2])->values<float>()[0], 6.0f);
}

TEST(Upgrade, PadAttributes) {
  OneNode model("Pad", 1, {2});
  set(*model.only, "paddings", {1, 2});
  set(*model.only, "value", 3.0f);
  const ir::Graph graph = model.read(kAsItIs);
  const ir::Node& node = last_node(graph);
  EXPECT_EQ(integers(graph, node.inputs.at(1)), (Integers{1, 2}));
  EXPECT_EQ(graph.constant(node.inputs.at(2))->values<float>()[0], 3.0f);
}

TEST(Upgrade, ReshapeTopKSplitAndDft) {
  OneNode reshape("Reshape", 1);
  set(*reshape.only, "shape", {-1});
  const ir::Graph reshaped = reshape.read(kAsItIs);
  EXPECT_EQ(integers(reshaped, last_node(reshaped).inputs.at(1)), Integers{-1});

  OneNode top("TopK", 1, {5}, {"x"}, {"y", "i"});
  set(*top.only, "k", std::int64_t{3});
  const ir::Graph chosen = top.read(kAsItIs);
  EXPECT_EQ(integers(chosen, last_node(chosen).inputs.at(1)), Integers{3});

  OneNode split("Split", 2, {4}, {"x"}, {"y", "z"});
  set(*split.only, "split", {1, 3});
  const ir::Graph sized = split.read(kAsItIs);
  EXPECT_EQ(integers(sized, last_node(sized).inputs.at(1)), (Integers{1, 3}));
  const ir::Graph equal = OneNode("Split", 13, {4}, {"x"}, {"y", "z"}).read(kAsItIs);
  EXPECT_EQ(std::get<std::int64_t>(last_node(equal).attributes.at("num_outputs")), 2);

  const ir::Graph dft = OneNode("DFT", 17, {1, 8, 1}).read(kAsItIs);
  EXPECT_EQ(integers(dft, last_node(dft).inputs.at(2)), Integers{1});
}

TEST(Upgrade, DropoutOfInference) {
  OneNode model("Dropout", 7, {2}, {"x"}, {"y", "mask"});
  set(*model.only, "ratio", 0.3f);
  const ir::Graph graph = model.read(kAsItIs);
  EXPECT_EQ(listing(graph), "Dropout(x) -> y, y/Cast\nCast(y/Cast) -> mask\n");
  EXPECT_TRUE(last_node(graph).attributes.empty());
}

TEST(Upgrade, DropoutOfTraining) {
  const ir::Graph graph = OneNode("Dropout", 6, {2}).read(kAsItIs);
  const ir::Node& node = last_node(graph);
  EXPECT_EQ(graph.constant(node.inputs.at(1))->values<float>()[0], 0.5f);
  EXPECT_TRUE(graph.constant(node.inputs.at(2))->values<bool>()[0]);
}

TEST(Upgrade, AlignsOperandsByAxis) {
  OneNode model("Add", 6, {2, 3, 4, 5}, {"x", "b"});
  model.initializer("b", DType::f32, {3}, std::string(12, '\0'));
  set(*model.only, "broadcast", std::int64_t{1});
  set(*model.only, "axis", std::int64_t{1});
  set(*model.only, "consumed_inputs", {0, 0});
  model.proto.mutable_opset_import(0)->set_version(1);
  const ir::Graph graph = model.read(kAsItIs);
  EXPECT_EQ(listing(graph), "Unsqueeze(b, y/constant) -> y/Unsqueeze\nAdd(x, y/Unsqueeze) -> y\n");
  EXPECT_EQ(integers(graph, graph.find_value("y/constant")), (Integers{1, 2}));
  EXPECT_TRUE(last_node(graph).attributes.empty());
}

TEST(Upgrade, PReluSlopeOfChannels) {
  OneNode model("PRelu", 6, {2, 3, 4}, {"x", "b"});
  model.initializer("b", DType::f32, {3}, std::string(12, '\0'));
  EXPECT_EQ(listing(model.read(kAsItIs)), "Unsqueeze(b, y/constant) -> y/Unsqueeze\nPRelu(x, y/Unsqueeze) -> y\n");
}

TEST(Upgrade, GemmAndTile) {
  OneNode gemm("Gemm", 6, {2, 2}, {"x", "x", "x"});
  set(*gemm.only, "broadcast", std::int64_t{1});
  EXPECT_TRUE(last_node(gemm.read(kAsItIs)).attributes.empty());

  OneNode tile("Tile", 1, {2, 3}, {"x", "n", "a"});
  tile.initializer("n", DType::f32, {1}, std::string("\0\0\0\x40", 4));    // 2
  tile.initializer("a", DType::f32, {1}, std::string("\0\0\x80\x3f", 4));  // 1
  EXPECT_EQ(listing(tile.read(kAsItIs)),
            "Cast(n) -> y/Cast\nReshape(y/Cast, y/constant) -> y/Reshape\nConcat(y/constant_1, y/Reshape, "
            "y/constant_2) -> y/Concat\nTile(x, y/Concat) -> y\n");
}

TEST(Upgrade, SoftmaxOverSeveralAxes) {
  const ir::Graph graph = OneNode("Softmax", 11).read(kAsItIs);  // axis 1 of 3
  EXPECT_EQ(listing(graph),
            "Flatten(x) -> y/Flatten\nSoftmax(y/Flatten) -> y/Softmax\nShape(x) -> y/Shape\nReshape(y/Softmax, "
            "y/Shape) -> y\n");
  OneNode last("LogSoftmax", 11, {2, 3});
  EXPECT_EQ(listing(last.read(kAsItIs)), "LogSoftmax(x) -> y\n");
  EXPECT_EQ(std::get<std::int64_t>(last_node(last.read(kAsItIs)).attributes.at("axis")), 1);
  EXPECT_EQ(listing(OneNode("Hardmax", 1, {2, 3, 1, 1}).read(kAsItIs)), "Hardmax(x) -> y\n")
      << "the other axes have one element";
}

TEST(Upgrade, BatchNormalization) {
  OneNode train("BatchNormalization", 9, {2, 3}, {"x", "x", "x", "x", "x"}, {"y", "m", "v", "", ""});
  const ir::Graph trained = train.read(kAsItIs);
  EXPECT_EQ(std::get<std::int64_t>(last_node(trained).attributes.at("training_mode")), 1);
  EXPECT_EQ(last_node(trained).outputs.size(), 3u);

  OneNode element("BatchNormalization", 7, {2, 3}, {"x", "x", "x", "x", "x"});
  set(*element.only, "spatial", std::int64_t{0});
  EXPECT_EQ(listing(element.read(kAsItIs)),
            "Add(x, y/constant) -> y/Add\nSqrt(y/Add) -> y/Sqrt\nSub(x, x) -> y/Sub\nDiv(y/Sub, y/Sqrt) -> "
            "y/Div\nMul(y/Div, x) -> y/Mul\nAdd(y/Mul, x) -> y\n");

  OneNode saved("BatchNormalization", 9, {2, 3}, {"x", "x", "x", "x", "x"}, {"y", "m", "v", "sm", "sv"});
  const ir::Graph saving = saved.read(kAsItIs);
  EXPECT_EQ(saving.node(saving.value(saving.find_value("sm")).producer).op, "ReduceMean");
  EXPECT_EQ(saving.node(saving.value(saving.find_value("y")).producer).outputs.size(), 3u);
}

TEST(Upgrade, GroupNormalizationScalesByChannel) {
  OneNode model("GroupNormalization", 18, {2, 4, 5}, {"x", "s", "s"});
  model.initializer("s", DType::f32, {2}, std::string(8, '\0'));
  set(*model.only, "num_groups", std::int64_t{2});
  const ir::Graph graph = model.read(kAsItIs);
  EXPECT_EQ(graph.node_count(), 10u);
  EXPECT_EQ(last_node(graph).op, "GroupNormalization");
  EXPECT_EQ(graph.value(last_node(graph).inputs[1]).name, "y/Reshape");
}

TEST(Upgrade, UpsampleBecomesResize) {
  OneNode model("Upsample", 1, {1, 1, 2, 2});
  set(*model.only, "height_scale", 2.0f);
  set(*model.only, "width_scale", 3.0f);
  set(*model.only, "mode", "bilinear");
  const ir::Graph graph = model.read(kAsItIs);
  const ir::Node& node = last_node(graph);
  EXPECT_EQ(node.op, "Resize");
  EXPECT_FALSE(node.inputs.at(1).valid());
  EXPECT_EQ(graph.constant(node.inputs.at(2))->values<float>()[3], 3.0f);
  EXPECT_EQ(std::get<std::string>(node.attributes.at("mode")), "linear");
  EXPECT_EQ(std::get<std::string>(node.attributes.at("coordinate_transformation_mode")), "asymmetric");
}

TEST(Upgrade, ResizeOfTensorFlow) {
  OneNode model("Resize", 11, {1, 1, 2, 2}, {"x", "none", "none", "sizes"});
  model.initializer("none", DType::f32, {0}, "");
  model.initializer("sizes", DType::i64, {4}, std::string(32, '\1'));
  set(*model.only, "coordinate_transformation_mode", "tf_half_pixel_for_nn");
  set(*model.only, "nearest_mode", "floor");
  const ir::Graph graph = model.read(kAsItIs);
  const ir::Node& node = last_node(graph);
  EXPECT_FALSE(node.inputs[1].valid() || node.inputs[2].valid());
  EXPECT_EQ(std::get<std::string>(node.attributes.at("coordinate_transformation_mode")), "half_pixel");
  EXPECT_EQ(std::get<std::string>(node.attributes.at("nearest_mode")), "round_prefer_ceil");
}

TEST(Upgrade, AttributesThatChanged) {
  OneNode cast("Cast", 1);
  set(*cast.only, "to", "INT64");
  EXPECT_EQ(std::get<std::int64_t>(last_node(cast.read(kAsItIs)).attributes.at("to")), 7);
  EXPECT_EQ(std::get<std::int64_t>(last_node(OneNode("Concat", 1).read(kAsItIs)).attributes.at("axis")), 1);
  EXPECT_EQ(std::get<float>(last_node(OneNode("Selu", 1).read(kAsItIs)).attributes.at("alpha")), 1.6732f);
  EXPECT_EQ(last_node(OneNode("Scatter", 9).read(kAsItIs)).op, "ScatterElements");
  EXPECT_EQ(std::get<std::string>(last_node(OneNode("GridSample", 16).read(kAsItIs)).attributes.at("mode")), "linear");
  EXPECT_EQ(std::get<std::string>(
                last_node(OneNode("RoiAlign", 10).read(kAsItIs)).attributes.at("coordinate_transformation_mode")),
            "output_half_pixel");
  OneNode pool("GlobalLpPool", 1);
  set(*pool.only, "p", 3.0f);
  EXPECT_EQ(std::get<std::int64_t>(last_node(pool.read(kAsItIs)).attributes.at("p")), 3);
  OneNode lstm("LSTM", 1);
  set(*lstm.only, "output_sequence", std::int64_t{1});
  EXPECT_TRUE(last_node(lstm.read(kAsItIs)).attributes.empty());
}

TEST(Upgrade, LabelEncoderOfOneList) {
  ModelBuilder model;
  auto* import = model.proto.add_opset_import();
  import->set_domain("ai.onnx.ml");
  import->set_version(1);
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(8);
  auto& node = model.node("LabelEncoder", {"x"}, {"y"});
  node.set_domain("ai.onnx.ml");
  auto& classes = add_attribute(node, "classes_strings");
  classes.set_type(8);
  classes.add_strings("cat");
  classes.add_strings("dog");
  const ir::Graph graph = model.read(kAsItIs);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(last_node(graph).attributes.at("values_int64s")), (Integers{0, 1}));
  EXPECT_EQ(std::get<std::vector<std::string>>(last_node(graph).attributes.at("keys_strings"))[1], "dog");
}

TEST(Upgrade, ScanOfABatch) {
  OneNode model("Scan", 8, {2, 3, 4}, {"", "x"}, {"y"});
  set(*model.only, "num_scan_inputs", std::int64_t{1});
  auto& attribute = add_attribute(*model.only, "body");
  attribute.set_type(5);
  auto& body = *attribute.mutable_g();
  body.add_input()->set_name("row");
  add_node(*body.mutable_node(), "Relu", {"row"}, {"out"});
  body.add_output()->set_name("out");
  const ir::Graph graph = model.read(kAsItIs);
  EXPECT_EQ(listing(graph), "Scan(x) -> y\n");
  const ir::Graph& sequence = *std::get<ir::SubgraphPointer>(last_node(graph).attributes.at("body"));
  EXPECT_EQ(listing(sequence), "Scan(in_1) -> out_0\n");
  EXPECT_EQ(to_string(sequence.value(sequence.inputs()[0]).type), "f32[3, 4]");
}

// Running sums over two sequences of one and three steps: what comes after the end of a sequence is zero.
TEST(Upgrade, ScanOfABatchWithLengths) {
  for (const bool reverse : {false, true}) {
    ModelBuilder model(8, {2, 3, 1}, {"last", "sums"});
    declare(*model.graph().add_input(), "lengths", DType::i64, {2});
    declare(*model.graph().add_input(), "start", DType::f32, {2, 1});
    auto& node = model.node("Scan", {"lengths", "start", "x"}, {"last", "sums"});
    set(node, "num_scan_inputs", std::int64_t{1});
    if (reverse) set(node, "directions", {1});
    auto& attribute = add_attribute(node, "body");
    attribute.set_type(5);
    auto& body = *attribute.mutable_g();
    body.add_input()->set_name("sum");
    body.add_input()->set_name("next");
    add_node(*body.mutable_node(), "Add", {"sum", "next"}, {"more"});
    add_node(*body.mutable_node(), "Identity", {"more"}, {"out"});
    body.add_output()->set_name("more");
    body.add_output()->set_name("out");
    Session session(Model(std::make_shared<const ir::Graph>(model.read())));
    const NamedValues outputs = session.run({{"x", Tensor::from<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6})},
                                             {"lengths", Tensor::from<std::int64_t>({2}, {1, 3})},
                                             {"start", Tensor::from<float>({2, 1}, {10, 20})}});
    EXPECT_TRUE(identical(outputs.at("last").tensor(), Tensor::from<float>({2, 1}, {11, 35})));
    const Tensor sums =
        Tensor::from<float>({2, 3, 1}, {11, 0, 0, reverse ? 26.0f : 24.0f, reverse ? 31.0f : 29.0f, 35});
    EXPECT_TRUE(identical(outputs.at("sums").tensor(), sums)) << reverse;
  }
}

// Two channels of (1, 3) and (2, 6) over batch and position: means 2 and 4, variances 1 and 4.
TEST(Upgrade, BatchNormalizationSavesStatistics) {
  ModelBuilder model(9, {2, 2, 1}, {"y", "mean", "variance"});
  for (const char* name : {"scale", "bias", "in_mean", "in_variance"})
    declare(*model.graph().add_input(), name, DType::f32, {2});
  model.node("BatchNormalization", {"x", "scale", "bias", "in_mean", "in_variance"}, {"y", "", "", "mean", "variance"});
  Session session(Model(std::make_shared<const ir::Graph>(model.read())));
  const Tensor ones = Tensor::from<float>({2}, {1, 1}), zeros = Tensor::from<float>({2}, {0, 0});
  const NamedValues outputs = session.run({{"x", Tensor::from<float>({2, 2, 1}, {1, 2, 3, 6})},
                                           {"scale", ones},
                                           {"bias", zeros},
                                           {"in_mean", zeros},
                                           {"in_variance", ones}});
  EXPECT_TRUE(identical(outputs.at("mean").tensor(), Tensor::from<float>({2}, {2, 4})));
  EXPECT_TRUE(identical(outputs.at("variance").tensor(), Tensor::from<float>({2}, {1, 4})));
  EXPECT_NEAR(outputs.at("y").tensor().data<float>()[0], -1, 1e-4);  // the batch's own statistics
}

}  // namespace
}  // namespace tessera::test::upgrade_test
