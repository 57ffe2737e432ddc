// Small models that would be large once their constants are computed: loading takes neither the memory nor the time.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/core/infer.h"
#include "support/guarded.h"
#include "tessera/session.h"

namespace tessera::test::hostile_folding_test {
namespace {

Model model_of(const std::string& text) {
  ir::Graph graph = ir::parse(text);
  ops::infer_graph(graph);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

Session session_of(const std::string& text, SessionOptions options = {}) {
  options.threads = 1;
  options.memory_limit_bytes = std::int64_t{128} << 20;
  return Session(model_of(text), options);
}

// 200 constants of 50 MB, added to the input's element.
std::string ten_gigabytes() {
  std::string text = "graph { input %x : f32[] constant %k = i64[1] {12500000} ", sum = "%x";
  for (int i = 0; i < 200; ++i) {
    const std::string n = std::to_string(i);
    text += "%c" + n + " = ConstantOfShape (%k) {value = f32[1] {" + n + "}} %m" + n + " = ReduceMax (%c" + n +
            ") {keepdims = 0} %s" + n + " = Add (" + sum + ", %m" + n + ") ";
    sum = "%s" + n;
  }
  return text + "output " + sum + " }";
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HostileFolding, TenGigabytesOfConstantsAreNotMade) {
  const std::string text = ten_gigabytes();
  EXPECT_FALSE(
      expect_harmless("ten gigabytes in " + std::to_string(text.size()) + " bytes", [&] { session_of(text); }).kind);
  // The first ones fit; the others are computed in the run, one at a time.
  Session session = session_of(text);
  const std::string plan = session.describe_plan({{"x", Tensor::scalar(0.0f)}});
  EXPECT_GT(count_of(plan, "ConstantOfShape"), 150U) << plan;
  EXPECT_LT(count_of(plan, "ConstantOfShape"), 200U) << plan;
}

TEST(HostileFolding, TheBudgetIsTheCallers) {
  const std::string text =
      "graph { input %x : f32[] constant %k = i64[1] {100} %c = ConstantOfShape (%k) %y = Add (%x, %c) output %y }";
  const auto folds = [&](SessionOptions options) {
    return count_of(session_of(text, options).describe_plan({{"x", Tensor::scalar(0.0f)}}), "ConstantOfShape") == 0;
  };
  EXPECT_TRUE(folds({}));
  EXPECT_FALSE(folds({.max_folded_bytes = 100}));
  EXPECT_FALSE(folds({.max_folded_operations = 10}));
}

TEST(HostileFolding, LongWorkIsLeftToTheRun) {
  const std::string work[] = {
      "constant %k = i64[2] {2000, 2000} %a = ConstantOfShape (%k) %b = MatMul (%a, %a) %c = ReduceSum (%b) {keepdims "
      "= 0}",
      "constant %k = i64[2] {2000, 2000} %a = ConstantOfShape (%k) %c = Einsum (%a, %a, %a) {equation = "
      "\"ij,jk,kl->\"}",
      "constant %k = i64[3] {1, 100000, 1} %a = ConstantOfShape (%k) %b = DFT (%a) %c = ReduceSum (%b) {keepdims = 0}",
      "constant %k = i64[2] {2000, 2000} %a = ConstantOfShape (%k) %c = Det (%a)",
      "constant %k = i64[4] {1, 1, 1000, 1000} %a = ConstantOfShape (%k) %b = LpPool (%a) {kernel_shape = [500, 500]} "
      "%c = ReduceSum (%b) {keepdims = 0}",
      "constant %k = i64[3] {1, 5000, 4} %a = RandomUniform () {shape = [1, 5000, 4]} constant %l = i64[3] {1, 1, "
      "20000} constant %m = i64[3] {1, 20000, 4} %s = ConstantOfShape (%l) "
      "%boxes = ConstantOfShape (%m) constant %most = i64[1] {20000} constant %o = f32[1] {1} %n = NonMaxSuppression "
      "(%boxes, %s, %most, %o) %z = ReduceSum (%n) {keepdims = 0} "
      "%c = Cast (%z) {to = 1}",
  };
  for (const std::string& each : work) {
    const std::string text = "graph { input %x : f32[] " + each + " %y = Add (%x, %c) output %y }";
    EXPECT_FALSE(expect_harmless(each, [&] { session_of(text); }).kind) << each;
  }
}

TEST(HostileFolding, BranchesOfBranchesShareTheBudget) {
  // Every branch is known, and holds the next one and 60 MB.
  std::string nested =
      "graph { constant %k = i64[1] {15000000} %c = ConstantOfShape (%k) %m = ReduceMax (%c) {keepdims = 0} output %m "
      "}";
  for (int depth = 0; depth < 30; ++depth) {
    nested =
        "graph { constant %t = bool[] {true} constant %k = i64[1] {15000000} %c = ConstantOfShape (%k) {value = f32[1] "
        "{" +
        std::to_string(depth) + "}} %m = ReduceMax (%c) {keepdims = 0} %i = If (%t) {then_branch = " + nested +
        ", else_branch = graph { constant %z = f32[] {0} output %z }} %s = Add (%m, %i) output %s }";
  }
  const std::string text =
      "graph { input %x : f32[] constant %t = bool[] {true} %i = If (%t) {then_branch = " + nested +
      ", else_branch = graph { constant %z = f32[] {0} output %z }} %y = Add (%x, %i) output %y }";
  EXPECT_FALSE(expect_harmless("thirty branches in each other", [&] { session_of(text); }).kind);
}

}  // namespace
}  // namespace tessera::test::hostile_folding_test
