#include "io/onnx/writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "io/onnx/file_form.h"
#include "io/onnx/model_builder.h"
#include "ir/text.h"
#include "ops/core/infer.h"
#include "support/expect_error.h"

namespace tessera::test::writer_test {
namespace {

namespace fs = std::filesystem;

const io::ReadOptions kAsItIs{.infer = false, .require_supported = false};

// Writing what was read again gives the same bytes, and so the graphs are equal in everything that is written.
void expect_round_trip(const ir::Graph& graph) {
  const std::vector<std::byte> bytes = io::write_model_bytes(graph);
  const ir::Graph again = io::read_model_bytes(bytes, kAsItIs);
  EXPECT_EQ(listing(again), listing(graph));
  EXPECT_TRUE(io::write_model_bytes(again) == bytes);
}

TEST(OnnxWriter, RoundTripsNodesAttributesAndConstants) {
  ModelBuilder model;
  model.initializer("w", DType::f32, {2}, std::string(8, '\1'));
  model.node("Relu", {"x"}, {"h"});
  auto& node = model.node("Every", {"h", "", "w"}, {"y", "", "z"});
  node.set_domain("com.example");
  set(node, "number", std::int64_t{0});
  set(node, "real", 0.0f);
  set(node, "text", "");
  set(node, "numbers", {1, 2});
  auto& type = add_attribute(node, "type");
  type.set_type(13);
  type.mutable_tp()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  auto& tensor = add_attribute(node, "tensor");
  tensor.set_type(4);
  tensor.mutable_t()->set_data_type(8);
  tensor.mutable_t()->add_string_data("hello");
  const ir::Graph graph = model.read(kAsItIs);
  ASSERT_EQ(last_node(graph).attributes.size(), 6u);
  expect_round_trip(graph);
}

TEST(OnnxWriter, RoundTripsSubgraphsWithCaptures) {
  ModelBuilder model;
  declare(*model.graph().add_input(), "c", DType::boolean, {});
  model.initializer("w", DType::f32, {2}, std::string(8, '\1'));
  auto& node = model.node("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& attribute = add_attribute(node, name);
    attribute.set_type(5);
    auto& branch = *attribute.mutable_g();
    set(add_node(*branch.mutable_node(), "Concat", {"x", "w"}, {"o"}), "axis", std::int64_t{0});
    branch.add_output()->set_name("o");
  }
  const ir::Graph graph = model.read(kAsItIs);
  expect_round_trip(graph);
  const ir::Graph again = io::read_model_bytes(io::write_model_bytes(graph), kAsItIs);
  const ir::Graph& branch = *std::get<ir::SubgraphPointer>(last_node(again).attributes.at("else_branch"));
  EXPECT_TRUE(branch.constant(branch.find_value("w"))->shares_storage_with(*again.constant(again.find_value("w"))))
      << "written once, outside";
}

TEST(OnnxWriter, RoundTripsVariables) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2}));
  const ir::ValueId state = graph.add_variable("state", Tensor::from<float>({2}, {1.0f, 2.0f}));
  const ir::ValueId next = graph.add_op("Concat", {state, x}, {{"axis", std::int64_t{0}}}, "next");
  graph.add_output(x);
  graph.set_variable_update("state", next);
  ops::infer_graph(graph);
  expect_round_trip(graph);
  const ir::Graph again = io::read_model_bytes(io::write_model_bytes(graph), kAsItIs);
  ASSERT_EQ(again.variables().size(), 1u);
  EXPECT_EQ(again.variables()[0].name, "state");
  EXPECT_EQ(again.value(again.variables()[0].update).name, "next");
  EXPECT_TRUE(identical(again.variables()[0].initial, graph.variables()[0].initial));
}

TEST(OnnxWriter, ImportsTheDomainsThatItUses) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{1, 2, 4}));
  graph.add_output(graph.add_op("com.microsoft::MultiHeadAttention", {x, x, x}, {{"num_heads", std::int64_t{2}}}, "y"));
  ops::infer_graph(graph);
  expect_round_trip(graph);
  tessera_onnx::ModelProto proto;
  const std::vector<std::byte> bytes = io::write_model_bytes(graph);
  ASSERT_TRUE(proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(proto.graph().node(0).domain(), "com.microsoft");
  ASSERT_EQ(proto.opset_import_size(), 2);
  EXPECT_EQ(proto.opset_import(1).domain(), "com.microsoft");
  EXPECT_EQ(proto.opset_import(1).version(), 1);
}

