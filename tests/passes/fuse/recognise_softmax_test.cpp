// Softmax and LogSoftmax in the spellings of exporters.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::recognise_softmax_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart =
    "graph { input %x : f32[batch, 5, 3] constant %1 = i64[1] {1} constant %last = i64[1] {-1} constant %two = i64[2] "
    "{1, 2} constant %lowest = f32[] {-inf} ";
const std::string kCentred = "%m = ReduceMax (%x, %last) %c = Sub (%x, %m) %e = Exp (%c) ";

void expect_recognised(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "recognise_softmax", nodes, 20);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "recognise_softmax");
}

TEST(RecogniseSoftmax, QuotientsOfExponentials) {
  const Lines result{"%y = Softmax (%x) {axis = -1}"};
  expect_recognised(kCentred + "%s = ReduceSum (%e, %last) %y = Div (%e, %s) output %y }", result);
  expect_recognised("%e = Exp (%x) %s = ReduceSum (%e, %last) %y = Div (%e, %s) output %y }", result);
  expect_recognised(kCentred + "%s = ReduceSum (%e, %last) %i = Reciprocal (%s) %y = Mul (%i, %e) output %y }", result);
  expect_recognised(
      "%m = ReduceMax (%x, %1) %c = Sub (%x, %m) %e = Exp (%c) %s = ReduceSum (%e, %1) %y = Div (%e, %s) output %y }",
      {"%y = Softmax (%x) {axis = 1}"});
}

TEST(RecogniseSoftmax, OfHalvesAndDoubles) {
  test::expect_rewritten(
      "graph { input %d : f64[2, 3] constant %last = i64[1] {-1} %e = Exp (%d) %s = ReduceSum (%e, %last) %q = Div "
      "(%e, %s) %y = Cast (%q) {to = 1} output %y }",
      "recognise_softmax", {"%q = Softmax (%d) {axis = -1}", "%y = Cast (%q) {to = 1}"}, 20);
  test::expect_rewritten("graph { input %x : f16[batch, 5] constant %last = i64[1] {-1} " + kCentred +
                             "%s = ReduceSum (%e, %last) %y = Div (%e, %s) %z = Cast (%y) {to = 1} output %z }",
                         "recognise_softmax", {"%y = Softmax (%x) {axis = -1}", "%z = Cast (%y) {to = 1}"}, 20 << 13);
}

TEST(RecogniseSoftmax, ReductionsThatLoseTheirDimension) {
  expect_recognised(
      "constant %0 = i64[1] {2} %m = ReduceMax (%x, %last) {keepdims = 0} %n = Max (%lowest, %m) %u = Unsqueeze (%n, "
      "%0) %c = Sub (%x, %u) %e = Exp (%c) "
      "%s = ReduceSum (%e, %last) {keepdims = 0} %t = Unsqueeze (%s, %0) %y = Div (%e, %t) output %y }",
      {"%y = Softmax (%x) {axis = -1}"});
}

// What is subtracted along another axis is part of the operand.
TEST(RecogniseSoftmax, MaximaOfSomethingElse) {
  expect_recognised(
      "%m = ReduceMax (%x, %1) %c = Sub (%x, %m) %e = Exp (%c) %s = ReduceSum (%e, %last) %y = Div (%e, %s) output %y "
      "}",
      {"%m = ReduceMax (%x, %1)", "%c = Sub (%x, %m)", "%y = Softmax (%c) {axis = -1}"});
}

TEST(RecogniseSoftmax, Logarithms) {
  const Lines result{"%y = LogSoftmax (%x) {axis = -1}"};
  expect_recognised("%s = Softmax (%x) %y = Log (%s) output %y }", result);
  expect_recognised("%s = ReduceLogSumExp (%x, %last) %y = Sub (%x, %s) output %y }", result);
  expect_recognised(kCentred + "%s = ReduceSum (%e, %last) %l = Log (%s) %y = Sub (%c, %l) output %y }", result);
  expect_recognised(kCentred + "%s = ReduceSum (%e, %last) %q = Div (%e, %s) %y = Log (%q) output %y }", result);
}

TEST(RecogniseSoftmax, LeavesOthers) {
  expect_unchanged("%e = Exp (%x) %s = ReduceSum (%e, %two) %y = Div (%e, %s) output %y }");
  expect_unchanged("%e = Exp (%x) %s = ReduceSum (%e, %last) %y = Div (%s, %e) output %y }");
  expect_unchanged("%e = Exp (%x) %s = ReduceMean (%e, %last) %y = Div (%e, %s) output %y }");
  expect_unchanged("%e = Exp (%x) %s = ReduceSum (%e, %last) %y = Div (%e, %s) output %y, %e }");
  expect_unchanged("%e = Exp (%x) %s = ReduceSum (%e, %last) %y = Div (%e, %s) %z = Neg (%s) output %y, %z }");
  // Sums of rows under columns.
  expect_unchanged(
      "input %q : f32[3, 3] %e = Exp (%q) %s = ReduceSum (%e, %last) {keepdims = 0} %y = Div (%e, %s) output %y }");
}

}  // namespace
}  // namespace tessera::passes::recognise_softmax_test
