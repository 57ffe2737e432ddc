#include "ir/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "base/numbers/philox.h"
#include "support/expect_error.h"

namespace tessera::test::text_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::Graph;
using ir::Node;
using ir::ValueId;
using ir::ValueType;

void expect_round_trip(const Graph& graph) {
  const std::string text = print(graph);
  const Graph again = ir::parse(text);
  EXPECT_TRUE(structurally_equal(graph, again)) << text << "\nbecame\n" << print(again);
  EXPECT_EQ(print(again), text);
}

void expect_refused(const std::string& text, const std::string& message) {
  expect_error_containing(ErrorKind::invalid_model, message, [&] { ir::parse(text); });
}

TEST(Text, PrintsOneLineANode) {
  Graph graph;
  graph.name = "tiny";
  const ValueId x = graph.add_input("x", ValueType::tensor(DType::f32, Dims{Dim::symbol("batch"), 3, Dim()}));
  const ValueId w = graph.add_constant(Tensor::from<float>({2}, {0.5f, -1.0f}), "w");
  const ValueId y = graph.add_value("y", ValueType::tensor(DType::f32));
  graph.add_node(
      {"Conv", "conv 1", {x, w, {}}, {y}, {{"strides", std::vector<std::int64_t>{2, 2}}, {"alpha", 1.0f}}, 0});
  graph.add_output(y);
  EXPECT_EQ(print(graph),
            "graph \"tiny\" {\n"
            "  input %x : f32[batch, 3, ?]\n"
            "  constant %w = f32[2] {0.5, -1}\n"
            "  %y = Conv \"conv 1\" (%x, %w, none) {alpha = 1.0, strides = [2, 2]} : f32[*]\n"
            "  output %y\n"
            "}\n");
  expect_round_trip(graph);
}

TEST(Text, ElidesLongConstantsForPeople) {
  Graph graph;
  graph.add_constant(Tensor::from<std::int64_t>({4}, {1, 2, 3, 4}), "c");
  const std::string text = print(graph, {.max_constant_elements = 2});
  EXPECT_EQ(text, "graph {\n  constant %c = i64[4] {1, 2, ...}\n}\n");
  expect_refused(text, "line 2, column 34: elements were left out when this was printed");
}

TEST(Text, KeepsEveryElementTypeExactly) {
  Graph graph;
  base::Philox random(1);
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    if (type == DType::string || type == DType::boolean) continue;
    Tensor tensor(type, {3, 43});  // every bit pattern will do: NaN with payload, infinity, subnormal …
    for (std::int64_t b = 0; b < tensor.bytes(); ++b)
      static_cast<std::uint8_t*>(tensor.mutable_raw())[b] = static_cast<std::uint8_t>(random.next_u32());
    if (is_subbyte(type))
      static_cast<std::uint8_t*>(tensor.mutable_raw())[tensor.bytes() - 1] &= 1;  // padding bits are zero
    graph.add_constant(tensor, std::string(name_of(type)));
  }
  graph.add_constant(Tensor::from<bool>({2}, {true, false}), "bool");
  graph.add_constant(Tensor::from<std::string>({2, 2}, {"", "a\"\\\n\t\x01", "\xff\xfeé漢", std::string("\0x", 2)}),
                     "string");
  graph.add_constant(Tensor::from<float>({0, 3}, {}), "empty");
  graph.add_constant(Tensor::scalar(std::numeric_limits<double>::denorm_min()), "scalar");
  expect_round_trip(graph);
}

TEST(Text, KeepsEveryBitOfSmallFloats) {
  Graph graph;
  for (DType type : {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0}) {
    Tensor tensor(type, {256});
    for (int b = 0; b < 256; ++b) static_cast<std::uint8_t*>(tensor.mutable_raw())[b] = static_cast<std::uint8_t>(b);
    graph.add_constant(tensor, std::string(name_of(type)));
  }
  Tensor halves(DType::f16, {65536});
  for (int b = 0; b < 65536; ++b) halves.mutable_data<f16_t>()[b].bits = static_cast<std::uint16_t>(b);
  graph.add_constant(halves, "f16");
  expect_round_trip(graph);
}

