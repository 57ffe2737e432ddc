// What is computed ahead of the runs, and what has to wait for them.
#include "passes/simplify/fold_constants.h"

#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::fold_constants_test {
namespace {

using test::nodes_of;
using test::parsed;
using Lines = std::vector<std::string>;

const std::string kStart =
    "graph { input %x : f32[batch, 2] input %z : f32[2, 3] constant %a = f32[2] {1, 2} "
    "constant %b = f32[2] {3, 5} ";

void expect_folded(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "fold_constants", nodes, 0);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "fold_constants");
}

// The constant that a value has become.
Tensor folded(const std::string& text, std::string_view name) {
  const ir::Graph graph = fold_constants(parsed(kStart + text), test::cpu_pass_context());
  const Tensor* constant = graph.constant(graph.find_value(name));
  return constant != nullptr ? *constant : Tensor();
}

TEST(FoldConstants, ComputesWhatDependsOnConstantsAlone) {
  expect_folded("%s = Add (%a, %b) %p = Mul (%s, %b) %y = Sub (%x, %p) output %y }", {"%y = Sub (%x, %p)"});
  EXPECT_TRUE(identical(folded("%s = Add (%a, %b) %p = Mul (%s, %b) %y = Sub (%x, %p) output %y }", "p"),
                        Tensor::from<float>({2}, {12, 35})));
}

TEST(FoldConstants, ComputesShapesThatAreKnownThoughTheirValuesAreNot) {
  const std::string text = "%n = Shape (%z) %m = Size (%z) %y = Add (%n, %m) output %y }";
  EXPECT_EQ(nodes_of(fold_constants(parsed(kStart + text), test::cpu_pass_context())), Lines{});
  EXPECT_TRUE(identical(folded(text, "y"), Tensor::from<std::int64_t>({2}, {8, 9})));
}

TEST(FoldConstants, LeavesWhatDependsOnInputs) {
  expect_unchanged("%y = Add (%x, %a) output %y }");
  expect_unchanged("%n = Shape (%x) output %n }");
}

TEST(FoldConstants, LeavesRandomNumbers) {
  expect_unchanged("%r = RandomUniform () {shape = [2]} %y = Add (%x, %r) output %y }");
}

TEST(FoldConstants, LeavesWhatFailsToTheRunThatReachesIt) {
  expect_unchanged("constant %i = i64[1] {7} %g = Gather (%a, %i) %y = Add (%x, %g) output %y }");
}

TEST(FoldConstants, LeavesWhatTheBudgetDoesNotAllow) {
  const std::string text = kStart + "constant %n = i64[1] {1000} %c = ConstantOfShape (%n) output %c }";
  PassContext context = test::cpu_pass_context();
  EXPECT_EQ(nodes_of(fold_constants(parsed(text), context)), Lines{});
  context.folding.bytes = 3000;  // and twice what the constants take
  EXPECT_EQ(nodes_of(fold_constants(parsed(text), context)), Lines{"%c = ConstantOfShape (%n)"});
  context = test::cpu_pass_context();
  context.folding.operations = 500;  // and 20 for each element of the constants
  EXPECT_EQ(nodes_of(fold_constants(parsed(text), context)), Lines{"%c = ConstantOfShape (%n)"});
}

TEST(FoldConstants, LeavesWeightsQuantisedForLayersOfQuantisedData) {
  const std::string text =
      "graph { input %q : u8[1, 2] constant %s = f32[] {0.5} constant %z = u8[] {3} constant %w = i8[2, 2] {1, 2, 3, "
      "4} "
      "%d = DequantizeLinear (%q, %s, %z) %wd = DequantizeLinear (%w, %s) %y = MatMul (%d, %wd) output %y }";
  const Lines all{"%d = DequantizeLinear (%q, %s, %z)", "%wd = DequantizeLinear (%w, %s)", "%y = MatMul (%d, %wd)"};
  EXPECT_EQ(nodes_of(fold_constants(parsed(text), test::cpu_pass_context())), all);
  EXPECT_EQ(nodes_of(fold_all_constants(parsed(text), test::cpu_pass_context())), (Lines{all[0], all[2]}));
  // The data of this one is not quantised.
  test::expect_rewritten(
      "graph { input %d : f32[1, 2] constant %s = f32[] {0.5} constant %w = i8[2, 2] {1, 2, 3, 4} "
      "%wd = DequantizeLinear (%w, %s) %y = MatMul (%d, %wd) output %y }",
      "fold_constants", {"%y = MatMul (%d, %wd)"}, 0);
}

TEST(FoldConstants, LeavesLargeWeightsNarrowInFiles) {
  const std::string text =
      "graph { input %x : f32[1, 64] constant %n = i64[2] {64, 64} "
      "%h = ConstantOfShape (%n) {value = f16[1] {0.5}} %w = Cast (%h) {to = 1} %y = MatMul (%x, %w) output %y }";
  PassContext context = test::cpu_pass_context();
  EXPECT_EQ(nodes_of(fold_constants(parsed(text), context)), Lines{"%y = MatMul (%x, %w)"});
  context.keeps_narrow_weights = true;
  EXPECT_EQ(nodes_of(fold_constants(parsed(text), context)),
            (Lines{"%w = Cast (%h) {to = 1}", "%y = MatMul (%x, %w)"}));
}

}  // namespace
}  // namespace tessera::passes::fold_constants_test
