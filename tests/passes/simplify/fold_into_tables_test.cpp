// What happens to the rows of tables beforehand.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::fold_into_tables_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kMatrix = "constant %w = f32[3, 2] {1, 2, 3, 4, 5, -6} ";
const std::string kRows =
    "graph { input %x : f32[batch, 5] constant %half = f32[] {0.5} constant %g = f32[2] {3, -1} %b = Greater (%x, "
    "%half) %k = Cast (%b) {to = 7} " +
    kMatrix + "%r = Gather (%w, %k) ";
const Lines kKeys{"%b = Greater (%x, %half)", "%k = Cast (%b) {to = 7}"};

Lines keys_then(const std::string& line) {
  Lines lines = kKeys;
  lines.push_back(line);
  return lines;
}

TEST(FoldIntoTables, ChainsOfElementWiseOperators) {
  test::expect_rewritten(kRows + "%s = Add (%r, %g) %t = Relu (%s) %y = Mul (%half, %t) output %y }",
                         "fold_into_tables", keys_then("%y = Gather (%?, %k) {axis = 0}"), 0);
  test::expect_rewritten(kRows + "constant %h = f32[1, 1, 2] {2, 3} %y = Sub (%h, %r) output %y }", "fold_into_tables",
                         keys_then("%y = Gather (%?, %k) {axis = 0}"), 0);
}

TEST(FoldIntoTables, OnlyWhereNothingElseReadsThemAndTheyAreSmall) {
  const auto expect_left = [](const std::string& text) { test::expect_left_alone(text, "fold_into_tables"); };
  expect_left(kRows + "%s = Relu (%r) %y = Add (%s, %r) output %y }");
  expect_left(kRows + "%y = Relu (%r) %z = Gather (%w, %k) {axis = 1} output %y, %z }");
  expect_left(kRows + "%y = Relu (%r) output %y, %r }");
  expect_left(kRows + "constant %h = f32[5, 1] {1, 2, 3, 4, 5} %y = Add (%r, %h) output %y }");
  expect_left(kRows + "constant %h = f32[1, 1, 1, 2] {1, 2} %y = Add (%r, %h) output %y }");  // one axis more
  expect_left(
      "graph { input %x : f32[batch, 1] constant %half = f32[] {0.5} %b = Greater (%x, %half) %k = Cast (%b) {to = "
      "7} " +
      kMatrix + "%r = Gather (%w, %k) %y = Relu (%r) output %y }");
}

}  // namespace
}  // namespace tessera::passes::fold_into_tables_test
