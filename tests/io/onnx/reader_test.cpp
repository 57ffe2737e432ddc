#include "io/onnx/reader.h"

#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"

namespace tessera::test::reader_test {
namespace {

const std::string kOnes("\0\0\x80\x3f\0\0\x80\x3f", 8);  // two float ones

TEST(OnnxReader, ReadsNodesInputsAndOutputs) {
  ModelBuilder model(21);
  model.node("Relu", {"x"}, {"y"});
  const ir::Graph graph = model.read();
  EXPECT_EQ(listing(graph), "Relu(x) -> y\n");
  EXPECT_EQ(last_node(graph).name, "the_Relu");
  EXPECT_EQ(to_string(graph.value(graph.outputs()[0]).type), "f32[2]");
  EXPECT_EQ(graph.metadata.at("opset:ai.onnx"), "21");
}

TEST(OnnxReader, SortsNodes) {
  ModelBuilder model;
  model.node("Sigmoid", {"h"}, {"y"});
  model.node("Relu", {"x"}, {"h"});
  EXPECT_EQ(listing(model.read()), "Relu(x) -> h\nSigmoid(h) -> y\n");
}

TEST(OnnxReader, ViewsInitializersInTheGivenBytes) {
  ModelBuilder model;
  model.initializer("w", DType::u8, {8}, std::string(8, 'w'));
  model.graph().mutable_output(0)->set_name("w");
  const auto owner = std::make_shared<std::string>(model.text());
  const ir::Graph graph = io::read_model_bytes(bytes_of(*owner), {}, owner);
  const Tensor& tensor = *graph.constant(graph.outputs()[0]);
  const auto* first = static_cast<const char*>(tensor.raw());
  EXPECT_TRUE(first >= owner->data() && first < owner->data() + owner->size());
  EXPECT_EQ(tensor.values<std::uint8_t>()[7], 'w');
}

TEST(OnnxReader, InputsWithInitializersAreConstants) {
  ModelBuilder model;
  declare(*model.graph().add_input(), "w", DType::f32, {2});
  model.initializer("w", DType::f32, {2}, kOnes);
  model.node("Concat", {"x", "w"}, {"y"});
  set(*model.graph().mutable_node(0), "axis", std::int64_t{0});
  const ir::Graph graph = model.read();
  EXPECT_EQ(graph.inputs().size(), 1u);
  EXPECT_TRUE(graph.is_constant(graph.find_value("w")));
}

TEST(OnnxReader, ConstantNodesAreConstants) {
  ModelBuilder model;
  auto& attribute = add_attribute(model.node("Constant", {}, {"y"}), "value_ints");
  attribute.set_type(7);
  attribute.add_ints(4);
  const ir::Graph graph = model.read();
  EXPECT_EQ(graph.node_count(), 0u);
  EXPECT_EQ(graph.constant(graph.outputs()[0])->values<std::int64_t>()[0], 4);
}

TEST(OnnxReader, SparseConstantsBecomeDense) {
  ModelBuilder model;
  auto& attribute = add_attribute(model.node("Constant", {}, {"y"}), "sparse_value");
  attribute.set_type(11);
  auto& sparse = *attribute.mutable_sparse_tensor();
  sparse.mutable_values()->set_data_type(1);
  sparse.mutable_values()->add_dims(1);
  sparse.mutable_values()->add_float_data(5);
  sparse.mutable_indices()->set_data_type(7);
  sparse.mutable_indices()->add_dims(1);
  sparse.mutable_indices()->add_dims(2);
  sparse.mutable_indices()->add_int64_data(1);
  sparse.mutable_indices()->add_int64_data(0);
  sparse.add_dims(2);
  sparse.add_dims(2);
  const ir::Graph graph = model.read();
  EXPECT_EQ(graph.constant(graph.outputs()[0])->values<float>()[2], 5);

  attribute.mutable_sparse_tensor()->set_dims(0, std::int64_t{1} << 40);
  EXPECT_EQ(model.error(),
            "over budget: a sparse tensor of shape [1099511627776, 2] has 8796093022208 bytes when dense, but of the "
            "limit 268435456 are left "
            "(in node 'the_Constant' (Constant))");
}

TEST(OnnxReader, SubgraphsAreClosed) {
  ModelBuilder model;
  declare(*model.graph().add_input(), "c", DType::boolean, {});
  model.initializer("w", DType::f32, {2}, kOnes);
  model.node("Relu", {"x"}, {"h"});
  auto& node = model.node("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& attribute = add_attribute(node, name);
    attribute.set_type(5);
    auto& branch = *attribute.mutable_g();
    if (name[0] == 't') {
      set(add_node(*branch.mutable_node(), "Concat", {"h", "w", "x"}, {"o"}), "axis", std::int64_t{0});
      branch.add_output()->set_name("o");
    } else {
      branch.add_output()->set_name("x");  // a captured value as it is
    }
  }
  const ir::Graph graph = model.read({.infer = false, .require_supported = false});
  EXPECT_EQ(listing(graph), "Relu(x) -> h\nIf(c, h, x) -> y\n");
  const ir::Node& read = last_node(graph);
  EXPECT_EQ(read.captures, 2);
  const ir::Graph& then_branch = *std::get<ir::SubgraphPointer>(read.attributes.at("then_branch"));
  EXPECT_EQ(listing(then_branch), "Concat(h, w, x) -> o\n");
  EXPECT_EQ(then_branch.inputs().size(), 2u);
  EXPECT_TRUE(
      then_branch.constant(then_branch.find_value("w"))->shares_storage_with(*graph.constant(graph.find_value("w"))));
  const ir::Graph& else_branch = *std::get<ir::SubgraphPointer>(read.attributes.at("else_branch"));
  EXPECT_EQ(else_branch.outputs()[0], else_branch.inputs()[1]);
}

TEST(OnnxReader, InlinesFunctionsWithAttributes) {
  ModelBuilder model;
  auto& inner = add_function(model, "Inner", {"a"}, {"b"});
  inner.add_attribute("axis");
  auto& softmax = add_node(*inner.mutable_node(), "Softmax", {"a"}, {"b"});
  add_attribute(softmax, "axis").set_ref_attr_name("axis");
  auto& outer = add_function(model, "Outer", {"a"}, {"b", "a2"});
  auto& preset = *outer.add_attribute_proto();
  preset.set_name("dim");
  preset.set_type(2);
  preset.set_i(-1);
  add_node(*outer.mutable_node(), "Relu", {"a"}, {"h"});
  auto& call = add_node(*outer.mutable_node(), "Inner", {"h"}, {"b"});
  call.set_domain("local");
  add_attribute(call, "axis").set_ref_attr_name("dim");
  add_node(*outer.mutable_node(), "Identity", {"a"}, {"a2"});
  model.node("Outer", {"x"}, {"y"}).set_domain("local");
  const ir::Graph graph = model.read({.infer = false, .require_supported = false});
  EXPECT_EQ(listing(graph), "Relu(x) -> the_Outer/h\nSoftmax(the_Outer/h) -> y\nIdentity(x) -> the_Outer/a2\n");
  EXPECT_EQ(std::get<std::int64_t>(last_node(graph).attributes.at("axis")), -1);
}

TEST(OnnxReader, RefusesRecursiveAndExplodingFunctions) {
  ModelBuilder recursive;
  add_node(*add_function(recursive, "F", {"a"}, {"b"}).mutable_node(), "F", {"a"}, {"b"}).set_domain("local");
  recursive.node("F", {"x"}, {"y"}).set_domain("local");
  EXPECT_EQ(recursive.error().substr(0, 47), "invalid model: function 'F' calls itself (in no");

  ModelBuilder bomb;
  for (int level = 0; level < 40; ++level) {
    auto& function = add_function(bomb, "F" + std::to_string(level), {"a"}, {"b"});
    const std::string next = "F" + std::to_string(level + 1);
    add_node(*function.mutable_node(), next, {"a"}, {"h"}).set_domain("local");
    add_node(*function.mutable_node(), next, {"h"}, {"b"}).set_domain("local");
  }
  add_node(*add_function(bomb, "F40", {"a"}, {"b"}).mutable_node(), "Relu", {"a"}, {"b"});
  bomb.node("F0", {"x"}, {"y"}).set_domain("local");
  EXPECT_EQ(bomb.error().substr(0, 68), "over budget: the model's functions expand to more than 100000 nodes ");
}

TEST(OnnxReader, NamesEverythingUnsupportedAtOnce) {
  ModelBuilder model;
  for (int i = 0; i < 7; ++i) model.node("Foo", {"x"}, {"f" + std::to_string(i)}).set_name("foo" + std::to_string(i));
  model.node("Bar", {"x"}, {"y"}).set_domain("com.example");
  EXPECT_EQ(model.error(),
            "unsupported: the model needs what is not supported: operator Bar of 'com.example' version 1 ('the_Bar'); "
            "operator Foo of 'ai.onnx' version 21 ('foo0', 'foo1', 'foo2', 'foo3', 'foo4' and 2 more)");
}

TEST(OnnxReader, RefusesBrokenGraphs) {
  ModelBuilder twice;
  twice.node("Relu", {"x"}, {"y"});
  twice.node("Sigmoid", {"x"}, {"y"});
  EXPECT_EQ(twice.error(), "invalid model: node 'the_Sigmoid' (Sigmoid) defines value 'y', which is defined already");

  ModelBuilder unknown;
  unknown.node("Relu", {"z"}, {"y"});
  EXPECT_EQ(unknown.error(), "invalid model: value 'z' is produced by nothing (in node 'the_Relu' (Relu))");

  ModelBuilder cycle;
  cycle.node("Relu", {"h"}, {"y"});
  cycle.node("Sigmoid", {"y"}, {"h"});
  EXPECT_EQ(cycle.error(), "invalid model: the graph has a cycle through node 'the_Relu' (Relu)");

  ModelBuilder output;
  EXPECT_EQ(output.error(), "invalid model: graph output 'y' is produced by nothing");

  ModelBuilder initializers;
  initializers.initializer("y", DType::f32, {2}, kOnes);
  initializers.initializer("y", DType::f32, {2}, kOnes);
  EXPECT_EQ(initializers.error(), "invalid model: two initializers are named 'y'");

  ModelBuilder attribute;
  set(attribute.node("Relu", {"x"}, {"y"}), "slope", 1.0f);
  EXPECT_EQ(attribute.error(), "invalid model: has no attribute 'slope' (in node 'the_Relu' (Relu))");

  ModelBuilder version(99);
  EXPECT_EQ(version.error(), "unsupported: version 99 of operator set 'ai.onnx'; the newest that is supported is 27");

  ModelBuilder declared;
  declared.node("Relu", {"x"}, {"y"});
  declare(*declared.graph().mutable_output(0), "y", DType::i64, {2});
  EXPECT_EQ(declared.error(),
            "invalid model: declared as i64[2], but computes f32[2] (in value 'y', in node 'the_Relu' (Relu))");

  ModelBuilder kind;
  kind.node("Relu", {"x"}, {"y"});
  auto& type = *kind.graph().mutable_output(0)->mutable_type();
  type.mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  EXPECT_EQ(kind.error(),
            "invalid model: declared as seq(f32[*]), but computes f32[2] (in value 'y', in node 'the_Relu' (Relu))");
}

TEST(OnnxReader, RefusesDeepSubgraphs) {
  ModelBuilder model;
  declare(*model.graph().add_input(), "c", DType::boolean, {});
  tessera_onnx::GraphProto graph;
  graph.add_output()->set_name("x");
  for (int depth = 0; depth < 1000; ++depth) {
    tessera_onnx::GraphProto outer;
    auto& node = add_node(*outer.mutable_node(), "If", {"c"}, {"o"});
    auto& attribute = add_attribute(node, "then_branch");
    attribute.set_type(5);
    attribute.mutable_g()->Swap(&graph);
    outer.add_output()->set_name("o");
    graph.Swap(&outer);
  }
  auto& attribute = add_attribute(model.node("If", {"c"}, {"y"}), "then_branch");
  attribute.set_type(5);
  attribute.mutable_g()->Swap(&graph);
  EXPECT_EQ(model.error(), "invalid model: not an ONNX model, corrupt, or with subgraphs nested deeper than 64");
}

TEST(OnnxReader, ReadsOrRefusesTruncatedFilesAtEveryLength) {
  ModelBuilder model;
  model.initializer("w", DType::f32, {2}, kOnes);
  model.node("Relu", {"x"}, {"y"});
  const std::string whole = model.text();
  EXPECT_NO_THROW(io::read_model_bytes(bytes_of(whole)));
  std::size_t refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    try {
      io::read_model_bytes(bytes_of(whole.substr(0, length)));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_model) << error.what();
      ++refused;
    }
  }
  EXPECT_GE(refused, whole.size() - 4) << "only whole fields at the end may be missing";
}

