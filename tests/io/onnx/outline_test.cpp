// A file is shown as it is written, not as Tessera runs it.
#include "io/onnx/outline.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/onnx/model_builder.h"
#include "io/package.h"
#include "ir/text.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::test::outline_test {
namespace {

class OutlineTest : public testing::Test {
 protected:
  io::Outline outline_of(const ModelBuilder& model, const ModelLimits& limits = {}) {
    std::ofstream(path, std::ios::binary) << model.proto.SerializeAsString();
    return io::read_outline(path, limits);
  }
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.onnx";
};

template <typename T>
const T& attribute(const io::OutlineNode& node, const std::string& name) {
  const auto found = std::ranges::find(node.attributes, name, &io::OutlineAttribute::name);
  if (found == node.attributes.end()) throw std::runtime_error("no attribute " + name);
  return std::get<T>(found->value);
}

TEST_F(OutlineTest, OperatorsKeepTheVersionThatTheyHaveInTheFile) {
  ModelBuilder model(9);  // where Clip has attributes; the newest has inputs
  auto& clip = model.node("Clip", {"x"}, {"y"});
  set(clip, "max", 6.0f);
  set(clip, "min", 0.0f);
  clip.set_doc_string("bounded");
  auto& constant = model.node("Constant", {}, {"k"});
  auto& value = add_attribute(constant, "value");
  value.set_type(4);
  value.mutable_t()->set_data_type(7);
  value.mutable_t()->add_int64_data(9);
  model.initializer("w", DType::f32, {2}, "12345678");
  const io::OutlineGraph graph = outline_of(model).graph;
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[0].op, "Clip");
  EXPECT_EQ(graph.nodes[0].inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(graph.nodes[0].attributes[0].name, "max");  // in the order of the file
  EXPECT_EQ(attribute<float>(graph.nodes[0], "max"), 6);
  EXPECT_EQ(graph.nodes[0].doc_string, "bounded");
  EXPECT_TRUE(identical(attribute<Tensor>(graph.nodes[1], "value"), Tensor::scalar(std::int64_t{9})));
  ASSERT_EQ(graph.weights.size(), 1u);
  EXPECT_EQ(graph.weights[0].tensor.shape(), Shape{2});
  EXPECT_EQ(ir::to_string(graph.inputs[0].type), "f32[2]");
}

TEST_F(OutlineTest, FunctionsAndSubgraphsStayWhatTheyAre) {
  ModelBuilder model;
  auto& call = model.node("Twice", {"x"}, {"y"});
  call.set_domain("org.example");
  auto& branch = add_attribute(call, "body");
  branch.set_type(5);
  branch.mutable_g()->set_name("inner");
  add_node(*branch.mutable_g()->mutable_node(), "Neg", {"x"}, {"z"});
  auto& function = *model.proto.add_functions();
  function.set_domain("org.example");
  function.set_name("Twice");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("slope");
  auto& inner = add_node(*function.mutable_node(), "LeakyRelu", {"a"}, {"b"});
  auto& slope = add_attribute(inner, "alpha");
  slope.set_type(1);
  slope.set_ref_attr_name("slope");
  const io::Outline outline = outline_of(model);
  ASSERT_EQ(outline.graph.nodes.size(), 1u);
  EXPECT_EQ(outline.graph.nodes[0].op, "org.example::Twice");
  const auto& graphs = attribute<std::vector<io::OutlineGraphPointer>>(outline.graph.nodes[0], "body");
  ASSERT_EQ(graphs.size(), 1u);
  EXPECT_EQ(graphs[0]->name, "inner");
  EXPECT_EQ(graphs[0]->nodes[0].op, "Neg");
  ASSERT_EQ(outline.functions.size(), 1u);
  EXPECT_EQ(outline.functions[0].name, "org.example::Twice");
  EXPECT_EQ(outline.functions[0].attributes, std::vector<std::string>{"slope"});
  EXPECT_EQ(attribute<io::OutlineReference>(outline.functions[0].body.nodes[0], "alpha").attribute, "slope");
}

TEST_F(OutlineTest, ReadsTheGraphOfAPackage) {
  ir::Graph graph = ir::parse(
      "graph \"tiny\" { input %x : f32[2, 1000] constant %small = f32[] {3} %y = Mul \"scale\" (%x, %small) : f32[2, "
      "1000] output %y }");
  Tensor large(DType::f32, {1000});
  std::fill_n(large.mutable_data<float>(), 1000, 2.0f);
  const ir::ValueId weights = graph.add_constant(large, "large"), sum = graph.add_value("sum");
  graph.add_node({"Add", "shift", {graph.outputs()[0], weights}, {sum}, {}, 0});
  graph.set_outputs({sum});
  io::write_package(path, graph, {"1", "cpu", "scalar", "f32", {}, {}, false}, {});
  const io::OutlineGraph read = io::read_outline(path).graph;
  EXPECT_EQ(read.nodes[1].op, "Add");
  const auto found = std::ranges::find(read.weights, "large", &io::OutlineWeight::name);
  ASSERT_NE(found, read.weights.end());
  EXPECT_TRUE(identical(found->tensor, large));  // its data lie in another section of the file
}

TEST_F(OutlineTest, RefusesWhatTheReaderRefuses) {
  ModelBuilder model;
  for (int i = 0; i < 100; ++i) model.node("Relu", {"x"}, {"y" + std::to_string(i)});
  expect_error_containing(ErrorKind::over_budget, "which is the limit",
                          [&] { outline_of(model, {.max_parsed_bytes = 1000}); });
  std::ofstream(path, std::ios::binary) << "this is no model\n";
  expect_error_containing(ErrorKind::invalid_model, "file " + path.string(), [&] { io::read_outline(path); });
  expect_error_containing(ErrorKind::not_found, "missing.onnx", [&] { io::read_outline(folder / "missing.onnx"); });
  ModelBuilder short_data;
  short_data.node("Relu", {"x"}, {"y"});
  short_data.initializer("w", DType::f32, {2}, "123");
  expect_error_containing(ErrorKind::invalid_model, "3 bytes", [&] { outline_of(short_data); });
}

}  // namespace
}  // namespace tessera::test::outline_test
