// Expansions that the operator behind them makes needless, and those that give a result its shape.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::drop_expansions_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart = "graph { input %x : f32[batch, 4] input %z : f32[1, 4] constant %s = i64[2] {3, 4} ";

void expect_dropped(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "drop_expansions", nodes, 0);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "drop_expansions");
}

TEST(DropExpansions, OfWhatBroadcastsByItself) {
  expect_dropped("input %w : f32[3, 4] %a = Expand (%z, %s) %y = Add (%w, %a) output %y }", {"%y = Add (%w, %z)"});
  expect_dropped("input %w : f32[3, 4] constant %n = i64[2] {3, 1} %a = Tile (%z, %n) %y = Mul (%a, %w) output %y }",
                 {"%y = Mul (%z, %w)"});
  expect_dropped("%n = Shape (%x) %a = Expand (%z, %n) %b = Neg (%x) %c = Add (%x, %a) %y = Mul (%c, %b) output %y }",
                 {"%b = Neg (%x)", "%c = Add (%x, %z)", "%y = Mul (%c, %b)"});
  expect_dropped("input %w : f32[3, 4] %a = ConstantOfShape (%s) {value = f32[1] {7}} %y = Sub (%w, %a) output %y }",
                 {"%y = Sub (%w, %?)"});
  expect_dropped(
      "input %c : bool[3, 4] %a = Expand (%z, %s) %b = ConstantOfShape (%s) %y = Where (%c, %a, %b) output %y }",
      {"%y = Where (%c, %z, %?)"});
}

TEST(DropExpansions, OnlyWhereTheyGiveNoShape) {
  expect_unchanged("%a = Expand (%z, %s) %y = Exp (%a) output %y }");
  expect_unchanged("%a = Expand (%z, %s) %y = Add (%z, %a) output %y }");
  expect_unchanged("%a = Expand (%z, %s) %y = Add (%x, %a) output %y }");  // batch may be 1
  expect_unchanged(
      "constant %n = i64[2] {3, 2} input %w : f32[3, 8] %a = Tile (%z, %n) %y = Mul (%a, %w) output %y }");  // it
                                                                                                             // repeats
                                                                                                             // more
                                                                                                             // than one
  expect_unchanged("input %w : f32[4] %a = Expand (%z, %s) %y = MatMul (%a, %w) output %y }");
}

TEST(DropExpansions, WhereSomeUsesNeedThem) {
  expect_dropped(
      "input %w : f32[3, 4] %a = Expand (%z, %s) %b = Add (%w, %a) %y = Concat (%a, %b) {axis = 0} output %y }",
      {"%a = Expand (%z, %s)", "%b = Add (%w, %z)", "%y = Concat (%a, %b) {axis = 0}"});
}

}  // namespace
}  // namespace tessera::passes::drop_expansions_test
