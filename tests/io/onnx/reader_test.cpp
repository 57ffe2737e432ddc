#include "io/onnx/reader.h"

#include <gtest/gtest.h>

#include "onnx.pb.h"
#include "tessera/error.h"

namespace tessera::test {
namespace {

using namespace tessera_onnx;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void declare(ValueInfoProto& info, const std::string& name, DType dtype, std::initializer_list<std::int64_t> dims) {
  info.set_name(name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int>(dtype));
  auto* shape = info.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (std::int64_t dim : dims) shape->add_dim()->set_dim_value(dim);
}

NodeProto& add_node(GraphProto& graph, const std::string& op, std::initializer_list<std::string> inputs,
                    std::initializer_list<std::string> outputs) {
  NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name("the_" + op);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

// x[2] -> Relu -> y
ModelProto relu_model() {
  ModelProto model;
  model.set_ir_version(10);
  auto* opset = model.add_opset_import();
  opset->set_version(21);
  declare(*model.mutable_graph()->add_input(), "x", DType::f32, {2});
  declare(*model.mutable_graph()->add_output(), "y", DType::f32, {2});
  add_node(*model.mutable_graph(), "Relu", {"x"}, {"y"});
  return model;
}

ir::Graph read(const ModelProto& model, const io::ReadOptions& options = {}) {
  return io::read_model_bytes(bytes_of(model.SerializeAsString()), options);
}

std::string error_of(const ModelProto& model) {
  try {
    read(model);
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  }
  return "no error";
}

TEST(OnnxReader, ReadsNodesInputsAndOutputs) {
  const ir::Graph graph = read(relu_model());
  ASSERT_EQ(graph.node_count(), 1u);
  const ir::Node& node = graph.node(graph.order()[0]);
  EXPECT_EQ(node.op, "Relu");
  EXPECT_EQ(node.name, "the_Relu");
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "y");
  EXPECT_EQ(to_string(graph.value(graph.outputs()[0]).type), "f32[2]");
  EXPECT_EQ(graph.metadata.at("opset:ai.onnx"), "21");
}

TEST(OnnxReader, NamesEverythingUnsupportedAtOnce) {
  ModelProto model = relu_model();
  add_node(*model.mutable_graph(), "Foo", {"x"}, {"a"});
  add_node(*model.mutable_graph(), "Bar", {"x"}, {"b"}).set_domain("com.example");
  EXPECT_EQ(error_of(model),
            "unsupported: the model needs what is not supported: operator Bar of 'com.example' version 1 ('the_Bar'); "
            "operator Foo of 'ai.onnx' version 21 ('the_Foo')");
}

TEST(OnnxReader, RefusesTruncatedFilesAtEveryLength) {
  ModelProto model = relu_model();
  auto* initializer = model.mutable_graph()->add_initializer();
  initializer->set_name("w");
  initializer->set_data_type(1);
  initializer->add_dims(2);
  initializer->set_raw_data(std::string(8, '\1'));
  const std::string whole = model.SerializeAsString();
  EXPECT_NO_THROW(io::read_model_bytes(bytes_of(whole)));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    try {
      io::read_model_bytes(bytes_of(whole.substr(0, length)));
    } catch (const Error&) {
      continue;
    }
    // What is cut off may be a field that is not needed; then reading the rest is right.
  }
}

}  // namespace
}  // namespace tessera::test
