// Reshapes, transposes, casts and reductions that follow each other.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::merge_movement_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart =
    "graph { input %x : f32[batch, 4, 6] constant %1 = i64[1] {1} constant %flat = i64[2] {-1, 24} constant %wide = "
    "i64[3] {-1, 2, 12} constant %zero = i64[2] {0, 24} ";

void expect_merged(const std::string& text, const Lines& nodes, int epsilons = 2) {
  test::expect_rewritten(kStart + text, "merge_movement", nodes, epsilons);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "merge_movement");
}

TEST(MergeMovement, ReshapesOfReshapes) {
  expect_merged("%a = Reshape (%x, %flat) %y = Reshape (%a, %wide) output %y }", {"%y = Reshape (%x, %wide)"});
  expect_merged("%a = Unsqueeze (%x, %1) %y = Reshape (%a, %zero) output %y }", {"%y = Reshape (%x, %?)"});
  expect_merged("%a = Flatten (%x) %b = Reshape (%a, %wide) %y = Exp (%b) output %y, %a }",
                {"%a = Flatten (%x)", "%b = Reshape (%x, %wide)", "%y = Exp (%b)"});
}

TEST(MergeMovement, ShapesThatComeBack) {
  expect_merged("%a = Unsqueeze (%x, %1) %b = Squeeze (%a, %1) %y = Exp (%b) output %y }", {"%y = Exp (%x)"});
  expect_merged("constant %s = i64[3] {0, 4, 6} %b = Reshape (%x, %s) %y = Exp (%b) output %y }", {"%y = Exp (%x)"});
  expect_merged("%n = Shape (%x) %a = Reshape (%x, %flat) %b = Reshape (%a, %n) %y = Exp (%b) output %y }",
                {"%y = Exp (%x)"});
  // Sizes that only happen to be equal, perhaps.
  expect_unchanged("input %z : f32[a, b] input %s : i64[2] %b = Reshape (%z, %s) %y = Exp (%b) output %y }");
}

TEST(MergeMovement, TransposesOfTransposes) {
  expect_merged(
      "%a = Transpose (%x) {perm = [0, 2, 1]} %b = Transpose (%a) {perm = [0, 2, 1]} %y = Exp (%b) output %y }",
      {"%y = Exp (%x)"});
  expect_merged("%a = Transpose (%x) {perm = [1, 2, 0]} %y = Transpose (%a) {perm = [0, 2, 1]} output %y }",
                {"%y = Transpose (%x) {perm = [1, 0, 2]}"});
  expect_merged("%a = Transpose (%x) %y = Transpose (%a) {perm = [1, 0, 2]} output %y, %a }",
                {"%a = Transpose (%x)", "%y = Transpose (%x) {perm = [1, 2, 0]}"});
}

TEST(MergeMovement, TransposesInBatches) {
  const std::string four =
      "constant %to = i64[3] {-1, 7, 5} constant %four = i64[4] {2, 3, 5, 7} input %k2 : f32[2, 3, 7, 5] ";
  expect_merged(
      four + "%a = Reshape (%k2, %to) %b = Transpose (%a) {perm = [0, 2, 1]} %y = Reshape (%b, %four) output %y }",
      {"%y = Transpose (%k2) {perm = [0, 1, 3, 2]}"});
  expect_unchanged(
      four + "%a = Reshape (%k2, %to) %b = Transpose (%a) {perm = [1, 0, 2]} %y = Reshape (%b, %four) output %y }");
  expect_unchanged(four +
                   "constant %turned = i64[4] {3, 2, 5, 7} %a = Reshape (%k2, %to) %b = Transpose (%a) {perm = [0, 2, "
                   "1]} %y = Reshape (%b, %turned) output %y }");
}

TEST(MergeMovement, CastsThatLoseNothing) {
  expect_merged("input %i : i32[3] %a = Cast (%i) {to = 7} %b = Cast (%a) {to = 6} %y = Neg (%b) output %y }",
                {"%y = Neg (%i)"});
  expect_merged("input %i : u8[3] %a = Cast (%i) {to = 1} %y = Cast (%a) {to = 11} output %y }",
                {"%y = Cast (%i) {to = 11}"});
  expect_unchanged("input %i : i64[3] %a = Cast (%i) {to = 1} %b = Cast (%a) {to = 7} %y = Neg (%b) output %y }");
  expect_unchanged("%a = Cast (%x) {to = 10} %b = Cast (%a) {to = 1} %y = Neg (%b) output %y }");
}

