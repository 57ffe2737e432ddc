// Shapes computed from symbolic dimensions.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::fold_shape_arithmetic_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart =
    "graph { input %x : f32[batch, length, 12] constant %zero = i64[] {0} constant %one = i64[] {1} constant %two = "
    "i64[] {2} constant %first = i64[1] {0} ";

void expect_folded(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "fold_shape_arithmetic", nodes, 0);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "fold_shape_arithmetic");
}

TEST(FoldShapeArithmetic, NumbersAmongNames) {
  expect_folded("%s = Shape (%x) %n = Gather (%s, %two) %y = Add (%n, %one) output %y }", {});
  expect_folded(
      "%s = Shape (%x) {start = 2} %c = Concat (%s, %s) {axis = 0} %a = ConstantOfShape (%c) %y = Trilu (%a) output %y "
      "}",
      {});
  expect_folded("%s = Shape (%x) {end = 1} %y = Sub (%s, %s) output %y }", {});
  for (const std::string op : {"Mod", "Min", "Max"})
    expect_folded("%s = Shape (%x) {start = 2} %y = " + op + " (%s, %two) output %y }", {});
  expect_folded("%s = Shape (%x) {end = 1} %y = Max (%s, %s) %z = Sub (%y, %s) output %z }", {});
}

TEST(FoldShapeArithmetic, ReshapesCopyWhatStays) {
  const std::string heads =
      "constant %h = i64[2] {3, 4} %s = Shape (%x) %b = Gather (%s, %zero) %l = Gather (%s, %one) %u = Unsqueeze (%b, "
      "%first) %v = Unsqueeze (%l, %first) ";
  expect_folded(heads + "%c = Concat (%u, %v, %h) {axis = 0} %y = Reshape (%x, %c) output %y }",
                {"%y = Reshape (%x, %?)"});
  expect_folded(heads + "%c = Concat (%u, %v, %h) {axis = 0} %y = Reshape (%x, %c) {allowzero = 1} output %y }",
                {"%y = Reshape (%x, %?)"});
  expect_folded(heads + "%m = Mul (%u, %v) %c = Concat (%m, %h) {axis = 0} %y = Reshape (%x, %c) output %y }",
                {"%y = Reshape (%x, %?)"});  // one follows from the others
  ir::Graph graph = fold_shape_arithmetic(
      test::parsed(kStart + heads + "%c = Concat (%u, %v, %h) {axis = 0} %y = Reshape (%x, %c) output %y }"),
      test::cpu_pass_context());
  EXPECT_EQ(ir::to_string(graph.value(graph.outputs()[0]).type), "f32[batch, length, 3, 4]");
  const Tensor& target = *graph.constant(graph.node(graph.order()[0]).inputs[1]);
  EXPECT_TRUE(std::ranges::equal(target.values<std::int64_t>(), std::vector<std::int64_t>{0, 0, 3, 4}));
}

TEST(FoldShapeArithmetic, ExpansionsToTheSameShape) {
  expect_folded("%s = Shape (%x) %a = Expand (%x, %s) %y = Neg (%a) output %y }", {"%y = Neg (%x)"});
  // As torch writes it: where the shape says -1, that of the operand.
  expect_folded(
      "constant %m = i64[3] {-1, -1, -1} constant %ones = i64[3] {1, 1, 1} %s = Shape (%x) %e = Equal (%s, %m) %w = "
      "Where (%e, %ones, %s) %a = Expand (%x, %w) %y = Neg (%a) output %y }",
      {"%y = Neg (%x)"});
}

TEST(FoldShapeArithmetic, ResultsHaveTheDimensionsThatWereComputed) {
  const auto type = [](const std::string& text) {
    const ir::Graph graph = fold_shape_arithmetic(test::parsed(kStart + text), test::cpu_pass_context());
    return ir::to_string(graph.value(graph.outputs()[0]).type);
  };
  EXPECT_EQ(type("%s = Shape (%x) %l = Gather (%s, %one) %y = Range (%zero, %l, %one) output %y }"), "i64[length]");
  EXPECT_EQ(type("%s = Shape (%x) {end = 2} %y = ConstantOfShape (%s) output %y }"), "f32[batch, length]");
  EXPECT_EQ(type("input %w : f32[12] %s = Shape (%x) %y = Expand (%w, %s) output %y }"), "f32[batch, length, 12]");
}

TEST(FoldShapeArithmetic, LeavesWhatIsNotKnown) {
  expect_unchanged("%s = Shape (%x) %y = Gather (%s, %one) output %y }");
  expect_unchanged("%s = Shape (%x) {end = 2} %y = Mul (%s, %s) output %y }");
  expect_unchanged("%s = Shape (%x) {end = 1} %y = Mod (%s, %two) output %y }");
  expect_unchanged("%s = Shape (%x) %y = Max (%s, %s, %s) output %y }");
  // Two that do not stay.
  const std::string turned =
      "constant %f = i64[2] {3, 4} %g = Shape (%x) {start = 1, end = 2} %h = Shape (%x) {end = 1} %c = Concat (%g, %h, "
      "%f) {axis = 0} ";
  const Lines lines{"%g = Shape (%x) {end = 2, start = 1}", "%h = Shape (%x) {end = 1}",
                    "%c = Concat (%g, %h, %f) {axis = 0}", "%y = Reshape (%x, %c)"};
  expect_folded(turned + "%y = Reshape (%x, %c) output %y }", lines);
  expect_unchanged("%s = Shape (%x) {end = 1} %y = Cast (%s) {to = 9} output %y }");  // a size is no condition
  expect_folded("input %w : f32[12] %s = Shape (%x) %a = Expand (%w, %s) %y = Neg (%a) output %y }",
                {"%s = Shape (%x)", "%a = Expand (%w, %s)", "%y = Neg (%a)"});
}

}  // namespace
}  // namespace tessera::passes::fold_shape_arithmetic_test
