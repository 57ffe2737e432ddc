// An If of a known condition becomes the branch that it takes.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::inline_constant_branches_test {
namespace {

using Ops = std::vector<std::string>;

const std::string kBranches =
    "captures (%x) {else_branch = graph { input %t : f32[*] %r = Neg (%t) output %r }, "
    "then_branch = graph { input %t : f32[*] %a = Abs (%t) %r = Sqrt (%a) output %r }} ";
const std::string kStart =
    "graph { input %x : f32[2] input %c : bool[] constant %yes = bool[] {true} "
    "constant %no = bool[] {false} ";

Ops inlined(const std::string& text) {
  const ir::Graph graph = test::parsed(kStart + text);
  test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(graph)), "inline_constant_branches", 0);
  return test::ops_of(inline_constant_branches(graph, test::cpu_pass_context()));
}

TEST(InlineConstantBranches, TakesTheBranchOfTheCondition) {
  EXPECT_EQ(inlined("%i = If (%yes) " + kBranches + "%y = Relu (%i) output %y }"), (Ops{"Abs", "Sqrt", "Relu"}));
  EXPECT_EQ(inlined("%i = If (%no) " + kBranches + "%y = Relu (%i) output %y }"), (Ops{"Neg", "Relu"}));
}

TEST(InlineConstantBranches, AnOutputKeepsItsName) {
  const ir::Graph graph = inline_constant_branches(test::parsed(kStart + "%y = If (%no) " + kBranches + "output %y }"),
                                                   test::cpu_pass_context());
  EXPECT_EQ(test::ops_of(graph), (Ops{"Neg", "Identity"}));
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "y");
}

TEST(InlineConstantBranches, InBranchesThatWereTaken) {
  EXPECT_EQ(inlined("%y = If (%yes) captures (%x, %no) {"
                    "else_branch = graph { input %t : f32[*] input %d : bool[] %r = Neg (%t) output %r }, "
                    "then_branch = graph { input %t : f32[*] input %d : bool[] %i = If (%d) captures (%t) {"
                    "else_branch = graph { input %u : f32[*] %r = Exp (%u) output %r }, "
                    "then_branch = graph { input %u : f32[*] %r = Log (%u) output %r }} output %i }} "
                    "%z = Relu (%y) output %z }"),
            (Ops{"Exp", "Relu"}));
}

TEST(InlineConstantBranches, AConditionThatFoldsAfterwardsIsTakenToo) {
  // Whether the branch's result has two elements is known once the branch stands in the graph.
  EXPECT_EQ(inlined("%i = If (%yes) " + kBranches +
                    "constant %two = i64[] {2} %n = Size (%i) %d = Equal (%n, %two) %z = If (%d) captures (%i) {"
                    "else_branch = graph { input %u : f32[*] %r = Exp (%u) output %r }, "
                    "then_branch = graph { input %u : f32[*] %r = Log (%u) output %r }} "
                    "%y = Relu (%z) output %y }"),
            (Ops{"Abs", "Sqrt", "Log", "Relu"}));
}

TEST(InlineConstantBranches, LeavesConditionsThatRunsDecide) {
  test::expect_left_alone(kStart + "%y = If (%c) " + kBranches + "output %y }", "inline_constant_branches");
}

}  // namespace
}  // namespace tessera::passes::inline_constant_branches_test
