// Small ONNX models built message by message, as files of any exporter and version may be.
#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include "io/onnx/reader.h"
#include "onnx.pb.h"
#include "tessera/error.h"

namespace tessera::test {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline void declare(tessera_onnx::ValueInfoProto& info, const std::string& name, DType dtype,
                    std::initializer_list<std::int64_t> dims) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(dtype));
  type.mutable_shape();
  for (std::int64_t dim : dims) type.mutable_shape()->add_dim()->set_dim_value(dim);
}

inline tessera_onnx::AttributeProto& add_attribute(tessera_onnx::NodeProto& node, const std::string& name) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  return attribute;
}
inline void set(tessera_onnx::NodeProto& node, const std::string& name, std::int64_t value) {
  auto& attribute = add_attribute(node, name);
  attribute.set_type(2);
  attribute.set_i(value);
}
inline void set(tessera_onnx::NodeProto& node, const std::string& name, float value) {
  auto& attribute = add_attribute(node, name);
  attribute.set_type(1);
  attribute.set_f(value);
}
inline void set(tessera_onnx::NodeProto& node, const std::string& name, const char* value) {
  auto& attribute = add_attribute(node, name);
  attribute.set_type(3);
  attribute.set_s(value);
}
inline void set(tessera_onnx::NodeProto& node, const std::string& name, std::initializer_list<std::int64_t> values) {
  auto& attribute = add_attribute(node, name);
  attribute.set_type(7);
  attribute.mutable_ints()->Assign(values.begin(), values.end());
}

inline tessera_onnx::NodeProto& add_node(google::protobuf::RepeatedPtrField<tessera_onnx::NodeProto>& nodes,
                                         const std::string& op, std::initializer_list<std::string> inputs,
                                         std::initializer_list<std::string> outputs) {
  auto& node = *nodes.Add();
  node.set_op_type(op);
  node.set_name("the_" + op);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

// A model with one float input "x" of these dimensions, and outputs without a declared type.
struct ModelBuilder {
  tessera_onnx::ModelProto proto;

  explicit ModelBuilder(std::int64_t opset = 21, std::initializer_list<std::int64_t> dims = {2},
                        std::initializer_list<std::string> outputs = {"y"}) {
    proto.set_ir_version(10);
    proto.add_opset_import()->set_version(opset);
    declare(*graph().add_input(), "x", DType::f32, dims);
    for (const std::string& output : outputs) graph().add_output()->set_name(output);
  }
  tessera_onnx::GraphProto& graph() { return *proto.mutable_graph(); }
  tessera_onnx::NodeProto& node(const std::string& op, std::initializer_list<std::string> inputs,
                                std::initializer_list<std::string> outputs) {
    return add_node(*graph().mutable_node(), op, inputs, outputs);
  }
  tessera_onnx::TensorProto& initializer(const std::string& name, DType dtype, std::initializer_list<std::int64_t> dims,
                                         const std::string& raw) {
    auto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(static_cast<int>(dtype));
    for (std::int64_t dim : dims) tensor.add_dims(dim);
    tensor.set_raw_data(raw);
    return tensor;
  }
  std::string text() const { return proto.SerializeAsString(); }
  ir::Graph read(const io::ReadOptions& options = {}) const { return io::read_model_bytes(bytes_of(text()), options); }
  // "kind: what" of the error that reading throws.
  std::string error(const io::ReadOptions& options = {}) const {
    try {
      read(options);
    } catch (const Error& error) {
      return std::string(to_string(error.kind())) + ": " + error.what();
    }
    return "no error";
  }
};

inline tessera_onnx::FunctionProto& add_function(ModelBuilder& model, const std::string& name,
                                                 std::initializer_list<std::string> inputs,
                                                 std::initializer_list<std::string> outputs) {
  auto& function = *model.proto.add_functions();
  function.set_name(name);
  function.set_domain("local");
  for (const std::string& input : inputs) function.add_input(input);
  for (const std::string& output : outputs) function.add_output(output);
  return function;
}

// "Op(input, input) -> output, output" a node, in order; absent values are "_".
inline std::string listing(const ir::Graph& graph) {
  std::string text;
  auto name = [&graph](ir::ValueId id) { return id.valid() ? graph.value(id).name : std::string("_"); };
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    text += node.op + "(";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) text += (i > 0 ? ", " : "") + name(node.inputs[i]);
    text += ") ->";
    for (std::size_t i = 0; i < node.outputs.size(); ++i) text += (i > 0 ? ", " : " ") + name(node.outputs[i]);
    text += "\n";
  }
  return text;
}

// The node that makes the graph's first output.
inline const ir::Node& last_node(const ir::Graph& graph) {
  return graph.node(graph.value(graph.outputs()[0]).producer);
}

}  // namespace tessera::test