TEST(OnnxWriter, GivesNamesThatOnnxCannotConfuse) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2}));
  const ir::ValueId h = graph.add_op("Relu", {x}, {}, "same");
  const ir::ValueId y = graph.add_op("Relu", {h}, {}, "same");
  graph.add_output(y);
  EXPECT_EQ(listing(io::read_model_bytes(io::write_model_bytes(graph))), "Relu(x) -> same\nRelu(same) -> same_1\n");
}

TEST(OnnxWriter, WritesTheVersionThatWasRead) {
  ModelBuilder model(11);
  model.node("Relu", {"x"}, {"y"});
  const ir::Graph again = io::read_model_bytes(io::write_model_bytes(model.read()));
  EXPECT_EQ(again.metadata.at("opset:ai.onnx"), "11");
  EXPECT_EQ(again.metadata.at("ir_version"), "6");

  ModelBuilder narrow(22);
  narrow.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int>(DType::u4));
  narrow.graph().mutable_output(0)->set_name("x");
  EXPECT_EQ(io::read_model_bytes(io::write_model_bytes(narrow.read())).metadata.at("opset:ai.onnx"), "22");
}

TEST(OnnxWriter, WritesAVersionThatHasTheTypes) {
  const auto version_of = [](const std::string& op, DType x, DType scale) {
    ir::Graph graph;
    const ir::ValueId input = graph.add_input("x", ir::ValueType::tensor(x, Shape{2})),
                      by = graph.add_input("scale", ir::ValueType::tensor(scale, Shape{}));
    graph.add_output(graph.add_op(op, {input, by}, {}, "y"));
    ops::infer_graph(graph);
    return io::read_model_bytes(io::write_model_bytes(graph)).metadata.at("opset:ai.onnx");
  };
  EXPECT_EQ(version_of("QuantizeLinear", DType::f32, DType::f32), "17");
  EXPECT_EQ(version_of("QuantizeLinear", DType::f16, DType::f16), "19");
  EXPECT_EQ(version_of("QuantizeLinear", DType::i32, DType::i32), "19");
  EXPECT_EQ(version_of("QuantizeLinear", DType::f16, DType::f32), "23");
  EXPECT_EQ(version_of("DequantizeLinear", DType::i8, DType::f32), "17");
  EXPECT_EQ(version_of("DequantizeLinear", DType::i8, DType::f16), "19");
}

tessera_onnx::ModelProto written_proto(const ir::Graph& graph, std::optional<std::int64_t> opset = {}) {
  tessera_onnx::ModelProto proto;
  const std::vector<std::byte> bytes = io::write_model_bytes(graph, opset);
  EXPECT_TRUE(proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  return proto;
}

TEST(OnnxWriter, WritesOlderFormsOfOperators) {
  ir::Graph graph = ir::parse(R"(graph "g" {
    input %x : f32[2, 1, 3]
    constant %axes = i64[1] {-2}
    %a = Squeeze (%x, %axes) : f32[2, 3]
    %y = Gelu (%a) : f32[2, 3]
    output %y
  })");
  const tessera_onnx::ModelProto newest = written_proto(graph);
  EXPECT_EQ(newest.opset_import(0).version(), 20);
  EXPECT_EQ(newest.graph().node_size(), 2);
  const tessera_onnx::ModelProto old = written_proto(graph, 11);
  EXPECT_EQ(old.opset_import(0).version(), 11);
  EXPECT_EQ(old.ir_version(), 6);
  ASSERT_GT(old.graph().node_size(), 2) << "Gelu is written out";
  const tessera_onnx::NodeProto& squeeze = old.graph().node(0);
  ASSERT_EQ(squeeze.input_size(), 1);
  ASSERT_EQ(squeeze.attribute_size(), 1);
  EXPECT_EQ(squeeze.attribute(0).ints(0), 1);
  for (const tessera_onnx::TensorProto& constant : old.graph().initializer())
    EXPECT_NE(constant.name(), "axes") << "nothing reads it";
}

