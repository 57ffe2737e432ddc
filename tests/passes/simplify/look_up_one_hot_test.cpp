// Products of one-hot rows that become look-ups.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::look_up_one_hot_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kMatrix = "constant %w = f32[3, 2] {1, 2, 3, 4, 5, -6} ";
// Random inputs are floats in [0, 1) and integers 0 or 1: here they become -2 … 7, on both sides of the matrix.
const std::string kIndices =
    "graph { input %x : f32[batch, 5] constant %ten = f32[] {10} constant %two = f32[] {2} %a = Mul (%x, %ten) %b = "
    "Sub (%a, %two) %c = Floor (%b) %k = Cast (%c) {to = 7} constant %last = i64[1] {-1} " +
    kMatrix;
const std::string kCount = "constant %n = i64[1, 1, 3] {0, 1, 2} %u = Unsqueeze (%k, %last) ";
const std::string kOneHot = kIndices + kCount + "%e = Equal (%u, %n) %h = Cast (%e) {to = 1} ";
const Lines kBounds{"%a = Mul (%x, %ten)", "%b = Sub (%a, %two)", "%c = Floor (%b)", "%k = Cast (%c) {to = 7}"};

Lines after(Lines lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}
void expect_looked_up(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(text, "look_up_one_hot", nodes, 0);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(text, "look_up_one_hot");
}

TEST(LookUpOneHot, ComparedWithACount) {
  const Lines looked_up = after(kBounds, {"%u = Unsqueeze (%k, %last)", "%? = Squeeze (%u, %?)", "%? = Max (%?, %?)",
                                          "%? = Min (%?, %?)", "%y = Gather (%?, %?) {axis = 0}"});
  expect_looked_up(kOneHot + "%y = MatMul (%h, %w) output %y }", looked_up);
  expect_looked_up(kIndices + kCount + "%e = Equal (%n, %u) %h = Cast (%e) {to = 1} %y = MatMul (%h, %w) output %y }",
                   looked_up);
}

TEST(LookUpOneHot, TheOperatorWhichCountsFromTheEndToo) {
  const std::string values = "constant %d = i64[] {3} constant %v = f32[2] {0, 1} ";
  expect_looked_up(kIndices + values + "%h = OneHot (%k, %d, %v) %y = MatMul (%h, %w) output %y }",
                   after(kBounds, {"%? = Max (%k, %?)", "%? = Min (%?, %?)", "%y = Gather (%?, %?) {axis = 0}"}));
  // From -7 to 2, so that all of the rows from the end are named, and what lies before them.
  const std::string lower = kIndices + "constant %five = i64[] {5} %m = Sub (%k, %five) " + values;
  expect_looked_up(lower + "%h = OneHot (%m, %d, %v) %y = MatMul (%h, %w) output %y }",
                   after(kBounds, {"%m = Sub (%k, %five)", "%? = Max (%m, %?)", "%? = Min (%?, %?)",
                                   "%y = Gather (%?, %?) {axis = 0}"}));
  expect_unchanged(
      kIndices +
      "constant %d = i64[] {3} constant %v = f32[2] {0, 2} %h = OneHot (%k, %d, %v) %y = MatMul (%h, %w) output %y }");
  expect_unchanged(kIndices +
                   "constant %d = i64[] {5} constant %v = f32[2] {0, 1} %h = OneHot (%k, %d, %v) {axis = 1} constant "
                   "%z = f32[5, 2] {1, 2, 3, 4, 5, 6, 7, 8, 9, 0} %y = MatMul (%h, %z) output %y }");
}

TEST(LookUpOneHot, LeavesDepthsThatTheModelComputes) {
  expect_unchanged(
      kIndices +
      "input %d : f32[] constant %v = f32[2] {0, 1} %h = OneHot (%k, %d, %v) %y = MatMul (%h, %w) output %y }");
}

TEST(LookUpOneHot, LeavesOthers) {
  expect_unchanged(kIndices +
                   "constant %n = i64[1, 1, 3] {0, 2, 1} %u = Unsqueeze (%k, %last) %e = Equal (%u, %n) %h = Cast (%e) "
                   "{to = 1} %y = MatMul (%h, %w) output %y }");
  expect_unchanged(kOneHot + "constant %z = f32[3, 2] {1, inf, 3, 4, 5, 6} %y = MatMul (%h, %z) output %y }");
  expect_unchanged(kOneHot + "constant %z = f32[3] {1, 2, 3} %y = MatMul (%h, %z) output %y }");
  expect_unchanged(kOneHot + "input %z : f32[3, 2] %y = MatMul (%h, %z) output %y }");
  expect_unchanged(
      "graph { input %x : f32[2, 3] constant %n = f32[1, 3] {0, 1, 2} " + kMatrix +
      "%e = Equal (%x, %n) %h = Cast (%e) {to = 1} %y = MatMul (%h, %w) output %y }");  // the numbers differ along the
                                                                                        // row
}

}  // namespace
}  // namespace tessera::passes::look_up_one_hot_test
