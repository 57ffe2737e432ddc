// Corners of the file format: what is read, what is left out and said, what is refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "io/onnx/model_builder.h"
#include "io/onnx/writer.h"
#include "support/temporary_folder.h"

namespace tessera::test::format_test {
namespace {

TEST(OnnxFormat, ReadsEveryIrVersion) {
  for (std::int64_t version = 1; version <= 13; ++version) {
    ModelBuilder model(version < 3 ? 1 : 21);
    model.proto.set_ir_version(version);
    if (version < 3) model.proto.clear_opset_import();  // they came with version 3
    auto& node = model.node("LeakyRelu", {"x"}, {"y"});
    set(node, "alpha", 0.5f);
    if (version < 2) node.mutable_attribute(0)->clear_type();  // attribute types came with version 2
    const ir::Graph graph = model.read();
    EXPECT_EQ(std::get<float>(last_node(graph).attributes.at("alpha")), 0.5f) << version;
    EXPECT_EQ(graph.metadata.at("ir_version"), std::to_string(version));
  }
  ModelBuilder newer;
  newer.proto.set_ir_version(14);
  newer.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(newer.error(), "unsupported: the file is of IR version 14; the newest that is supported is 13");
}

TEST(OnnxFormat, ReadsEveryFormOfConstant) {
  const auto constant_of = [](const std::string& name, const std::function<void(tessera_onnx::AttributeProto&)>& fill) {
    ModelBuilder model;
    auto& attribute = add_attribute(model.node("Constant", {}, {"y"}), name);
    fill(attribute);
    const ir::Graph graph = model.read();
    return *graph.constant(graph.outputs()[0]);
  };
  using Attribute = tessera_onnx::AttributeProto;
  EXPECT_TRUE(identical(constant_of("value_float",
                                    [](Attribute& a) {
                                      a.set_type(1);
                                      a.set_f(2.5f);
                                    }),
                        Tensor::scalar(2.5f)));
  EXPECT_TRUE(identical(constant_of("value_int",
                                    [](Attribute& a) {
                                      a.set_type(2);
                                      a.set_i(-3);
                                    }),
                        Tensor::scalar(std::int64_t{-3})));
  EXPECT_TRUE(identical(constant_of("value_string",
                                    [](Attribute& a) {
                                      a.set_type(3);
                                      a.set_s("text");
                                    }),
                        Tensor::scalar(std::string("text"))));
  EXPECT_TRUE(identical(constant_of("value_floats",
                                    [](Attribute& a) {
                                      a.set_type(6);
                                      a.add_floats(1);
                                      a.add_floats(2);
                                    }),
                        Tensor::from<float>({2}, {1, 2})));
  EXPECT_TRUE(identical(constant_of("value_ints",
                                    [](Attribute& a) {
                                      a.set_type(7);
                                      a.add_ints(7);
                                    }),
                        Tensor::from<std::int64_t>({1}, {7})));
  EXPECT_TRUE(identical(constant_of("value_strings",
                                    [](Attribute& a) {
                                      a.set_type(8);
                                      a.add_strings("a");
                                      a.add_strings("");
                                    }),
                        Tensor::from<std::string>({2}, {"a", ""})));
  EXPECT_TRUE(identical(constant_of("value",
                                    [](Attribute& a) {
                                      a.set_type(4);
                                      a.mutable_t()->set_data_type(7);
                                      a.mutable_t()->add_int64_data(9);
                                    }),
                        Tensor::scalar(std::int64_t{9})));

  ModelBuilder none;
  none.node("Constant", {}, {"y"});
  EXPECT_EQ(none.error().substr(0, 33), "invalid model: has 0 attributes, ");
  ModelBuilder wrong;
  set(wrong.node("Constant", {}, {"y"}), "value_float", std::int64_t{1});
  EXPECT_EQ(
      wrong.error(),
      "invalid model: attribute 'value_float' of type 2 is no value of a constant (in node 'the_Constant' (Constant))");
}

TEST(OnnxFormat, TellsOverloadsApart) {
  ModelBuilder model;
  for (const char* overload : {"a", "b"}) {
    auto& function = add_function(model, "F", {"in"}, {"out"});
    function.set_overload(overload);
    add_node(*function.mutable_node(), overload[0] == 'a' ? "Relu" : "Sigmoid", {"in"}, {"out"});
  }
  auto& call = model.node("F", {"x"}, {"y"});
  call.set_domain("local");
  call.set_overload("b");
  EXPECT_EQ(last_node(model.read()).op, "Sigmoid");
  call.set_overload("c");
  EXPECT_EQ(model.error(),
            "unsupported: the model needs what is not supported: operator F of 'local' version 1 ('the_F')");
}

// Each function with the operator sets that it imports itself.
TEST(OnnxFormat, FunctionsCallFunctionsOfOtherDomains) {
  ModelBuilder model(21);
  auto& inner = add_function(model, "Inner", {"a"}, {"b"});
  inner.set_domain("other");
  inner.add_opset_import()->set_version(9);
  add_node(*inner.mutable_node(), "Clip", {"a"}, {"b"});  // bounds were attributes
  set(*inner.mutable_node(0), "max", 6.0f);
  auto& outer = add_function(model, "Outer", {"a"}, {"b"});
  auto* import = outer.add_opset_import();
  import->set_domain("other");
  import->set_version(1);
  add_node(*outer.mutable_node(), "Inner", {"a"}, {"b"}).set_domain("other");
  model.node("Outer", {"x"}, {"y"}).set_domain("local");
  const ir::Graph graph = model.read();
  EXPECT_EQ(last_node(graph).op, "Clip");
  EXPECT_EQ(graph.constant(last_node(graph).inputs.at(2))->values<float>()[0], 6);
}

tessera_onnx::AttributeProto& add_graph(google::protobuf::RepeatedPtrField<tessera_onnx::AttributeProto>& attributes,
                                        const std::string& name, const std::string& op, const std::string& input) {
  auto& attribute = *attributes.Add();
  attribute.set_name(name);
  attribute.set_type(5);
  add_node(*attribute.mutable_g()->mutable_node(), op, {input}, {"out"});
  attribute.mutable_g()->add_output()->set_name("out");
  return attribute;
}

// A function whose If takes its branches from the function's attributes.
ModelBuilder model_with_branches() {
  ModelBuilder model;
  declare(*model.graph().add_input(), "c", DType::boolean, {});
  auto& function = add_function(model, "Choose", {"cond", "a"}, {"b"});
  auto& node = add_node(*function.mutable_node(), "If", {"cond"}, {"b"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& attribute = add_attribute(node, branch);
    attribute.set_type(5);
    attribute.set_ref_attr_name(branch);
  }
  model.node("Choose", {"c", "x"}, {"y"}).set_domain("local");
  return model;
}

TEST(OnnxFormat, FunctionsHaveSubgraphsAsDefaults) {
  ModelBuilder model = model_with_branches();
  for (const char* branch : {"then_branch", "else_branch"})
    add_graph(*model.proto.mutable_functions(0)->mutable_attribute_proto(), branch, "Relu", "a");
  const ir::Graph graph = model.read();
  EXPECT_EQ(listing(graph), "If(c, x) -> y\n");
}

TEST(OnnxFormat, RefusesSubgraphsAsArguments) {
  ModelBuilder model = model_with_branches();
  for (const char* branch : {"then_branch", "else_branch"}) {
    model.proto.mutable_functions(0)->add_attribute(branch);
    add_graph(*model.graph().mutable_node(0)->mutable_attribute(), branch, "Relu", "x");
  }
  EXPECT_EQ(model.error(), "unsupported: subgraphs as arguments of functions (in node 'the_Choose' (Choose))");
}

TEST(OnnxFormat, AttributesThatAreListsOfGraphsCountWhereTheOperatorIsKnown) {
  for (const std::string op : {"Relu", "Foo"}) {
    ModelBuilder model;
    auto& attribute = add_attribute(model.node(op, {"x"}, {"y"}), "graphs");
    attribute.set_type(10);
    attribute.add_graphs();
    if (op == "Relu") {
      EXPECT_EQ(model.error(),
                "unsupported: the model needs what is not supported: operator Relu of 'ai.onnx' version 21: attributes "
                "that are lists of graphs ('the_Relu')");
    } else {
      EXPECT_EQ(model.error(),
                "unsupported: the model needs what is not supported: operator Foo of 'ai.onnx' version 21 ('the_Foo')");
      EXPECT_EQ(listing(model.read({.infer = false, .require_supported = false})), "Foo(x) -> y\n");
    }
  }
  ModelBuilder types;
  auto& attribute = add_attribute(types.node("Relu", {"x"}, {"y"}), "types");
  attribute.set_type(14);
  attribute.add_type_protos();
  EXPECT_EQ(types.error(),
            "unsupported: the model needs what is not supported: operator Relu of 'ai.onnx' version 21: attributes "
            "that are lists of types ('the_Relu')");
}

TEST(OnnxFormat, SaysWhatItLeavesOut) {
  ModelBuilder model;
  auto& node = model.node("Relu", {"x"}, {"y"});
  node.add_metadata_props()->set_key("origin");
  model.graph().add_metadata_props()->set_key("namespace");
  model.graph().add_quantization_annotation()->set_tensor_name("x");
  model.proto.add_training_info();
  auto& property = *model.proto.add_metadata_props();
  property.set_key("author");
  property.set_value("someone");
  const ir::Graph graph = model.read();
  EXPECT_EQ(graph.metadata.at("ignored:training_info"), "1");
  EXPECT_EQ(graph.metadata.at("ignored:quantization_annotation"), "1");
  EXPECT_EQ(graph.metadata.at("ignored:metadata_props of graph and nodes"), "2");
  EXPECT_EQ(graph.metadata.at("property:author"), "someone");
  // What was left out of one file is no property of the next.
  const ir::Graph again = io::read_model_bytes(io::write_model_bytes(graph));
  EXPECT_EQ(again.metadata.at("property:author"), "someone");
  for (const auto& [key, value] : again.metadata) EXPECT_EQ(key.find("ignored"), std::string::npos) << key;
}

TEST(OnnxFormat, RefusesWhatIsMissingOrTooMuch) {
  ModelBuilder without_condition;
  without_condition.node("If", {}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"})
    add_graph(*without_condition.graph().mutable_node(0)->mutable_attribute(), branch, "Relu", "x");
  EXPECT_EQ(without_condition.error(), "invalid model: input 'cond' is missing (in node 'the_If' (If))");

  ModelBuilder high_rank;
  auto& tensor = high_rank.initializer("w", DType::f32, {}, std::string(4, '\0'));
  for (int i = 0; i < 65; ++i) tensor.add_dims(1);
  high_rank.node("Relu", {"w"}, {"y"});
  EXPECT_EQ(high_rank.error(), "unsupported: a tensor of rank 65; at most 64 is supported (in tensor 'w')");

  ModelBuilder spatial(7, {2, 3});
  auto& node = spatial.node("BatchNormalization", {"x", "x", "x", "x", "x"}, {"y", "mean"});
  set(node, "spatial", std::int64_t{0});
  EXPECT_EQ(spatial.error(),
            "unsupported: the model needs what is not supported: operator BatchNormalization of 'ai.onnx' version 7: "
            "training with spatial = 0 ('the_BatchNormalization')");
}

// External data beyond 4 GiB, in a file of holes.
TEST(OnnxFormat, ReadsExternalDataOfManyGigabytes) {
  const TemporaryFolder folder;
  constexpr std::int64_t large = (std::int64_t{3} << 30) + 64, far = (std::int64_t{5} << 30) + 4;
  {
    const int file = ::open((folder / "weights.bin").c_str(), O_CREAT | O_WRONLY, 0600);
    ASSERT_GE(file, 0);
    const float values[2] = {1.5f, -2.5f};
    ASSERT_EQ(::ftruncate(file, far + 8), 0);
    ASSERT_EQ(::pwrite(file, values, 8, far), 8);
    ASSERT_EQ(::pwrite(file, "x", 1, large - 1), 1);
    ::close(file);
  }
  ModelBuilder model(21, {2}, {"y", "large"});
  const auto add = [&](const std::string& name, DType dtype, std::int64_t elements, std::int64_t offset) {
    auto& tensor = *model.graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(static_cast<int>(dtype));
    tensor.add_dims(elements);
    tensor.set_data_location(1);
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>{"location", "weights.bin"}, {"offset", std::to_string(offset)}}) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
  };
  add("large", DType::u8, large, 0);
  add("w", DType::f32, 2, far);
  model.node("Add", {"x", "w"}, {"y"});
  std::ofstream(folder / "model.onnx", std::ios::binary) << model.text();
  const ir::Graph graph = io::read_model(folder / "model.onnx");
  EXPECT_TRUE(identical(*graph.constant(graph.find_value("w")), Tensor::from<float>({2}, {1.5f, -2.5f})));
  const Tensor& whole = *graph.constant(graph.find_value("large"));
  EXPECT_EQ(whole.bytes(), large);
  EXPECT_EQ(whole.data<std::uint8_t>()[large - 1], 'x');

  add("beyond", DType::f32, 3, far);
  std::ofstream(folder / "model.onnx", std::ios::binary) << model.text();
  try {
    io::read_model(folder / "model.onnx");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "external data: 12 bytes at offset 5368709124 of 'weights.bin', which has 5368709132 bytes");
  }
}

}  // namespace
}  // namespace tessera::test::format_test
