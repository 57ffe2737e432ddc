// Arithmetic that becomes cheaper or goes, and what only looks like it.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::simplify_arithmetic_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart = "graph { input %x : f32[batch, 4] ";

void expect_simplified(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "simplify_arithmetic", nodes, 2);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "simplify_arithmetic");
}

TEST(SimplifyArithmetic, Powers) {
  expect_simplified("constant %e = f32[] {2} %y = Pow (%x, %e) output %y }", {"%y = Mul (%x, %x)"});
  expect_simplified("constant %e = i64[1] {2} %y = Pow (%x, %e) output %y }", {"%y = Mul (%x, %x)"});
  expect_simplified("constant %e = f32[] {0.5} %a = Abs (%x) %y = Pow (%a, %e) output %y }",
                    {"%a = Abs (%x)", "%y = Sqrt (%a)"});
  expect_simplified("constant %e = f32[] {-1} %y = Pow (%x, %e) output %y }", {"%y = Reciprocal (%x)"});
  expect_simplified("constant %e = f32[] {1} %a = Pow (%x, %e) %y = Exp (%a) output %y }", {"%y = Exp (%x)"});
  expect_unchanged("constant %e = f32[] {3} %y = Pow (%x, %e) output %y }");
  expect_unchanged("constant %e = f32[1, 1, 1] {2} %y = Pow (%x, %e) output %y }");  // the result has another rank
  expect_unchanged("input %i : i32[4] constant %e = i32[] {2} %y = Pow (%i, %e) output %y }");
}

TEST(SimplifyArithmetic, DivisionByConstants) {
  expect_simplified("constant %c = f32[4] {2, 3, -5, 0.1} %y = Div (%x, %c) output %y }", {"%y = Mul (%x, %?)"});
  expect_unchanged("constant %c = f32[4] {2, 3, 0, 0.1} %y = Div (%x, %c) output %y }");
  expect_unchanged("constant %c = f32[] {2e38} %y = Div (%x, %c) output %y }");  // the reciprocal has lost digits
  expect_unchanged("constant %c = f32[4] {2, 3, 4, 5} %y = Div (%c, %x) output %y }");
  expect_unchanged("input %i : i32[4] constant %c = i32[] {2} %y = Div (%i, %c) output %y }");
}

TEST(SimplifyArithmetic, OnesAndZeros) {
  expect_simplified("constant %c = f32[4] {1, 1, 1, 1} %a = Mul (%c, %x) %b = Div (%a, %c) %y = Exp (%b) output %y }",
                    {"%y = Exp (%x)"});
  expect_simplified("constant %c = f32[] {0} %a = Sub (%x, %c) %y = Exp (%a) output %y }", {"%y = Exp (%x)"});
  expect_simplified("constant %c = f32[] {-0.0} %a = Add (%c, %x) %y = Exp (%a) output %y }", {"%y = Exp (%x)"});
  expect_simplified("input %i : i64[4] constant %c = i64[] {0} %a = Add (%i, %c) %y = Neg (%a) output %y }",
                    {"%y = Neg (%i)"});
  // -0 + 0 is 0.
  expect_unchanged("constant %c = f32[] {0} %a = Add (%x, %c) %y = Reciprocal (%a) output %y }");
  expect_unchanged("constant %c = f32[] {-0.0} %a = Sub (%x, %c) %y = Reciprocal (%a) output %y }");
  // What broadcasts, or is an output.
  expect_unchanged("constant %c = f32[2, 1, 1] {1, 1} %a = Mul (%x, %c) %y = Exp (%a) output %y }");
  expect_unchanged("constant %c = f32[] {1} %y = Mul (%x, %c) output %y }");
  expect_unchanged("constant %c = f32[4] {1, 1, 1, 2} %a = Mul (%x, %c) %y = Exp (%a) output %y }");
}

TEST(SimplifyArithmetic, WhatUndoesOrRepeatsItself) {
  expect_simplified("%a = Neg (%x) %b = Neg (%a) %y = Exp (%b) output %y }", {"%y = Exp (%x)"});
  expect_simplified("input %b : bool[4] %c = Not (%b) %d = Not (%c) %y = And (%b, %d) output %y }",
                    {"%y = And (%b, %b)"});
  expect_simplified("%a = Relu (%x) %b = Relu (%a) %y = Exp (%b) output %y, %a }", {"%a = Relu (%x)", "%y = Exp (%a)"});
  expect_unchanged("%a = Exp (%x) %b = Exp (%a) %y = Neg (%b) output %y }");
}

TEST(SimplifyArithmetic, ChoicesThatAreMade) {
  const std::string other = "input %z : f32[batch, 4] ";
  expect_simplified(
      other + "constant %c = bool[4] {true, true, true, true} %a = Where (%c, %x, %z) %y = Exp (%a) output %y }",
      {"%y = Exp (%x)"});
  expect_simplified(other + "%g = Greater (%x, %z) %a = Where (%g, %x, %x) %y = Exp (%a) output %y }",
                    {"%y = Exp (%x)"});
  expect_simplified(other + "%g = Greater (%x, %z) %n = Not (%g) %y = Where (%n, %x, %z) output %y }",
                    {"%g = Greater (%x, %z)", "%y = Where (%g, %z, %x)"});
  expect_simplified(other + "constant %c = bool[] {false} %a = Where (%c, %x, %z) %y = Exp (%a) output %y }",
                    {"%y = Exp (%z)"});
  expect_unchanged(other +
                   "constant %c = bool[4] {true, true, true, false} %a = Where (%c, %x, %z) %y = Exp (%a) output %y }");
  expect_unchanged(
      "input %z : f32[3, batch, 4] constant %c = bool[] {true} %a = Where (%c, %x, %z) %y = Exp (%a) output %y }");
}

TEST(SimplifyArithmetic, ChoicesBetweenOneAndZero) {
  const std::string numbers = "constant %one = f32[] {1} constant %zero = f32[] {0} %g = Greater (%x, %zero) ";
  expect_simplified(numbers + "%y = Where (%g, %one, %zero) output %y }",
                    {"%g = Greater (%x, %zero)", "%y = Cast (%g) {to = 1}"});
  expect_simplified(
      numbers + "constant %i = i64[4] {1, 1, 1, 1} constant %j = i64[] {0} %y = Where (%g, %i, %j) output %y }",
      {"%g = Greater (%x, %zero)", "%y = Cast (%g) {to = 7}"});
  expect_unchanged(numbers + "%y = Where (%g, %zero, %one) output %y }");
  expect_unchanged(numbers + "constant %none = f32[] {-0.0} %y = Where (%g, %one, %none) output %y }");
  expect_unchanged(numbers +
                   "constant %row = f32[3, 1, 1] {1, 1, 1} %y = Where (%g, %row, %zero) output %y }");  // broadcast
}

TEST(SimplifyArithmetic, SumsOfTwoAndOfOne) {
  expect_simplified("input %z : f32[4] %y = Sum (%x, %z) output %y }", {"%y = Add (%x, %z)"});
  expect_simplified("%s = Sum (%x) %m = Max (%s) %y = Exp (%m) output %y }", {"%y = Exp (%x)"});
  expect_unchanged("input %z : f32[4] %y = Sum (%x, %z, %z) output %y }");
}

}  // namespace
}  // namespace tessera::passes::simplify_arithmetic_test
