// Models whose graphs, functions and names are made to hurt: small files that ask for much memory, much work, or a full
// screen.
#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"
#include "support/guarded.h"

namespace tessera::test::hostile_structure_test {
namespace {

using tessera_onnx::GraphProto;
using tessera_onnx::NodeProto;

void expect_model_refused(const std::string& what, ErrorKind kind, const std::string& part, const ModelBuilder& model) {
  const std::string bytes = model.text();
  expect_refused(what + " in " + std::to_string(bytes.size()) + " bytes", kind, part,
                 [&] { io::read_model_bytes(bytes_of(bytes)); });
}

void expect_model_read(const std::string& what, const ModelBuilder& model) {
  const std::string bytes = model.text();
  EXPECT_FALSE(expect_harmless(what, [&] { io::read_model_bytes(bytes_of(bytes)); }).kind) << what;
}

GraphProto& subgraph_of(NodeProto& node, const std::string& name) {
  auto& attribute = add_attribute(node, name);
  attribute.set_type(5);
  return *attribute.mutable_g();
}

// --- many small parts ---

// A length-delimited field as it stands in a file.
std::string field(int number, const std::string& payload) {
  std::string text;
  const auto put = [&text](std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text.push_back(static_cast<char>((value & 0x7F) | 0x80));
    text.push_back(static_cast<char>(value));
  };
  put(static_cast<std::uint64_t>(number) << 3 | 2);
  put(payload.size());
  return text + payload;
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(HostileStructure, PartsWithoutContentAreCountedBeforeTheyAreParsed) {
  constexpr int kModelGraph = 7, kModelProperty = 14, kGraphNode = 1, kGraphInitializer = 5, kGraphInput = 11,
                kNodeInput = 1, kNodeAttribute = 5, kInputType = 2, kTypeTensor = 1, kTensorShape = 2, kShapeDim = 1,
                kAttributeGraph = 6;
  const auto many = [](int number) { return repeated(field(number, ""), 5'000'000); };
  const std::pair<const char*, std::string> cases[] = {
      {"nodes", field(kModelGraph, many(kGraphNode))},
      {"attributes", field(kModelGraph, field(kGraphNode, many(kNodeAttribute)))},
      {"names", field(kModelGraph, field(kGraphNode, many(kNodeInput)))},
      {"initializers", field(kModelGraph, many(kGraphInitializer))},
      {"dimensions",
       field(kModelGraph,
             field(kGraphInput, field(kInputType, field(kTypeTensor, field(kTensorShape, many(kShapeDim))))))},
      {"properties", many(kModelProperty)},
      {"nodes of a subgraph",
       field(kModelGraph, field(kGraphNode, field(kNodeAttribute, field(kAttributeGraph, many(kGraphNode)))))},
  };
  for (const auto& [what, bytes] : cases) {
    expect_refused(std::string("empty ") + what, ErrorKind::over_budget,
                   "its nodes, attributes and names take more than 256.0 MiB of memory",
                   [&bytes = bytes] { io::read_model_bytes(bytes_of(bytes)); });
  }
}

TEST(HostileStructure, TheLimitOfParsedBytesIsTheCallers) {
  ModelBuilder model;
  NodeProto& node = model.node("Relu", {"x"}, {"y"});
  for (int i = 0; i < 1000; ++i) node.add_input("x");
  EXPECT_EQ(model.error({.limits = {.max_parsed_bytes = 1 << 16}}),
            "over budget: its nodes, attributes and names take more than 64.0 KiB of memory, which is the limit");
  EXPECT_EQ(model.error({.limits = {.max_nesting = 65}}), "invalid argument: max_nesting is 65, expected 0 to 64");
}

TEST(HostileStructure, LongListsAreReadAndRefused) {
  ModelBuilder perm;
  auto& list = add_attribute(perm.node("Transpose", {"x"}, {"y"}), "perm");
  list.set_type(7);
  list.mutable_ints()->Resize(10'000'000, 0);
  expect_model_refused("ten million axes", ErrorKind::invalid_model, "perm names 10000000 axes of a tensor of rank 1",
                       perm);
  ModelBuilder dims;
  dims.initializer("w", DType::f32, {}, "").mutable_dims()->Resize(10'000'000, 1);
  expect_model_refused("ten million dimensions", ErrorKind::unsupported,
                       "a tensor of rank 10000000; at most 64 is supported", dims);
  ModelBuilder inputs;
  NodeProto& sum = inputs.node("Sum", {}, {"y"});
  for (int i = 0; i < 300'000; ++i) sum.add_input("x");
  expect_model_read("a sum of 300 thousand", inputs);
}

TEST(HostileStructure, ADeclaredRankIsLimited) {
  ModelBuilder model;
  for (int i = 0; i < 100; ++i)
    model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(1);
  model.node("Relu", {"x"}, {"y"});
  expect_model_refused("an input of rank 101", ErrorKind::unsupported, "a tensor of rank 101; at most 64 is supported",
                       model);
}

// --- graphs in graphs, functions in functions ---

// A loop in a loop … `depth` deep. Each level's carried value grows, so inference has to look at every body twice.
void nest_loops(google::protobuf::RepeatedPtrField<NodeProto>& nodes, const std::string& input,
                const std::string& output, int depth) {
  if (depth == 0) {
    set(add_node(nodes, "Concat", {input, input}, {output}), "axis", std::int64_t{0});
    return;
  }
  const std::string level = std::to_string(depth);
  GraphProto& body = subgraph_of(add_node(nodes, "Loop", {"trips", "", input}, {output}), "body");
  for (const char* name : {"i", "c", "v"}) body.add_input()->set_name(name + level);
  add_node(*body.mutable_node(), "Identity", {"c" + level}, {"d" + level});
  nest_loops(*body.mutable_node(), "v" + level, "w" + level, depth - 1);
  body.add_output()->set_name("d" + level);
  body.add_output()->set_name("w" + level);
}

TEST(HostileStructure, LoopsInLoopsAreInferredInTimeThatIsNotExponential) {
  ModelBuilder model;
  model.initializer("trips", DType::i64, {}, std::string("\1\0\0\0\0\0\0\0", 8));
  nest_loops(*model.graph().mutable_node(), "x", "y", 60);
  expect_model_read("sixty loops in each other", model);
  const ir::Graph graph = model.read();
  EXPECT_EQ(ir::to_string(graph.value(graph.outputs()[0]).type), "f32[*]");
}

TEST(HostileStructure, TwoLoopsInEachOtherKeepTheirRank) {
  ModelBuilder model;
  model.initializer("trips", DType::i64, {}, std::string("\1\0\0\0\0\0\0\0", 8));
  nest_loops(*model.graph().mutable_node(), "x", "y", 2);
  const ir::Graph graph = model.read();
  EXPECT_EQ(ir::to_string(graph.value(graph.outputs()[0]).type), "f32[?]");
}

TEST(HostileStructure, CallsCostWhatAFunctionDeclares) {
  ModelBuilder model;
  auto& function = add_function(model, "F", {}, {"b"});
  for (int i = 0; i < 100'000; ++i) function.add_input("a" + std::to_string(i));
  add_node(*function.mutable_node(), "Relu", {"a0"}, {"b"});
  for (int i = 0; i < 50'000; ++i) model.node("F", {"x"}, {i == 0 ? "y" : "y" + std::to_string(i)}).set_domain("local");
  expect_model_refused("calls of a function of many inputs", ErrorKind::over_budget,
                       "the model's functions expand to more than 134217728 bytes", model);
}

TEST(HostileStructure, ConstantsInFunctionsAreCountedWithEveryCall) {
  ModelBuilder model;
  auto& function = add_function(model, "F", {"a"}, {"b"});
  auto& value = add_attribute(add_node(*function.mutable_node(), "Constant", {}, {"c"}), "value");
  value.set_type(4);
  value.mutable_t()->set_data_type(2);
  value.mutable_t()->add_dims(1 << 20);
  value.mutable_t()->set_raw_data(std::string(1 << 20, 'c'));
  add_node(*function.mutable_node(), "Relu", {"a"}, {"b"});
  for (int i = 0; i < 1000; ++i) model.node("F", {"x"}, {i == 0 ? "y" : "y" + std::to_string(i)}).set_domain("local");
  expect_model_refused("a thousand calls with a constant of a megabyte", ErrorKind::over_budget,
                       "expand to more than 134217728 bytes", model);
}

TEST(HostileStructure, CyclesThroughFunctionsAndSubgraphsAreFound) {
  ModelBuilder functions;
  add_node(*add_function(functions, "F", {"a"}, {"b"}).mutable_node(), "G", {"a"}, {"b"}).set_domain("local");
  add_node(*add_function(functions, "G", {"a"}, {"b"}).mutable_node(), "F", {"a"}, {"b"}).set_domain("local");
  functions.node("F", {"x"}, {"y"}).set_domain("local");
  expect_model_refused("two functions that call each other", ErrorKind::invalid_model, "function 'F' calls itself",
                       functions);
  ModelBuilder self;
  self.node("Add", {"x", "y"}, {"y"});
  expect_model_refused("a node that reads itself", ErrorKind::invalid_model,
                       "the graph has a cycle through node 'the_Add' (Add)", self);
  ModelBuilder capture;
  declare(*capture.graph().add_input(), "c", DType::boolean, {});
  NodeProto& node = capture.node("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    GraphProto& branch = subgraph_of(node, name);
    add_node(*branch.mutable_node(), "Relu", {"y"}, {std::string("o") + name});
    branch.add_output()->set_name(std::string("o") + name);
  }
  expect_model_refused("a branch that reads what it gives", ErrorKind::invalid_model,
                       "the graph has a cycle through node 'the_If' (If)", capture);
}

TEST(HostileStructure, SubgraphsMustHaveTheInputsAndOutputsOfTheirOperator) {
  ModelBuilder loop;
  GraphProto& body = subgraph_of(loop.node("Loop", {"", "", "x"}, {"y"}), "body");
  body.add_output()->set_name("x");
  expect_model_refused("a body without inputs", ErrorKind::invalid_model,
                       "its subgraph 'body' takes 0 inputs, but 3 are passed", loop);
  for (const char* name : {"i", "c", "v"}) body.add_input()->set_name(name);
  body.mutable_output(0)->set_name("c");
  expect_model_refused("a body without carried values", ErrorKind::invalid_model,
                       "its body returns 1 values, expected at least 2", loop);
  body.clear_output();
  expect_model_refused("a body without outputs", ErrorKind::invalid_model,
                       "its body returns 0 values, expected at least 2", loop);
  ModelBuilder none;
  none.node("Loop", {"", "", "x"}, {"y"});
  expect_model_refused("a loop without a body", ErrorKind::invalid_model, "attribute 'body' is missing", none);
}

// --- names ---

std::string long_name() {
  return std::string(1 << 20, 'n');
}

TEST(HostileNames, AMegabyteIsCutWhereverItStands) {
  ModelBuilder op;
  op.node(long_name(), {"x"}, {"y"}).set_name(long_name());
  expect_model_refused("an operator", ErrorKind::unsupported, "operator nnn", op);
  ModelBuilder value;
  value.node("Relu", {long_name()}, {"y"});
  expect_model_refused("a value", ErrorKind::invalid_model, "' is produced by nothing", value);
  ModelBuilder attribute;
  set(attribute.node("Relu", {"x"}, {"y"}), long_name(), std::int64_t{1});
  expect_model_refused("an attribute", ErrorKind::invalid_model, "has no attribute 'nnn", attribute);
  ModelBuilder domain;
  domain.node("Relu", {"x"}, {"y"}).set_domain(long_name());
  expect_model_refused("a domain", ErrorKind::unsupported, "operator Relu of 'nnn", domain);
  ModelBuilder text;
  set(text.node("Gelu", {"x"}, {"y"}), "approximate", long_name().c_str());
  expect_model_refused("a text attribute", ErrorKind::invalid_model, "approximate", text);
  ModelBuilder dim;
  auto* shape = dim.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->mutable_dim(0)->set_dim_param(long_name());
  dim.node("Squeeze", {"x", "axes"}, {"y"});
  dim.initializer("axes", DType::i64, {1}, std::string("\5\0\0\0\0\0\0\0", 8));
  expect_model_refused("a dimension", ErrorKind::invalid_model, "axis 5 is outside [-1, 1)", dim);
  ModelBuilder input;
  declare(*input.graph().add_input(), long_name(), DType::f32, {-7});
  expect_model_refused("an input", ErrorKind::invalid_model, "dimension -7 in a declared shape", input);
  ModelBuilder function;
  add_node(*add_function(function, long_name(), {"a"}, {"b"}).mutable_node(), "Relu", {"q"}, {"b"});
  function.node(long_name(), {"x"}, {"y"}).set_domain("local");
  expect_model_refused("a function", ErrorKind::invalid_model, "value 'q' is produced by nothing", function);
}

TEST(HostileNames, WhatATerminalObeysIsEscaped) {
  const std::string name = std::string("\x1b[31m\0\n\xff", 8);
  ModelBuilder op;
  op.node(name, {"x"}, {"y"}).set_name(name);
  expect_model_refused("an operator", ErrorKind::unsupported,
                       "operator \\x1B[31m\\x00\\x0A\\xFF of 'ai.onnx' version 21 ('\\x1B[31m\\x00\\x0A\\xFF')", op);
  ModelBuilder fine(21, {2}, {name});
  fine.node("Relu", {"x"}, {name}).set_name(name);
  expect_model_read("names of any bytes", fine);
}

TEST(HostileNames, MissingOnesAndDuplicatesAreNamed) {
  struct Case {
    const char* part;
    void (*damage)(ModelBuilder&);
  };
  const Case cases[] = {
      {"a graph input has no name", [](ModelBuilder& m) { m.graph().mutable_input(0)->clear_name(); }},
      {"two graph inputs are named 'x'",
       [](ModelBuilder& m) { declare(*m.graph().add_input(), "x", DType::f32, {2}); }},
      {"the node names no operator", [](ModelBuilder& m) { m.graph().mutable_node(0)->clear_op_type(); }},
      {"an attribute has no name", [](ModelBuilder& m) { m.graph().mutable_node(0)->add_attribute(); }},
      {"attribute 'a' is given twice",
       [](ModelBuilder& m) {
         set(*m.graph().mutable_node(0), "a", std::int64_t{1});
         set(*m.graph().mutable_node(0), "a", std::int64_t{2});
       }},
      {"an initializer has no name", [](ModelBuilder& m) { m.initializer("", DType::u8, {1}, "a"); }},
      {"two initializers are named 'w'",
       [](ModelBuilder& m) {
         m.initializer("w", DType::u8, {1}, "a");
         m.initializer("w", DType::u8, {1}, "b");
       }},
      {"defines value 'x', which is defined already", [](ModelBuilder& m) { m.node("Relu", {"x"}, {"x"}); }},
      {"is imported in versions 21 and 20", [](ModelBuilder& m) { m.proto.add_opset_import()->set_version(20); }},
      {"version 0 of operator set ''", [](ModelBuilder& m) { m.proto.mutable_opset_import(0)->set_version(0); }},
      {"does not say which version of operator set 'ai.onnx'", [](ModelBuilder& m) { m.proto.clear_opset_import(); }},
      {"graph output '' is produced by nothing", [](ModelBuilder& m) { m.graph().mutable_output(0)->clear_name(); }},
      {"function 'F' of domain 'local' is defined twice",
       [](ModelBuilder& m) {
         add_function(m, "F", {}, {});
         add_function(m, "F", {}, {});
       }},
      {"the file has no graph", [](ModelBuilder& m) { m.proto.clear_graph(); }},
      {"input 'X' is missing", [](ModelBuilder& m) { m.graph().mutable_node(0)->clear_input(); }},
  };
  for (const Case& each : cases) {
    ModelBuilder model;
    model.node("Relu", {"x"}, {"y"});
    each.damage(model);
    expect_model_refused(each.part, ErrorKind::invalid_model, each.part, model);
  }
}

}  // namespace
}  // namespace tessera::test::hostile_structure_test