TEST(Text, KeepsTypes) {
  Graph graph;
  const ValueType tensor = ValueType::tensor(
      DType::f16, Dims{0, Dim(), Dim::symbol("a b"), Dim::symbol("none"), Dim::symbol("7"), Dim::symbol("n*2")});
  graph.add_input("", tensor);
  graph.add_input("none", ValueType::tensor(DType::undefined));
  graph.add_input("onnx::Add:3", ValueType::sequence(ValueType::optional(ValueType::tensor(DType::string, Dims{}))));
  graph.add_input("ends:", ValueType::map(DType::string, ValueType::map(DType::i64, tensor)));
  expect_round_trip(graph);
  EXPECT_EQ(print(graph.value(graph.inputs()[0]).type), "f16[0, ?, \"a b\", \"none\", \"7\", \"n*2\"]");
}

Graph branch(const std::string& name, const std::string& op) {
  Graph graph;
  graph.name = name;
  const ValueId x = graph.add_input("captured", ValueType::tensor(DType::f32, Dims{2}));
  graph.add_output(graph.add_op(op, {x}, {}, "result"));
  return graph;
}

TEST(Text, KeepsAttributesOfAllKindsAndCaptures) {
  Graph graph;
  graph.metadata = {{"producer", "line\nbreak"}, {"", "x"}};
  const ValueId flag = graph.add_input("flag", ValueType::tensor(DType::boolean, Dims{}));
  const ValueId x = graph.add_input("x", ValueType::tensor(DType::f32, Dims{2}));
  const ValueId y = graph.add_value("y");
  const float payload = std::bit_cast<float>(0xFFC12345U);
  graph.add_node({"com.example::Choose it",
                  "",
                  {flag, {}, x},
                  {{}, y, {}},
                  {{"then_branch", std::make_shared<const Graph>(branch("then", "Relu"))},
                   {"else_branch", std::make_shared<const Graph>(branch("", "Abs"))},
                   {"integer", std::int64_t{std::numeric_limits<std::int64_t>::min()}},
                   {"real", payload},
                   {"text", std::string("none")},
                   {"tensor", Tensor::scalar(std::int64_t{-7})},
                   {"no tensor", Tensor()},
                   {"type", ValueType::sequence(ValueType::tensor(DType::f32))},
                   {"integers", std::vector<std::int64_t>{1, -2}},
                   {"no_integers", std::vector<std::int64_t>{}},
                   {"reals", std::vector<float>{1.0f, 1e20f, -0.0f, payload, std::numeric_limits<float>::infinity()}},
                   {"infinities_first", std::vector<float>{-std::numeric_limits<float>::infinity(), 0.1f}},
                   {"no_reals", std::vector<float>{}},
                   {"texts", std::vector<std::string>{"", "b"}},
                   {"no_texts", std::vector<std::string>{}},
                   {"tensors", std::vector<Tensor>{Tensor::scalar(1.0f), Tensor()}},
                   {"no_tensors", std::vector<Tensor>{}}},
                  1});
  graph.add_node({"Sink", "without outputs", {y}, {}, {}, 0});
  graph.set_outputs({y, x, y});
  expect_round_trip(graph);
}

TEST(Text, KeepsVariables) {
  Graph graph;
  const ValueId a = graph.add_variable("weight", Tensor::scalar(1.5f));
  const ValueId b = graph.add_variable("moment", Tensor::scalar(0.0f));
  graph.value(b).name = "moment/read";
  graph.set_variable_update("weight", graph.add_op("Sub", {a, b}, {}, "next"));
  graph.set_variable_update("moment", a);
  expect_round_trip(graph);
  EXPECT_EQ(print(graph),
            "graph {\n"
            "  variable %weight = f32[] {1.5} update %next\n"
            "  variable %moment/read \"moment\" = f32[] {0} update %weight\n"
            "  %next = Sub (%weight, %moment/read)\n"
            "}\n");
}

TEST(Text, ReadsWhatPeopleWrite) {
  const Graph graph = ir::parse("graph{input%x :float32[n,2]# a comment\n %y=Softmax(%x){axis=-1}\n output%y}");
  EXPECT_EQ(print(graph), "graph {\n  input %x : f32[n, 2]\n  %y = Softmax (%x) {axis = -1}\n  output %y\n}\n");
}

