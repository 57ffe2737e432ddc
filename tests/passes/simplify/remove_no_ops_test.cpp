// Nodes that give their input as it is, and those that only look so.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::remove_no_ops_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart =
    "graph { input %x : f32[2, 3] input %z : f32[batch, 3] constant %none = i64[4] {0, 0, 0, 0} "
    "constant %ones = i64[2] {1, 1} constant %zero = i64[1] {0} constant %all = i64[1] {9} ";

void expect_removed(const std::string& no_op) {
  test::expect_rewritten(kStart + "%a = " + no_op + " %y = Relu (%a) output %y }", "remove_no_ops", {"%y = Relu (%x)"},
                         0);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "remove_no_ops");
}

TEST(RemoveNoOps, OfEveryKind) {
  expect_removed("Identity (%x)");
  expect_removed("Dropout (%x)");
  expect_removed("Cast (%x) {to = 1}");
  expect_removed("Transpose (%x) {perm = [0, 1]}");
  expect_removed("Slice (%x, %zero, %all)");
  expect_removed("Pad (%x, %none)");
  expect_removed("Tile (%x, %ones)");
  expect_removed("Concat (%x) {axis = 0}");
  expect_removed("Sum (%x)");
  expect_removed("Expand (%x, %ones)");
  expect_removed("Flatten (%x) {axis = 1}");
}

TEST(RemoveNoOps, OneAfterTheOther) {
  test::expect_rewritten(
      kStart + "%a = Identity (%x) %b = Pad (%a, %none) %c = Identity (%b) %y = Add (%c, %a) output %y }",
      "remove_no_ops", {"%y = Add (%x, %x)"}, 0);
}

TEST(RemoveNoOps, TheNodeBeforeTakesTheNameOfAnOutput) {
  test::expect_rewritten(kStart + "%a = Relu (%x) %y = Identity (%a) output %y }", "remove_no_ops", {"%y = Relu (%x)"},
                         0);
  test::expect_rewritten(kStart + "%a = Relu (%x) %b = Neg (%a) %y = Identity (%a) output %y, %b }", "remove_no_ops",
                         {"%y = Relu (%x)", "%b = Neg (%y)"}, 0);
}

TEST(RemoveNoOps, LeavesOutputsThatNoOtherNodeCanGive) {
  expect_unchanged("%y = Identity (%x) output %y }");
  expect_unchanged("%a = Relu (%x) %y = Identity (%a) output %y, %a }");
}

TEST(RemoveNoOps, LeavesWhatChangesSomething) {
  expect_unchanged("%a = Cast (%x) {to = 11} %y = Neg (%a) output %y }");
  expect_unchanged("%a = Transpose (%x) {perm = [1, 0]} %y = Relu (%a) output %y }");
  expect_unchanged("constant %e = i64[1] {1} %a = Slice (%x, %zero, %e) %y = Relu (%a) output %y }");
  expect_unchanged("constant %p = i64[4] {0, 0, 1, 0} %a = Pad (%x, %p) %y = Relu (%a) output %y }");
  expect_unchanged("constant %n = i64[2] {1, 2} %a = Tile (%x, %n) %y = Relu (%a) output %y }");
  expect_unchanged("%a = Concat (%x, %x) {axis = 0} %y = Relu (%a) output %y }");
  expect_unchanged("constant %n = i64[1] {-1} %a = Reshape (%x, %n) %y = Relu (%a) output %y }");
  // The pads are not known before the run, nor is whether Dropout is training.
  expect_unchanged("input %p : i64[4] %a = Pad (%x, %p) %y = Relu (%a) output %y }");
  expect_unchanged("input %t : bool[] %a = Dropout (%x, none, %t) %y = Relu (%a) output %y }");
  expect_unchanged("%a, %m = Dropout (%x) %y = Relu (%a) output %y, %m }");
}

TEST(RemoveNoOps, LeavesShapesThatMayDiffer) {
  expect_unchanged("input %s : i64[2] %a = Reshape (%z, %s) %y = Relu (%a) output %y }");
  expect_unchanged("input %s : i64[2] %a = Expand (%z, %s) %y = Relu (%a) output %y }");
}

}  // namespace
}  // namespace tessera::passes::remove_no_ops_test