TEST(MergeMovement, ReductionsAndTheirDimensions) {
  expect_merged("%a = ReduceMean (%x, %1) {keepdims = 0} %y = Unsqueeze (%a, %1) output %y }",
                {"%y = ReduceMean (%x, %1) {keepdims = 1}"});
  expect_merged("%a = ReduceMax (%x, %1) %y = Squeeze (%a, %1) output %y }",
                {"%y = ReduceMax (%x, %1) {keepdims = 0}"});
  // Another place, another use.
  expect_unchanged(
      "constant %2 = i64[1] {2} %a = ReduceMean (%x, %1) {keepdims = 0} %y = Unsqueeze (%a, %2) output %y }");
  expect_unchanged(
      "%a = ReduceMean (%x, %1) {keepdims = 0} %b = Unsqueeze (%a, %1) %y = Sub (%x, %b) %z = Exp (%a) output %y, %z "
      "}");
}

TEST(MergeMovement, ReductionsOfReductions) {
  const std::string map = "input %m : f32[2, 3, 4, 5] constant %3 = i64[1] {3} constant %2 = i64[1] {2} ";
  expect_merged(map + "%a = ReduceMean (%m, %3) {keepdims = 0} %y = ReduceMean (%a, %2) {keepdims = 0} output %y }",
                {"%y = ReduceMean (%m, %?) {keepdims = 0}"}, 20);
  expect_merged(map + "%a = ReduceSum (%m, %2) %y = ReduceSum (%a, %3) output %y }",
                {"%y = ReduceSum (%m, %?) {keepdims = 1}"}, 20);
  // The axis behind one that went is another one than it is called.
  expect_merged(map + "%a = ReduceMax (%m, %1) {keepdims = 0} %y = ReduceMax (%a, %2) {keepdims = 0} output %y }",
                {"%y = ReduceMax (%m, %?) {keepdims = 0}"});
  expect_merged(
      "input %i : i64[2, 3, 4] constant %2 = i64[1] {2} %a = ReduceMin (%i, %1) %y = ReduceMin (%a, %2) output %y }",
      {"%y = ReduceMin (%i, %?) {keepdims = 1}"});
  expect_unchanged(map + "%a = ReduceMean (%m, %3) %y = ReduceMean (%a, %2) {keepdims = 0} output %y }");
  expect_unchanged(map + "%a = ReduceMean (%m, %3) %y = ReduceMax (%a, %2) output %y }");
  expect_unchanged(map + "%a = ReduceL2 (%m, %3) %y = ReduceL2 (%a, %2) output %y }");
  expect_unchanged(map + "%a = ReduceMean (%m, %3) %y = ReduceMean (%a, %2) output %y, %a }");
  expect_unchanged(
      "input %i : i64[2, 3, 4] constant %2 = i64[1] {2} %a = ReduceMean (%i, %1) %y = ReduceMean (%a, %2) output %y }");
}

TEST(MergeMovement, OneRowAndItsDimension) {
  expect_merged("constant %i = i64[] {2} %a = Gather (%x, %i) {axis = 1} %y = Unsqueeze (%a, %1) output %y }",
                {"%y = Gather (%x, %?) {axis = 1}"});
  expect_merged("constant %i = i64[1] {-1} %a = Gather (%x, %i) {axis = 1} %y = Squeeze (%a, %1) output %y }",
                {"%y = Gather (%x, %?) {axis = 1}"});
  expect_merged("constant %i = i64[1] {0} %s = Shape (%x) %a = Gather (%s, %i) %y = Squeeze (%a) output %y }",
                {"%s = Shape (%x)", "%y = Gather (%s, %?)"});
  // Another place, several rows, another use.
  expect_unchanged(
      "constant %2 = i64[1] {2} constant %i = i64[] {2} %a = Gather (%x, %i) {axis = 1} %y = Unsqueeze (%a, %2) output "
      "%y }");
  expect_unchanged(
      "constant %i = i64[2] {2, 1} constant %s = i64[2] {-1, 12} %a = Gather (%x, %i) {axis = 1} %y = Reshape (%a, %s) "
      "output %y }");
  expect_unchanged(
      "constant %i = i64[] {2} %a = Gather (%x, %i) {axis = 1} %y = Unsqueeze (%a, %1) %z = Exp (%a) output %y, %z }");
}

}  // namespace
}  // namespace tessera::passes::merge_movement_test
