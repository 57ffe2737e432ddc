#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"
#include "io/onnx/writer.h"

namespace tessera::test::upgrade_microsoft_test {
namespace {

const io::ReadOptions kAsItIs{.infer = false, .require_supported = false};
using Integers = std::vector<std::int64_t>;

// A model with one node op(x, …) -> y of domain com.microsoft.
struct MicrosoftNode : ModelBuilder {
  tessera_onnx::NodeProto* only;
  MicrosoftNode(const std::string& op, std::initializer_list<std::int64_t> dims,
                std::initializer_list<std::string> inputs = {"x"}, std::initializer_list<std::string> outputs = {"y"})
      : ModelBuilder(21, dims) {
    auto& import = *proto.add_opset_import();
    import.set_domain("com.microsoft");
    import.set_version(1);
    only = &node(op, inputs, outputs);
    only->set_domain("com.microsoft");
  }
  std::string nodes() const { return listing(read(kAsItIs)); }
};

const Integers& permutation(const ir::Graph& graph, std::size_t position) {
  return std::get<Integers>(graph.node(graph.order().at(position)).attributes.at("perm"));
}

TEST(UpgradeMicrosoft, RenamesWhatIsStandard) {
  EXPECT_EQ(MicrosoftNode("Trilu", {2, 2}).nodes(), "Trilu(x) -> y\n");
  EXPECT_EQ(MicrosoftNode("TransposeMatMul", {2, 2}, {"x", "x"}).nodes(), "com.microsoft::FusedMatMul(x, x) -> y\n");
  EXPECT_EQ(MicrosoftNode("Unique", {4}, {"x"}, {"y", "idx", "counts"}).nodes(), "Unique(x) -> y, _, idx, counts\n");
  EXPECT_EQ(MicrosoftNode("Range", {}, {"x", "x"}).nodes(), "Range(x, x, y/constant) -> y\n");
}

TEST(UpgradeMicrosoft, MovesChannelsToTheirPlace) {
  MicrosoftNode model("NhwcFusedConv", {1, 8, 9, 2}, {"x", "w", "", "x"});
  model.initializer("w", DType::f32, {2, 2, 1, 1}, std::string(16, '\0'));
  const ir::Graph graph = model.read(kAsItIs);
  EXPECT_EQ(
      listing(graph),
      "Transpose(x) -> y/Transpose\nTranspose(x) -> y/Transpose_1\n"
      "com.microsoft::FusedConv(y/Transpose, w, _, y/Transpose_1) -> y/Transpose_2\nTranspose(y/Transpose_2) -> y\n");
  EXPECT_EQ(permutation(graph, 0), (Integers{0, 3, 1, 2}));
  EXPECT_EQ(permutation(graph, 3), (Integers{0, 2, 3, 1}));
}

TEST(UpgradeMicrosoft, LeavesChannelsThatComeSecond) {
  MicrosoftNode model("QLinearGlobalAveragePool", {1, 2, 3}, {"x", "x", "x", "x", "x"});
  set(*model.only, "channels_last", std::int64_t{0});
  EXPECT_EQ(model.nodes(), "com.microsoft::QLinearGlobalAveragePool(x, x, x, x, x) -> y\n");
  EXPECT_TRUE(last_node(model.read(kAsItIs)).attributes.empty());
}

TEST(UpgradeMicrosoft, KnowsTheRankOfImagesFromTheWindow) {
  MicrosoftNode model("NhwcMaxPool", {1, 5, 2}, {"flat"});
  model.node("Somewhere", {"x"}, {"flat"}).set_domain("com.example");
  set(*model.only, "kernel_shape", {3});
  EXPECT_EQ(permutation(model.read(kAsItIs), 1), (Integers{0, 2, 1}));
  MicrosoftNode unknown("QLinearAveragePool", {1}, {"flat"});
  unknown.node("Somewhere", {"x"}, {"flat"}).set_domain("com.example");
  set(*unknown.only, "channels_last", std::int64_t{1});
  EXPECT_NE(unknown.error(kAsItIs).find("channels last needs an input of known rank"), std::string::npos)
      << unknown.error(kAsItIs);
}

TEST(UpgradeMicrosoft, RefusesOtherMetrics) {
  MicrosoftNode model("CDist", {2, 2}, {"x", "x"});
  set(*model.only, "metric", "cosine");
  EXPECT_NE(model.error(kAsItIs).find("metric 'cosine'; supported are euclidean and sqeuclidean"), std::string::npos)
      << model.error(kAsItIs);
}

TEST(UpgradeMicrosoft, WritesItsOwnOperatorsBack) {
  MicrosoftNode model("FusedMatMul", {2, 2}, {"x", "x"});
  set(*model.only, "alpha", 0.5f);
  const std::vector<std::byte> bytes = io::write_model_bytes(model.read());
  tessera_onnx::ModelProto written;
  ASSERT_TRUE(written.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(written.graph().node(0).domain(), "com.microsoft");
  EXPECT_EQ(written.graph().node(0).op_type(), "FusedMatMul");
  ASSERT_EQ(written.opset_import_size(), 2);
  EXPECT_EQ(written.opset_import(1).domain(), "com.microsoft");
  EXPECT_EQ(written.opset_import(1).version(), 1);
}

}  // namespace
}  // namespace tessera::test::upgrade_microsoft_test