TEST(Text, SaysWhereItWentWrong) {
  expect_refused("", "line 1, column 1: expected graph, but found the end of the text");
  expect_refused("graph {\n  input %x : f33[2]\n}", "line 2, column 14: expected a type, but found \"f33[2]\"");
  expect_refused("graph {\n %y = Relu (%x) }", "line 2, column 15: the value %x is used before it is defined");
  expect_refused("graph { input %x : f32[] input %x : f32[] }", "the value %x is defined twice");
  expect_refused("graph { %y, %y = Split () }", "the value %y is defined twice");
  expect_refused("graph { %y = F () : f32[], f32[] }", "the node has 1 outputs, but 2 types");
  expect_refused("graph { %y = F () {a = 1, a = 2} }", "the attribute a is given twice");
  expect_refused("graph { constant %c = f32[2] {1} }", "a tensor of shape [2] has 2 elements, but 1 are given");
  expect_refused("graph { constant %c = f32[4611686018427387904, 4] {1} }", "has too many elements");
  expect_refused("graph { constant %c = i8[1] {128} }", "128 does not fit into i8");
  expect_refused("graph { constant %c = u4[1] {-1} }", "'-1' is not a number of the expected kind");
  expect_refused("graph { constant %c = f32[1] {1e99} }", "the number 1e99 is out of range");
  expect_refused("graph { constant %c = f16[1] {nan(0x1)} }", "0x1 is not a NaN of f16");
  expect_refused("graph { constant %c = f8e4m3fn[1] {inf} }", "f8e4m3fn has no infinity");
  expect_refused("graph { constant %c = f32[-1] {} }", "negative dimension -1");
  expect_refused("graph { metadata \"a\" = \"b }", "a string does not end");
  expect_refused("graph { } }", "expected the end of the text after the graph, but found \"}\"");
  expect_refused("graph { variable %v = f32[] {0} update %w }", "the update %w of variable 'v' is not defined");
}

TEST(Text, LimitsNesting) {
  std::string types, graphs;
  for (int i = 0; i < 100'000; ++i) {
    types += "seq(";
    graphs += "graph { () = F () {a = ";
  }
  expect_refused("graph { input %x : " + types, "types are nested deeper than 64");
  expect_refused(graphs, "graphs are nested deeper than 64");
}

// Whatever the text, parsing ends in a graph or in an Error.
TEST(Text, SurvivesMutations) {
  const std::string text =
      "graph \"g\" {\n metadata \"k\" = \"v\"\n input %x : seq(f32[n, 2, ?])\n constant %c = c64[1] {(1, "
      "nan(0x7fc00001))}\n"
      " variable %v \"s\" = u4[3] {1, 2, 3} update %v\n %y, none = If \"n\" (%x, none) captures (%c) {b = graph { "
      "input %c : c64[1] "
      "output %c}, r = [1.5, inf], t = [i8[] {-1}], e = tensors[], y = type map(i64, f32[*])} : f16[2]\n output "
      "%y\n}\n";
  ir::parse(text);
  base::Philox random(7);
  for (int round = 0; round < 4000; ++round) {
    std::string mutated = text;
    for (std::int64_t edits = random.next_integer(1, 3); edits > 0; --edits) {
      const auto at = static_cast<std::size_t>(random.next_integer(0, static_cast<std::int64_t>(mutated.size()) - 1));
      const char other =
          random.next_u32() % 2 ? text[random.next_u32() % text.size()] : static_cast<char>(random.next_u32());
      if (random.next_u32() % 3 == 0) mutated.erase(at, static_cast<std::size_t>(random.next_integer(1, 5)));
      else if (random.next_u32() % 2 == 0) mutated[at] = other;
      else mutated.insert(at, 1, other);
      if (mutated.empty()) break;
    }
    try {
      const Graph graph = ir::parse(mutated);
      expect_round_trip(graph);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_model) << error.what() << "\nround " << round << "\n" << mutated;
    }
  }
}

}  // namespace
}  // namespace tessera::test::text_test