TEST(OnnxWriter, ListsAllOperatorsWithoutAnOlderForm) {
  const ir::Graph graph = ir::parse(R"(graph "g" {
    input %x : f32[2, 3]
    %a = Celu (%x) : f32[2, 3]
    %k = Trilu (%a) : f32[2, 3]
    %y = Relu (%k) : f32[2, 3]
    output %y
  })");
  expect_error(ErrorKind::unsupported,
               "operator set version 11 has no form of Celu (from 12 on), Trilu (from 14 on); the lowest version that "
               "has all is 14",
               [&] { io::write_model_bytes(graph, 11); });
  expect_error(ErrorKind::invalid_argument, "operator set version 28 cannot be written; expected one from 9 to 27",
               [&] { io::write_model_bytes(graph, 28); });
  ir::Graph old = graph;
  old.metadata["opset:ai.onnx"] = "11";
  const io::FileForm form = io::file_form(old, std::nullopt);
  EXPECT_EQ(form.versions.at(""), 14);
  EXPECT_EQ(form.raised_by, (std::vector<std::string>{"Celu", "Trilu"}));
}

TEST(OnnxWriter, NamesOutputsThatOnnxRequires) {
  ir::Graph graph = ir::parse(R"(graph "g" {
    input %x : f32[4]
    constant %k = i64[1] {2}
    constant %sizes = i64[3] {1, 1, 2}
    %values, %indices = TopK (%x, %k) : f32[2], i64[2]
    %a, %b, %c = Split (%x, %sizes) : f32[1], f32[1], f32[2]
    output %indices
    output %b
  })");
  graph.remove_dead_and_compact();
  ASSERT_FALSE(graph.node(graph.order()[0]).outputs[0].valid());
  const tessera_onnx::ModelProto proto = written_proto(graph);
  std::set<std::string> names;
  for (const tessera_onnx::NodeProto& node : proto.graph().node()) {
    EXPECT_EQ(node.output_size(), node.op_type() == "TopK" ? 2 : 3);
    for (const std::string& name : node.output()) EXPECT_TRUE(!name.empty() && names.insert(name).second) << name;
  }
}

// Version 5 of ai.onnx.ml has TreeEnsemble alone.
TEST(OnnxWriter, WritesTreesInAVersionThatStillHasThem) {
  using Integers = std::vector<std::int64_t>;
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{1, 1}));
  graph.add_output(graph.add_op("ai.onnx.ml::TreeEnsembleRegressor", {x},
                                {{"nodes_treeids", Integers{0}},
                                 {"nodes_nodeids", Integers{0}},
                                 {"nodes_featureids", Integers{0}},
                                 {"nodes_modes", std::vector<std::string>{"LEAF"}},
                                 {"nodes_values", std::vector<float>{0}},
                                 {"nodes_truenodeids", Integers{0}},
                                 {"nodes_falsenodeids", Integers{0}}},
                                "y"));
  ops::infer_graph(graph);
  EXPECT_EQ(io::read_model_bytes(io::write_model_bytes(graph)).metadata.at("opset:ai.onnx.ml"), "1");
}

TEST(OnnxWriter, PutsLargeConstantsOutside) {
  const fs::path folder = fs::temp_directory_path() / ("tessera_writer_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  ir::Graph graph;
  const ir::ValueId small = graph.add_constant(Tensor::from<float>({1}, {1.0f}), "small");
  const ir::ValueId first = graph.add_constant(Tensor::from<float>({3}, {1.0f, 2.0f, 3.0f}), "first");
  const ir::ValueId second = graph.add_constant(Tensor::from<float>({3}, {4.0f, 5.0f, 6.0f}), "second");
  graph.set_outputs({small, first, second});
  io::write_model(graph, folder / "m.onnx", {.external_data_threshold = 8});
  EXPECT_EQ(fs::file_size(folder / "m.onnx.data"), 4096u + 12u);
  {
    const ir::Graph again = io::read_model(folder / "m.onnx");
    EXPECT_EQ(again.constant(again.outputs()[2])->values<float>()[0], 4.0f);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(again.constant(again.outputs()[2])->raw()) % 4096, 0u)
        << "a view of the map";
    io::write_model(again, folder / "m.onnx", {.external_data_threshold = 8});  // over the file that it views
  }
  EXPECT_EQ(io::read_model(folder / "m.onnx").outputs().size(), 3u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2) << "no temporary file is left";
  fs::remove_all(folder);
}

