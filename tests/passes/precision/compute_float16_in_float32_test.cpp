// Arithmetic of halves in f32.
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "support/pass_context.h"

namespace tessera::passes::compute_float16_in_float32_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart = "graph { input %x : f16[batch, 4] constant %w = f16[4] {1, 2, 3, 4} ";

// Results are f32: halves that were rounded less differ by their epsilons.
void expect_widened(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "compute_float16_in_float32", nodes, 4 << 13);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "compute_float16_in_float32");
}

TEST(WidenHalves, ResultsStayWideFromNodeToNode) {
  expect_widened("%a = Mul (%x, %w) %b = Tanh (%a) %y = Cast (%b) {to = 1} output %y }",
                 {"%? = Cast (%x) {to = 1}", "%? = Mul (%?, %?)", "%y = Tanh (%?)"});
  // What leaves is a half again, and so is what others take.
  EXPECT_EQ(test::nodes_of(compute_float16_in_float32(
                test::parsed(kStart + "%a = Mul (%x, %w) %b = Tanh (%a) %i = Cast (%a) {to = 7} output %b, %i }"),
                test::cpu_pass_context())),
            (Lines{"%? = Cast (%x) {to = 1}", "%? = Mul (%?, %?)", "%? = Tanh (%?)", "%a = Cast (%?) {to = 10}",
                   "%i = Cast (%a) {to = 7}", "%b = Cast (%?) {to = 10}"}));
}

TEST(WidenHalves, CastsOfMixedPrecisionGo) {
  expect_widened(
      "%a = Mul (%x, %w) %b = Cast (%a) {to = 1} %c = Softmax (%b) %d = Cast (%c) {to = 10} %e = Add (%d, %w) %y = "
      "Cast (%e) {to = 1} output %y }",
      {"%? = Cast (%x) {to = 1}", "%? = Mul (%?, %?)", "%c = Softmax (%?)", "%y = Add (%c, %?)"});
}

TEST(WidenHalves, WhatOnlyMovesStaysAHalf) {
  expect_unchanged("%y = Transpose (%x) output %y }");
  expect_widened("%t = Transpose (%x) %a = Neg (%t) %b = Transpose (%a) %y = Cast (%b) {to = 1} output %y }",
                 {"%t = Transpose (%x)", "%? = Cast (%t) {to = 1}", "%? = Neg (%?)", "%y = Transpose (%?)"});
}

TEST(WidenHalves, LeavesOthers) {
  expect_unchanged(
      "input %z : f32[4] %a = Cast (%z) {to = 10} %y = Cast (%a) {to = 1} output %y }");  // rounded on purpose
  expect_unchanged("input %z : f64[4] %y = Neg (%z) output %y }");
  expect_unchanged("%y = Cast (%x) {to = 7} output %y }");
  expect_unchanged("%y, %m = LayerNormalization (%x, %w) {stash_type = 10} output %y, %m }");
  EXPECT_EQ(test::nodes_of(compute_float16_in_float32(test::parsed(kStart + "%y = Neg (%x) output %y }"), {})),
            (Lines{"%y = Neg (%x)"}));  // a device that computes with halves
}

// A cache stays as it is stored: it is large, and what reads it counts on its roundings.
TEST(WidenHalves, LeavesStoredState) {
  const std::string operands =
      "input %c : f16[2, 1, 32, 4] input %r : f32[1, 4] input %p : i64[1, 2] input %i : i64[1] ";
  expect_unchanged(operands + "%y = tessera::AppendRows (%c, %r, %p, %i, %i) output %y }");
  expect_unchanged(operands +
                   "%y = tessera::CacheAttention (%r, %r, %r, %c, %c, %p, %i, %i) {heads = 1, kv_heads = 1, scale = "
                   "1.0, softcap = 0.0, window = 0} output %y }");
}

// Where a rounding decides, it happens.
TEST(WidenHalves, WhatJumpsReadsWhatTheModelRounds) {
  const std::string cast =
      "graph { input %z : f32[64] constant %near = f32[] {0.9999} constant %h = f16[] {1} %s = Add (%z, %near) %d = "
      "Sub (%s, %z) %a = Cast (%d) {to = 10} ";
  for (const char* jump : {"%e = Equal (%a, %h) %y = Cast (%e) {to = 1} ", "%e = Floor (%a) %y = Cast (%e) {to = 1} ",
                           "%m = Mul (%a, %h) %e = Less (%m, %h) %y = Cast (%e) {to = 1} "}) {
    test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(test::parsed(cast + jump + "output %y }"))),
                              "compute_float16_in_float32", 0);
  }
  test::expect_left_alone(
      "graph { input %z : f32[3] constant %0 = f16[] {0} constant %1 = f16[] {1} constant %last = i64[] {2} %c = "
      "Gather (%z, %last) %n = Cast (%c) {to = 10} %y = Range (%0, %n, %1) output %y }",
      "compute_float16_in_float32");
}

// A normalisation and a product of halves run where the f32 ones do.
TEST(WidenHalves, LetsOtherPassesRecogniseMixedPrecision) {
  const std::string text = kStart +
                           "constant %two = f32[] {2} constant %eps = f32[] {0.001} constant %last = i64[1] {-1} %c = "
                           "Cast (%x) {to = 1} %s = Pow (%c, %two) %m = ReduceMean (%s, %last) "
                           "%e = Add (%m, %eps) %r = Sqrt (%e) %q = Div (%c, %r) %h = Cast (%q) {to = 10} %g = Mul "
                           "(%h, %w) %o = Mul (%g, %w) %y = Cast (%o) {to = 1} output %y }";
  const ir::Graph graph = run_pipeline(test::parsed(text), test::cpu_pass_context());
  EXPECT_EQ(test::ops_of(graph), (Lines{"Cast", "RMSNormalization", "Mul"}));
}

}  // namespace
}  // namespace tessera::passes::compute_float16_in_float32_test
