#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"

namespace tessera::test::upgrade_microsoft_transformers_test {
namespace {

const io::ReadOptions kAsItIs{.infer = false, .require_supported = false};

struct OneNode : ModelBuilder {
  tessera_onnx::NodeProto* only;
  OneNode(const std::string& op, std::initializer_list<std::int64_t> dims, std::initializer_list<std::string> inputs,
          std::initializer_list<std::string> outputs = {"y"}, const std::string& domain = "com.microsoft")
      : ModelBuilder(17, dims, outputs) {
    auto& import = *proto.add_opset_import();
    import.set_domain("com.microsoft");
    import.set_version(1);
    only = &node(op, inputs, outputs);
    only->set_domain(domain);
  }
  // Another input of the model.
  OneNode& with(const std::string& name, DType dtype, std::initializer_list<std::int64_t> dims) {
    declare(*graph().add_input(), name, dtype, dims);
    return *this;
  }
};

const std::string& text_of(const ir::Node& node, const std::string& attribute) {
  return std::get<std::string>(node.attributes.at(attribute));
}

TEST(UpgradeMicrosoftTransformers, Gelus) {
  const ir::Graph exact = OneNode("BiasGelu", {2, 3}, {"x", "b"}).with("b", DType::f32, {3}).read(kAsItIs);
  EXPECT_EQ(listing(exact), "Add(x, b) -> y/Add\nGelu(y/Add) -> y\n");
  EXPECT_EQ(text_of(last_node(exact), "approximate"), "none");
  const ir::Graph fast = OneNode("FastGelu", {2, 3}, {"x"}).read(kAsItIs);
  EXPECT_EQ(listing(fast), "Gelu(x) -> y\n");
  EXPECT_EQ(text_of(last_node(fast), "approximate"), "tanh");
  EXPECT_EQ(listing(OneNode("Gelu", {2, 3}, {"x"}).read(kAsItIs)), "Gelu(x) -> y\n");
  OneNode quick("QuickGelu", {2, 3}, {"x"});
  EXPECT_EQ(std::get<float>(last_node(quick.read(kAsItIs)).attributes.at("alpha")), 1.702f);
  set(*quick.only, "alpha", 0.5f);
  EXPECT_EQ(std::get<float>(last_node(quick.read(kAsItIs)).attributes.at("alpha")), 0.5f);
  EXPECT_EQ(listing(quick.read(kAsItIs)), "Swish(x) -> y\n");
}

TEST(UpgradeMicrosoftTransformers, RotaryPositions) {
  OneNode rows("RotaryEmbedding", {2, 4, 3, 8}, {"x", "ids", "cos", "sin"});
  rows.with("ids", DType::i64, {2, 3}).with("cos", DType::f32, {9, 4}).with("sin", DType::f32, {9, 4});
  set(*rows.only, "scale", 2.0f);
  set(*rows.only, "is_packed_batching", std::int64_t{1});
  set(*rows.only, "interleaved", std::int64_t{1});
  const ir::Graph graph = rows.read(kAsItIs);
  EXPECT_EQ(listing(graph), "RotaryEmbedding(x, cos, sin, ids) -> y\n");
  EXPECT_EQ(last_node(graph).attributes.size(), 1u);

  OneNode offset("RotaryEmbedding", {2, 3, 8}, {"x", "ids", "cos", "sin"});
  offset.with("ids", DType::i64, {1}).with("cos", DType::f32, {9, 2}).with("sin", DType::f32, {9, 2});
  set(*offset.only, "num_heads", std::int64_t{2});
  EXPECT_EQ(
      listing(offset.read(kAsItIs)),
      "Shape(x) -> y/Shape\nShape(x) -> y/Shape_1\nSqueeze(y/Shape_1, y/constant) -> y/Squeeze\n"
      "Range(y/constant_2, y/Squeeze, y/constant_3) -> y/Range\nReshape(ids, y/constant_4) -> y/Reshape\n"
      "Add(y/Reshape, y/Range) -> y/Add\nConcat(y/Shape, y/Shape_1) -> y/Concat\nExpand(y/Add, y/Concat) -> y/Expand\n"
      "RotaryEmbedding(x, cos, sin, y/Expand) -> y\n");
}

TEST(UpgradeMicrosoftTransformers, SimplifiedLayerNormalization) {
  OneNode one("SimplifiedLayerNormalization", {2, 3, 4}, {"x", "scale"}, {"y"}, "");
  one.with("scale", DType::f32, {4});
  EXPECT_EQ(listing(one.read(kAsItIs)), "RMSNormalization(x, scale) -> y\n");
  OneNode two("SimplifiedLayerNormalization", {2, 3, 4}, {"x", "scale"}, {"y", "deviation"}, "");
  two.with("scale", DType::f32, {4});
  set(*two.only, "axis", std::int64_t{1});
  const ir::Graph graph = two.read(kAsItIs);
  EXPECT_EQ(listing(graph),
            "Cast(x) -> y/Cast\nMul(y/Cast, y/Cast) -> y/Mul\nReduceMean(y/Mul, y/constant) -> y/ReduceMean\n"
            "Add(y/ReduceMean, y/constant_1) -> y/Add\nSqrt(y/Add) -> y/Sqrt\nRMSNormalization(x, scale) -> "
            "y\nReciprocal(y/Sqrt) -> deviation\n");
  EXPECT_EQ(graph.constant(graph.find_value("y/constant"))->values<std::int64_t>().size(), 2u);
}

TEST(UpgradeMicrosoftTransformers, Gates) {
  OneNode add("GatedAdd", {2, 4}, {"x", "x", "gate"});
  add.with("gate", DType::f32, {2, 1});
  EXPECT_EQ(listing(add.read(kAsItIs)), "Mul(x, gate) -> y/Mul\nAdd(x, y/Mul) -> y\n");
  OneNode silu("ScaledSiLU", {2, 4}, {"x"});
  set(*silu.only, "alpha", 2.0f);
  const ir::Graph scaled = silu.read(kAsItIs);
  EXPECT_EQ(listing(scaled), "CastLike(y/constant, x) -> y/CastLike\nMul(x, y/CastLike) -> y/Mul\nSwish(y/Mul) -> y\n");
  EXPECT_EQ(scaled.constant(scaled.find_value("y/constant"))->values<float>()[0], 2.0f);
  OneNode norm("GatedRMSNorm", {2, 4}, {"x", "scale", "x"});
  norm.with("scale", DType::f32, {2});
  set(*norm.only, "activation", "relu");
  EXPECT_EQ(norm.error(kAsItIs),
            "invalid model: activation is 'relu', expected silu, swish or sigmoid (in node 'the_GatedRMSNorm' "
            "(GatedRMSNorm))");
}

TEST(UpgradeMicrosoftTransformers, StreamsOfPositions) {
  OneNode model("MRotaryEmbedding", {1, 2, 3, 8}, {"x", "ids", "cos", "sin"});
  model.with("ids", DType::i64, {3, 1, 3}).with("cos", DType::f32, {9, 4}).with("sin", DType::f32, {9, 4});
  set(*model.only, "mrope_section", {1, 2, 1});
  const ir::Graph graph = model.read(kAsItIs);
  EXPECT_EQ(last_node(graph).op, "RotaryEmbedding");
  EXPECT_EQ(last_node(graph).inputs.size(), 3u);
  // The first choice made is that of the second stream's columns.
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op != "Where") continue;
    const auto mine = graph.constant(graph.node(id).inputs[0])->values<bool>();
    EXPECT_EQ(std::vector<bool>(mine.begin(), mine.end()), (std::vector<bool>{false, true, true, false}));
    break;
  }
  OneNode broken("MRotaryEmbedding", {1, 2, 3, 8}, {"x", "x", "x", "x"});
  set(*broken.only, "mrope_section", {1, 2});
  EXPECT_EQ(broken.error(kAsItIs),
            "invalid model: mrope_section is [1, 2], expected three sizes from 0 to 65536 (in node "
            "'the_MRotaryEmbedding' (MRotaryEmbedding))");
}

TEST(UpgradeMicrosoftTransformers, RefusesWhatIsBroken) {
  OneNode far("SimplifiedLayerNormalization", {2, 3, 4}, {"x", "x"}, {"y", "deviation"}, "");
  set(*far.only, "axis", std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(far.error(kAsItIs),
            "invalid model: axis -9223372036854775808 is outside [-3, 3) of a tensor of rank 3 (in node "
            "'the_SimplifiedLayerNormalization' "
            "(SimplifiedLayerNormalization))");
  EXPECT_EQ(OneNode("RotaryEmbedding", {2, 3, 8}, {"x"}).error(kAsItIs),
            "invalid model: input 1 is missing (in node 'the_RotaryEmbedding' (RotaryEmbedding))");
}

}  // namespace
}  // namespace tessera::test::upgrade_microsoft_transformers_test