// The model as a file would be mapped: at a page.
ir::Graph read_in_place(const std::vector<std::byte>& bytes) {
  auto buffer = std::make_shared<Tensor>(DType::u8, Shape{static_cast<std::int64_t>(bytes.size())});
  std::memcpy(buffer->mutable_raw(), bytes.data(), bytes.size());
  return io::read_model_bytes({static_cast<const std::byte*>(buffer->raw()), bytes.size()}, {}, buffer);
}

TEST(OnnxWriter, PutsLargeConstantsWhereTheyCanBeUsed) {
  // Around 2^14 and 2^21 the lengths before the data get a byte longer.
  for (const std::int64_t around : {1 << 14, 1 << 21}) {
    for (std::int64_t bytes = around - 260; bytes < around + 8; bytes += around > 1 << 20 ? 13 : 3) {
      ir::Graph graph;
      std::vector<ir::ValueId> outputs;
      for (const std::int64_t size : {std::int64_t{1024}, bytes, std::int64_t{5000}, std::int64_t{10}}) {
        Tensor tensor(DType::u8, {size});
        std::memset(tensor.mutable_raw(), static_cast<int>(outputs.size() + 1), static_cast<std::size_t>(size));
        outputs.push_back(graph.add_constant(tensor, "constant" + std::to_string(outputs.size())));
      }
      graph.set_outputs(outputs);
      const ir::Graph again = read_in_place(io::write_model_bytes(graph));
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Tensor& tensor = *again.constant(again.outputs()[i]);
        ASSERT_TRUE(identical(tensor, *graph.constant(outputs[i]))) << bytes;
        if (tensor.bytes() >= 1024) {
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw()) % 64, 0u) << bytes;
          ASSERT_NE(tensor.owner(), nullptr);
        }
      }
    }
  }
}

TEST(OnnxWriter, KeepsTheDataOfAttributesAndSubgraphs) {
  ir::Graph graph = ir::parse(R"(graph "deep" {
    input %x : f32[600]
    input %flag : bool[]
    %y = If "choice" (%flag) captures (%x) {
      else_branch = graph "no" { input %x : f32[600]  %a = Neg (%x) : f32[600]  output %a },
      then_branch = graph "yes" { input %x : f32[600]  %b = Relu (%x) : f32[600]  output %b }} : f32[600]
    output %y
  })");
  Tensor large(DType::f32, {600});
  for (std::int64_t i = 0; i < 600; ++i) large.mutable_data<float>()[i] = static_cast<float>(i);
  for (auto& [name, attribute] : graph.node(graph.order()[0]).attributes) {
    ir::Graph branch = *std::get<ir::SubgraphPointer>(attribute);
    const ir::ValueId sum = branch.add_op(
        "Add", {branch.outputs()[0], branch.add_constant(large, "weights of " + name)}, {}, "sum of " + name);
    branch.value(sum).type = ir::ValueType::tensor(DType::f32, Shape{600});
    branch.set_outputs({sum});
    attribute = std::make_shared<const ir::Graph>(std::move(branch));
  }
  const ir::Graph again = io::read_model_bytes(io::write_model_bytes(graph));
  const auto branches = ir::subgraphs_of(again.node(again.order()[0]));
  ASSERT_EQ(branches.size(), 2u);
  for (const auto& [name, branch] : branches)
    EXPECT_TRUE(identical(*branch->constant(branch->find_value("weights of " + name)), large));
}

TEST(OnnxWriter, SaysWhichFileItCannotWrite) {
  try {
    io::write_model(ir::Graph(), "/nowhere/model.onnx");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_NE(std::string(error.what()).find("the folder '/nowhere' does not exist (in file /nowhere/model.onnx)"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::test::writer_test
