#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::absorb_transposes_test {
namespace {

using test::expect_left_alone;
using test::expect_rewritten;

constexpr std::string_view kPass = "absorb_transposes";
const std::string kStart = "graph { input %x : f32[2, 3, 4] input %y : f32[2, 5, 4] input %z : f32[2, 4, 3] ";
const std::string kSwap = " {perm = [0, 2, 1]} ";

TEST(AbsorbTransposes, OfEitherOperand) {
  expect_rewritten(kStart + "%t = Transpose (%y)" + kSwap + "%p = MatMul (%x, %t) output %p }", kPass,
                   {"%p = tessera::TransposedMatMul (%x, %y) {transB = 1}"});
  expect_rewritten(
      kStart + "%s = Transpose (%z)" + kSwap + "%t = Transpose (%y)" + kSwap + "%p = MatMul (%s, %t) output %p }",
      kPass, {"%p = tessera::TransposedMatMul (%z, %y) {transA = 1, transB = 1}"});
  // A tensor with itself.
  expect_rewritten(kStart + "%t = Transpose (%x)" + kSwap + "%p = MatMul (%x, %t) output %p }", kPass,
                   {"%p = tessera::TransposedMatMul (%x, %x) {transB = 1}"});
  expect_rewritten(
      "graph { input %x : f32[3, 4] input %y : f32[5, 4] %t = Transpose (%y) %p = MatMul (%x, %t) output %p }", kPass,
      {"%p = tessera::TransposedMatMul (%x, %y) {transB = 1}"});
}

TEST(AbsorbTransposes, OtherOrdersUsesAndTypesStay) {
  expect_left_alone(
      "graph { input %x : f32[1, 3, 2, 4] input %y : f32[1, 5, 2, 4] %s = Transpose (%x) {perm = [0, 2, 1, 3]} %t = "
      "Transpose (%y) {perm = [0, 2, 3, 1]} %p = MatMul (%s, %t) output %p }",
      kPass);
  expect_left_alone(kStart + "%t = Transpose (%y)" + kSwap + "%p = MatMul (%x, %t) %e = Exp (%t) output %p, %e }",
                    kPass);
  expect_left_alone(kStart + "%t = Transpose (%y)" + kSwap + "%p = MatMul (%x, %t) output %p, %t }", kPass);
  expect_left_alone(
      "graph { input %x : f64[3, 4] input %y : f64[5, 4] %t = Transpose (%y) {perm = [1, 0]} %p = MatMul (%x, %t) "
      "output %p }",
      kPass);
}

// They become a layer that takes bias and activation, too, and rounds when asked to.
TEST(AbsorbTransposes, ProductsWithConstantsStay) {
  expect_left_alone("graph { input %x : f32[2, 3, 4] constant %w = f32[3, 2] {1, 2, 3, 4, 5, 6} %t = Transpose (%x)" +
                        kSwap + "%p = MatMul (%t, %w) output %p }",
                    kPass);
}

// fold_constants leaves large weights as they lie, which products read then.
TEST(AbsorbTransposes, OfWeights) {
  const std::string start =
      "graph { input %x : f32[2, 3, 4] constant %w = f32[2, 4] {1, 2, 3, 4, 5, 6, 7, 8} %t = Transpose (%w) ";
  expect_rewritten(start + "%p = MatMul (%x, %t) output %p }", kPass,
                   {"%p = tessera::TransposedMatMul (%x, %w) {transB = 1}"});
  expect_rewritten(start + "%e = Exp (%x) %p = MatMul (%x, %t) %q = MatMul (%e, %t) output %p, %q }", kPass,
                   {"%e = Exp (%x)", "%p = tessera::TransposedMatMul (%x, %w) {transB = 1}",
                    "%q = tessera::TransposedMatMul (%e, %w) {transB = 1}"});
  expect_rewritten(
      "graph { input %x : f32[2, 3, 4] constant %w = f32[2, 4] {1, 2, 3, 4, 5, 6, 7, 8} constant %b = f32[2] {1, 2} %p "
      "= tessera::TransposedMatMul (%x, %w) {transB = 1} %s = Add (%p, %b) %y = Relu (%s) output %y }",
      "fuse_epilogues", {"%y = tessera::Linear (%x, %w, %b) {activation = \"Relu\", transB = 1}"});
}

TEST(AbsorbTransposes, LargeWeightsOfProductsAreNotCopied) {
  std::string numbers;
  for (int i = 0; i < 1024 * 1025; ++i) numbers += i % 3 == 0 ? "1, " : i % 3 == 1 ? "-2, " : "0.5, ";
  numbers.resize(numbers.size() - 2);
  const std::string start =
      "graph { input %x : f32[2, 1025] constant %w = f32[1024, 1025] {" + numbers + "} %t = Transpose (%w) ";
  const std::string two = start + "%e = Exp (%x) %p = MatMul (%x, %t) %q = MatMul (%e, %t) output %p, %q }";
  expect_left_alone(two, "fold_constants");
  test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(test::parsed(two))), "absorb_transposes");
  const ir::Graph folded =
      fold_constants(test::parsed(start + "%p = MatMul (%x, %t) output %p, %t }"), test::cpu_pass_context());
  EXPECT_EQ(test::ops_of(folded), (std::vector<std::string>{"MatMul"}));
}

// It may be part of attention that only known shapes show.
TEST(AbsorbTransposes, ShapesAreToBeKnown) {
  expect_left_alone("graph { input %x : f32[n, 3, 4] input %y : f32[n, 5, 4] %t = Transpose (%y)" + kSwap +
                        "%p = MatMul (%x, %t) output %p }",
                    kPass);
}

}  // namespace
}  // namespace tessera::passes::absorb_transposes_test
