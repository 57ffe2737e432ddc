// What files get: the branches of If after the passes.
#include "passes/patterns/branches.h"

#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::branches_test {
namespace {

using test::nodes_of;
using test::parsed;
using Lines = std::vector<std::string>;

// Per branch: the same work twice, and a shape that is known outside.
const std::string kChoice =
    "graph { input %c : bool[] input %x : f32[2, 3] input %y : f32[n] constant %two = f32[] {2} %t = Tanh (%x) "
    "%o = If (%c) captures (%t, %y, %two) {"
    "else_branch = graph { input %t : f32[*] input %y : f32[*] input %f : f32[*] %s = Size (%t) %k = Cast (%s) {to = "
    "1} %m = Mul (%t, %k) %r = Identity (%m) output %r }, "
    "then_branch = graph { input %t : f32[*] input %y : f32[*] input %f : f32[*] %a = Add (%t, %f) %b = Add (%t, %f) "
    "%m = Mul (%a, %b) %r = Identity (%m) output %r }} "
    "output %o }";

ir::Graph optimised(const std::string& text) {
  return run_pipeline(parsed(text), test::cpu_pass_context(), {.without = {"fuse_element_wise"}, .branches = true});
}

const ir::Node& only_if(const ir::Graph& graph) {
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op == "If") return graph.node(id);
  }
  throw std::runtime_error("there is no If");
}

Lines branch_of(const ir::Graph& graph, const std::string& name) {
  return nodes_of(*std::get<ir::SubgraphPointer>(only_if(graph).attributes.at(name)));
}

TEST(Branches, GoThroughAllPassesWithTheTypesThatTheyCapture) {
  const ir::Graph graph = optimised(kChoice);
  EXPECT_EQ(branch_of(graph, "else_branch"), (Lines{"%r = Mul (%t, %k)"}));
  EXPECT_EQ(branch_of(graph, "then_branch"), (Lines{"%a = Add (%t, %f_0)", "%r = Mul (%a, %a)"}));
}

TEST(Branches, WhatNoBranchUsesIsNotCaptured) {
  const ir::Graph graph = optimised(kChoice);
  EXPECT_EQ(only_if(graph).captures, 1);
  for (const auto& [name, branch] : ir::subgraphs_of(only_if(graph))) EXPECT_EQ(branch->inputs().size(), 1u) << name;
}

TEST(Branches, ComputeWhatTheyDid) {
  const Model given(std::make_shared<const ir::Graph>(parsed(kChoice))),
      rewritten(std::make_shared<const ir::Graph>(optimised(kChoice)));
  NamedValues inputs = runtime::random_inputs(given.with_dims({{"n", 4}}), 1);
  for (const bool condition : {false, true}) {
    inputs.at("c") = Tensor::scalar(condition);
    const Tensor want = Session(given).run(inputs).at("o").tensor(),
                 have = Session(rewritten).run(inputs).at("o").tensor();
    EXPECT_TRUE(test::close_to(have, want, test::Tolerance::epsilons(DType::f32, 8)));
  }
}

TEST(Branches, AtAnyDepth) {
  const std::string inner =
      "graph { input %t : f32[*] %a = Neg (%t) %b = Neg (%t) %q = Mul (%a, %b) %r = Identity (%q) output %r }";
  const std::string text =
      "graph { input %c : bool[] input %d : bool[] input %x : f32[2] %o = If (%c) captures (%x, %d) {"
      "else_branch = graph { input %t : f32[*] input %d : bool[] output %t }, "
      "then_branch = graph { input %t : f32[*] input %d : bool[] %i = If (%d) captures (%t) {else_branch = " +
      inner + ", then_branch = " + inner + "} output %i }} output %o }";
  const ir::Graph graph = optimised(text),
                  &then = *std::get<ir::SubgraphPointer>(only_if(graph).attributes.at("then_branch"));
  EXPECT_EQ(branch_of(then, "else_branch"), (Lines{"%a = Neg (%t)", "%r = Mul (%a, %a)"}));
}

// Exporters write a branch for each case; one that does not fit is wrong only when it is taken.
TEST(Branches, OneThatDoesNotFitStaysAsItIs) {
  const std::string text =
      "graph { input %c : bool[] input %x : f32[2, 3] constant %w = f32[4, 1] {1, 2, 3, 4} %o = If (%c) captures (%x, "
      "%w) {"
      "else_branch = graph { input %x : f32[*] input %w : f32[*] %a = MatMul (%x, %w) %r = Identity (%a) output %r }, "
      "then_branch = graph { input %x : f32[*] input %w : f32[*] %a = Neg (%x) %r = Identity (%a) output %r }} output "
      "%o }";
  const ir::Graph graph = optimised(text);
  EXPECT_EQ(branch_of(graph, "else_branch"), (Lines{"%a = MatMul (%x, %w_0)", "%r = Identity (%a)"}));
  EXPECT_EQ(branch_of(graph, "then_branch"), (Lines{"%r = Neg (%x)"}));
}

// What all of them fold counts together.
TEST(Branches, FoldOnTheBudgetOfTheWhole) {
  std::string text = "graph { input %c : bool[] ";
  for (int i = 0; i < 4; ++i) {
    const std::string wide = "graph { constant %s = i64[1] {" + std::to_string(1000 + i) +
                             "} %w = ConstantOfShape (%s) %n = Size (%w) %e = Exp (%w) %r = ReduceSum (%e) output %r }";
    text += "%o" + std::to_string(i) + " = If (%c) {else_branch = " + wide + ", then_branch = " + wide + "} ";
  }
  text += "%s = Sum (%o0, %o1, %o2, %o3) output %s }";
  PassContext context = test::cpu_pass_context();
  context.folding = {.bytes = 20000, .operations = 1e8};  // each branch folds twice 4,000 bytes
  std::size_t folded = 0;
  const ir::Graph graph = run_pipeline(parsed(text), context, {.branches = true});
  for (const ir::NodeId id : graph.order()) {
    for (const auto& [name, branch] : ir::subgraphs_of(graph.node(id))) folded += branch->node_count() == 0 ? 1 : 0;
  }
  EXPECT_GT(folded, 0u);
  EXPECT_LT(folded, 4u);
}

}  // namespace
}  // namespace tessera::passes::branches_test
