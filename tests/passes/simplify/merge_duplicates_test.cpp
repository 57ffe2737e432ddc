// Equal nodes and equal constants: what becomes one, and what stays apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/text.h"
#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "passes/pass.h"
#include "support/pass_context.h"

namespace tessera::passes::merge_duplicates_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart = "graph { input %x : f32[batch, 4] input %z : f32[batch, 4] ";

void expect_merged(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "merge_duplicates", nodes, 0);
}
void expect_apart(const std::string& text) {
  test::expect_left_alone(kStart + text, "merge_duplicates");
}

TEST(MergeDuplicates, NodesThatComputeTheSame) {
  expect_merged("%a = Exp (%x) %b = Exp (%x) %c = Neg (%a) %d = Neg (%b) %y = Mul (%c, %d) output %y }",
                {"%a = Exp (%x)", "%c = Neg (%a)", "%y = Mul (%c, %c)"});
  expect_merged("%a = LeakyRelu (%x) {alpha = 0.01} %b = LeakyRelu (%x) %y = Add (%a, %b) output %y }",
                {"%a = LeakyRelu (%x) {alpha = 0.01}", "%y = Add (%a, %a)"});
}

TEST(MergeDuplicates, SumsAndProductsEitherWayRound) {
  expect_merged("%a = Add (%x, %z) %b = Add (%z, %x) %y = Mul (%a, %b) output %y }",
                {"%a = Add (%x, %z)", "%y = Mul (%a, %a)"});
  expect_apart("%a = Sub (%x, %z) %b = Sub (%z, %x) %y = Mul (%a, %b) output %y }");
}

TEST(MergeDuplicates, OutputsThatOnlyOneOfThemWants) {
  expect_merged(
      "%a, none = Split (%x) {axis = 1, num_outputs = 2} none, %b = Split (%x) {axis = 1, num_outputs = 2} %y = Mul "
      "(%a, %b) output %y }",
      {"%a, %? = Split (%x) {axis = 1, num_outputs = 2}", "%y = Mul (%a, %?)"});
}

TEST(MergeDuplicates, AttributesAndInputsThatDiffer) {
  expect_apart("%a = LeakyRelu (%x) {alpha = 0.1} %b = LeakyRelu (%x) %y = Add (%a, %b) output %y }");
  expect_apart("%a = Exp (%x) %b = Exp (%z) %y = Add (%a, %b) output %y }");
}

TEST(MergeDuplicates, RandomNumbersAndSubgraphs) {
  expect_apart("%a = RandomNormalLike (%x) %b = RandomNormalLike (%x) %y = Sub (%a, %b) output %y }");
  const std::string branches =
      " captures (%x) {else_branch = graph { input %u : f32[batch, 4] %r = RandomNormalLike (%u) output %r }, "
      "then_branch = graph { input %u : f32[batch, 4] output %u }} ";
  expect_apart("input %c : bool[] %a = If (%c)" + branches + "%b = If (%c)" + branches +
               "%y = Sub (%a, %b) output %y }");
}

TEST(MergeDuplicates, ResultsKeepTheirNames) {
  expect_merged("%a = Exp (%x) %b = Exp (%x) output %a, %b }", {"%a = Exp (%x)", "%b = Identity (%a)"});
  expect_apart("%a = Identity (%x) %b = Identity (%x) output %a, %b }");
  // What a variable becomes is a result too.
  expect_merged(
      "variable %v \"state\" = f32[2, 4] {1, 2, 3, 4, 5, 6, 7, 8} update %b %a = Exp (%v) %b = Exp (%v) %y = Neg (%a) "
      "output %y }",
      {"%a = Exp (%v)", "%b = Identity (%a)", "%y = Neg (%a)"});
}

std::size_t constants_of(const ir::Graph& graph) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.value_count(); ++i)
    count += graph.is_constant(ir::ValueId{static_cast<std::int32_t>(i)}) ? 1 : 0;
  return count;
}

TEST(MergeDuplicates, ConstantsWithTheSameBytes) {
  expect_merged(
      "constant %c = f32[4] {1, 2, 3, 4} constant %d = f32[4] {1, 2, 3, 4} %a = Mul (%x, %c) %b = Mul (%z, %d) %y = "
      "Add (%a, %b) output %y }",
      {"%a = Mul (%x, %c)", "%b = Mul (%z, %c)", "%y = Add (%a, %b)"});
  // Another shape, another type, another zero.
  expect_apart(
      "constant %c = f32[4] {0, 0, 0, 0} constant %d = f32[1, 4] {0, 0, 0, 0} constant %e = f32[4] {-0.0, 0, 0, 0} %a "
      "= Mul (%x, %c) %b = Mul (%z, %d) %f = Div (%z, %e) "
      "%g = Add (%a, %b) %y = Add (%f, %g) output %y }");
  // One that is an output stays.
  expect_apart("constant %c = f32[4] {1, 2, 3, 4} constant %d = f32[4] {1, 2, 3, 4} output %c, %d }");
}

TEST(MergeDuplicates, LargeConstantsThatDifferInTheMiddle) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{1000}));
  for (const float middle : {1.0f, 2.0f, 1.0f}) {
    std::vector<float> values(1000, 0.5f);
    values[500] = middle;
    graph.add_output(graph.add_op("Add", {x, graph.add_constant(Tensor::from<float>({1000}, values))}));
  }
  ops::infer_graph(graph);
  const ir::Graph merged = merge_duplicates(std::move(graph), {});
  EXPECT_EQ(constants_of(merged), 2u);
  EXPECT_EQ(test::ops_of(merged), (std::vector<std::string>{"Add", "Add", "Identity"}));
}

TEST(MergeDuplicates, DeferredConstantsOfOneStorageAreNotComputed) {
  const auto deferred = [](float value) {
    return Tensor::deferred(DType::f32, {2}, [value](void* to) { std::fill_n(static_cast<float*>(to), 2, value); });
  };
  const Tensor first = deferred(1), alike = deferred(1);
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{2}));
  ir::ValueId y = x;
  for (const Tensor& each : {first, first, alike}) y = builder.add("Add", {y, builder.constant(each)});
  graph.add_output(y);
  const ir::Graph merged = merge_duplicates(std::move(graph), {});
  std::set<std::int32_t> constants;
  for (const ir::NodeId id : merged.order()) constants.insert(merged.node(id).inputs[1].index);
  EXPECT_EQ(constants.size(), 2u);
  EXPECT_TRUE(first.is_deferred() && alike.is_deferred());
}

}  // namespace
}  // namespace tessera::passes::merge_duplicates_test
