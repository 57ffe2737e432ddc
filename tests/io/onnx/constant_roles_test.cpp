#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"
#include "io/onnx/writer.h"
#include "ir/constant_role.h"

namespace tessera::test::constant_roles_test {
namespace {

using enum ir::ConstantRole;

constexpr const char* kKind = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr const char* kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr const char* kFoldedFrom = "pkg.onnxscript.optimizer.folded_from";
const std::string kNumbers(8, '\1');

template <typename Message>
void set_property(Message& message, const char* key, const std::string& value) {
  auto& property = *message.add_metadata_props();
  property.set_key(key);
  property.set_value(value);
}

ir::ConstantRole role(const ir::Graph& graph, const char* name) {
  const ir::ValueId id = graph.find_value(name);
  EXPECT_TRUE(id.valid()) << name;
  return ir::role_of(graph, id);
}

// y = x + every initializer of these names
ir::Graph sum_of(ModelBuilder& model, std::initializer_list<const char*> names) {
  std::string sum = "x";
  for (const char* name : names) {
    model.initializer(name, DType::f32, {2}, kNumbers);
    const std::string next = std::string("sum_") + name;
    model.node("Add", {sum, name}, {next});
    sum = next;
  }
  model.node("Relu", {sum}, {"y"});
  return model.read();
}

TEST(ConstantRoles, OutputsOfConstantNodesAreLiterals) {
  ModelBuilder model;
  auto& tensor = add_attribute(model.node("Constant", {}, {"c"}), "value");
  tensor.set_type(4);
  tensor.mutable_t()->set_data_type(1);
  tensor.mutable_t()->add_dims(2);
  tensor.mutable_t()->set_raw_data(kNumbers);
  model.node("Mul", {"x", "c"}, {"scaled"});
  model.initializer("w", DType::f32, {2}, kNumbers);
  model.node("Add", {"scaled", "w"}, {"y"});
  const ir::Graph graph = model.read();
  EXPECT_EQ(role(graph, "c"), literal);
  EXPECT_EQ(role(graph, "w"), unmarked);
  const ir::Graph again = io::read_model_bytes(io::write_model_bytes(graph), {});
  EXPECT_EQ(role(again, "c"), literal);
  EXPECT_EQ(role(again, "w"), unmarked);
}

TEST(ConstantRoles, KindsBesideTheInitializersAreRead) {
  ModelBuilder model;
  const auto kind = [&](const char* name, const char* text) {
    auto& info = *model.graph().add_value_info();
    declare(info, name, DType::f32, {2});
    set_property(info, kKind, text);
  };
  kind("p", "PARAMETER");
  kind("b", "BUFFER");
  kind("t", "CONSTANT_TENSOR");
  const ir::Graph graph = sum_of(model, {"p", "b", "t", "other"});
  for (const ir::Graph& each : {graph, io::read_model_bytes(io::write_model_bytes(graph), {})}) {
    EXPECT_EQ(role(each, "p"), parameter);
    EXPECT_EQ(role(each, "b"), buffer);
    EXPECT_EQ(role(each, "t"), literal);
    EXPECT_EQ(role(each, "other"), unmarked);  // without a signature nothing is known of it
  }
}

// Both forms in which torch.export prints signatures.
TEST(ConstantRoles, WhatTheExporterMadeFollowsFromTheSignature) {
  for (const char* signature :
       {"# inputs\np_conv_weight: PARAMETER target='conv.weight'\np_fc_weight: PARAMETER target='fc.weight'\n"
        "b_pe: BUFFER target='pe' persistent=True\nx: USER_INPUT\n\n# outputs\n"
        "add: BUFFER_MUTATION target='fc.weight'\ny: USER_OUTPUT\n",
        "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.PARAMETER: 2>, "
        "arg=TensorArgument(name='p_conv_weight'), target='conv.weight', persistent=None), "
        "InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_fc'), target='fc.weight', "
        "persistent=None), InputSpec(kind=<InputKind.BUFFER: 3>, arg=TensorArgument(name='b_pe'), target='pe', "
        "persistent=True), InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=TensorArgument(name='x'), target=None, "
        "persistent=None)], output_specs=[])"}) {
    ModelBuilder model;
    set_property(model.graph(), kSignature, signature);
    const auto folded = [&](const char* name, const char* sources) {
      auto& info = *model.graph().add_value_info();
      declare(info, name, DType::f32, {2});
      set_property(info, kFoldedFrom, sources);
    };
    folded("val_3", "['fc.weight', 'val_1']");
    folded("val_4", "['pe', 'val_2']");
    const ir::Graph graph = sum_of(model, {"conv.weight", "conv.weight_bias", "pe", "val_3", "val_4", "val_5"});
    EXPECT_EQ(role(graph, "conv.weight"), parameter);
    EXPECT_EQ(role(graph, "conv.weight_bias"), parameter);  // of a rewritten layer
    EXPECT_EQ(role(graph, "pe"), buffer);
    EXPECT_EQ(role(graph, "val_3"), parameter);
    EXPECT_EQ(role(graph, "val_4"), literal);
    EXPECT_EQ(role(graph, "val_5"), literal);  // a Constant node that was lifted
  }
}

}  // namespace
}  // namespace tessera::test::constant_roles_test
