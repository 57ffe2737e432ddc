#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes {
namespace {

using test::expect_left_alone;
using test::expect_rewritten;

constexpr std::string_view kPass = "absorb_transposes";
const std::string kStart = "graph { input %x : f32[2, 3, 4] input %y : f32[2, 5, 4] input %z : f32[2, 4, 3] ";
const std::string kSwap = " {perm = [0, 2, 1]} ";

TEST(AbsorbTransposes, OfEitherOperand) {
  expect_rewritten(kStart + "%t = Transpose (%y)" + kSwap + "%p = MatMul (%x, %t) output %p }", kPass, {"%p = tessera::TransposedMatMul (%x, %y) {transB = 1}"});
  expect_rewritten(kStart + "%s = Transpose (%z)" + kSwap + "%t = Transpose (%y)" + kSwap + "%p = MatMul (%s, %t) output %p }", kPass,
                   {"%p = tessera::TransposedMatMul (%z, %y) {transA = 1, transB = 1}"});
  // A tensor with itself.
  expect_rewritten(kStart + "%t = Transpose (%x)" + kSwap + "%p = MatMul (%x, %t) output %p }", kPass, {"%p = tessera::TransposedMatMul (%x, %x) {transB = 1}"});
  expect_rewritten("graph { input %x : f32[3, 4] input %y : f32[5, 4] %t = Transpose (%y) %p = MatMul (%x, %t) output %p }", kPass, {"%p = tessera::TransposedMatMul (%x, %y) {transB = 1}"});
}

TEST(AbsorbTransposes, OtherOrdersUsesAndTypesStay) {
  expect_left_alone("graph { input %x : f32[1, 3, 2, 4] input %y : f32[1, 5, 2, 4] %s = Transpose (%x) {perm = [0, 2, 1, 3]} %t = Transpose (%y) {perm = [0, 2, 3, 1]} %p = MatMul (%s, %t) output %p }", kPass);
  expect_left_alone(kStart + "%t = Transpose (%y)" + kSwap + "%p = MatMul (%x, %t) %e = Exp (%t) output %p, %e }", kPass);
  expect_left_alone(kStart + "%t = Transpose (%y)" + kSwap + "%p = MatMul (%x, %t) output %p, %t }", kPass);
  expect_left_alone("graph { input %x : f64[3, 4] input %y : f64[5, 4] %t = Transpose (%y) {perm = [1, 0]} %p = MatMul (%x, %t) output %p }", kPass);
}

// They become a layer that takes bias and activation, too, and rounds when asked to.
TEST(AbsorbTransposes, ProductsWithConstantsStay) {
  expect_left_alone("graph { input %x : f32[2, 3, 4] constant %w = f32[3, 2] {1, 2, 3, 4, 5, 6} %t = Transpose (%x)" + kSwap + "%p = MatMul (%t, %w) output %p }", kPass);
}

// It may be part of attention that only known shapes show.
TEST(AbsorbTransposes, ShapesAreToBeKnown) {
  expect_left_alone("graph { input %x : f32[n, 3, 4] input %y : f32[n, 5, 4] %t = Transpose (%y)" + kSwap + "%p = MatMul (%x, %t) output %p }", kPass);
}

}  // namespace
}  // namespace tessera::passes