TEST(OnnxReader, ReadsOrRefusesFlippedBytes) {
  ModelBuilder model;
  model.initializer("w", DType::f32, {2}, kOnes);
  set(model.node("Concat", {"x", "w"}, {"y"}), "axis", std::int64_t{0});
  const std::string whole = model.text();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      try {
        io::read_model_bytes(bytes_of(flipped));
      } catch (const Error&) {
      }
    }
  }
}

TEST(OnnxReader, NamesTheFile) {
  try {
    io::read_model("/nowhere/model.onnx");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_STREQ(error.what(), "file '/nowhere/model.onnx' does not exist (in file /nowhere/model.onnx)");
  }
}

TEST(OnnxReader, TakesInitialValuesInPlaceOfTheFiles) {
  ModelBuilder model(13, {1});
  model.initializer("one", DType::f32, {1}, std::string("\0\0\x80\x3f", 4));
  model.node("Mul", {"x", "one"}, {"y"});
  io::ReadOptions how;
  how.initializers.emplace("one", Tensor::from<float>({1}, std::vector<float>{4}));
  how.initializers.emplace("no such one", Tensor(DType::f32, {1}));
  const ir::Graph graph = model.read(how);
  EXPECT_EQ(graph.constant(graph.find_value("one"))->data<float>()[0], 4);
  how.initializers.at("one") = Tensor(DType::f32, {2});
  EXPECT_NE(model.error(how).find("initializer 'one' is f32[2], expected f32[1]"), std::string::npos);
}

TEST(OnnxReader, KeepsTheGraphsDocumentation) {
  ModelBuilder model(13, {1});
  model.node("Relu", {"x"}, {"y"});
  model.graph().set_doc_string("of the graph");
  EXPECT_EQ(model.read().metadata.at("graph_doc_string"), "of the graph");
}

}  // namespace
}  // namespace tessera::test::reader_test
