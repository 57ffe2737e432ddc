// Which updates may be written over their variables, and in which order the steps come then.
#include "plan/order_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cpu/cpu_device.h"
#include "runtime/memory/weight_store.h"
#include "support/pass_context.h"

namespace tessera::plan::order_updates_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::shared_ptr<const Plan> planned(const std::string& text) {
  runtime::PackAtOnce weights;
  return make_plan(test::parsed(text), backends::cpu_device(), weights);
}

// The names of the variables that are written over.
std::vector<std::string> written_over(const Plan& plan) {
  std::vector<std::string> names;
  for (const std::size_t variable : plan.written_over) names.push_back(plan.graph.variables()[variable].name);
  return names;
}

// The first outputs of the steps in order; "|" before the first one that writes over a variable.
std::vector<std::string> order(const Plan& plan) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (i == plan.first_writing_step) names.emplace_back("|");
    names.push_back(plan.graph.value(plan.slots[static_cast<std::size_t>(plan.steps[i].first_output)].value).name);
  }
  return names;
}

const std::string kState =
    "graph { input %g : f32[4] variable %w = f32[4] {1, 2, 3, 4} update %v variable %m = f32[4] {0, 0, 0, 0} update %n "
    "constant %a = f32[] {0.5} constant %r = f32[] {0.25} ";

TEST(OrderUpdates, WritesTheStateOfAnOptimiserOverAfterAllElse) {
  const auto plan = planned(
      kState + "%d = Mul (%m, %a) %n = Add (%d, %g) %s = Mul (%n, %r) %v = Sub (%w, %s) %y = Neg (%g) output %y }");
  EXPECT_THAT(written_over(*plan), ElementsAre("w", "m"));
  EXPECT_THAT(order(*plan), ElementsAre("d", "y", "|", "n", "s", "v"));
  EXPECT_THAT(print_plan(*plan, false), HasSubstr("over variable 'w'"));
}

TEST(OrderUpdates, ReadsThePresentValueBeforeItIsOverwritten) {
  const auto plan = planned(kState + "%v = Sub (%w, %g) %n = Add (%m, %w) %y = Exp (%w) output %y }");
  EXPECT_THAT(written_over(*plan), ElementsAre("w", "m"));
  EXPECT_THAT(order(*plan), ElementsAre("y", "|", "n", "v"));
  // A part of a view is read as well.
  const auto views = planned(kState +
                             "%v = Sub (%w, %g) %n = Add (%m, %g) %b, %c = Split (%w) {num_outputs = 2} %y = Exp (%c) "
                             "output %y }");
  EXPECT_THAT(order(*views), ElementsAre("b", "y", "|", "v", "n"));
}

TEST(OrderUpdates, OneOfTwoThatReadEachOtherIsKept) {
  const auto plan = planned(kState + "%v = Sub (%w, %m) %n = Add (%m, %w) %y = Exp (%g) output %y }");
  EXPECT_THAT(written_over(*plan), ElementsAre("w"));
  EXPECT_THAT(order(*plan), ElementsAre("n", "y", "|", "v"));
  EXPECT_THAT(print_plan(*plan, false), HasSubstr("update of variable 'm'"));
}

TEST(OrderUpdates, AVariableThatNobodyReadsGivesItsMemory) {
  const auto plan = planned(kState + "%v = Exp (%g) %n = Neg (%v) %y = Abs (%g) output %y }");
  EXPECT_THAT(written_over(*plan), ElementsAre("w", "m"));
  EXPECT_THAT(order(*plan), ElementsAre("y", "|", "v", "n"));
}

TEST(OrderUpdates, AViewOfTheWholeVariableMayBeWrittenOver) {
  const std::string shape = "constant %t = i64[2] {2, 2} constant %f = i64[1] {4} ";
  const auto plan = planned("graph { input %g : f32[2, 2] variable %w = f32[2, 2] {1, 2, 3, 4} update %v " + shape +
                            "%b = Reshape (%w, %f) %c = Reshape (%b, %t) %v = Sub (%c, %g) %y = Abs (%g) output %y }");
  EXPECT_THAT(written_over(*plan), ElementsAre("w"));
  EXPECT_THAT(order(*plan), ElementsAre("b", "c", "y", "|", "v"));
}

// What the second variable becomes is of no interest.
void expect_kept(const std::string& steps) {
  const auto plan = planned(kState + steps);
  EXPECT_THAT(written_over(*plan), IsEmpty()) << steps;
  EXPECT_EQ(plan->first_writing_step, SIZE_MAX);
}

TEST(OrderUpdates, KeepsWhatIsStillNeeded) {
  expect_kept("%v = Sub (%w, %g) %n = Add (%m, %g) output %w, %m }");  // the present values are outputs
  expect_kept("%v = Sub (%w, %g) %n = Add (%m, %g) output %v, %n }");  // so are the next ones
  expect_kept("%v = Identity (%m) %n = Identity (%w) %y = Abs (%g) output %y }");
  const std::string parts = "%b, %c = Split (%w) {num_outputs = 2} %d, %e = Split (%m) {num_outputs = 2} ";
  expect_kept(parts + "%v = Sub (%w, %g) %n = Add (%m, %g) output %c, %d }");
  expect_kept("%v = Sub (%w, %w) %n = Mul (%m, %m) output %g }");
}

TEST(OrderUpdates, KeepsWhatCannotComeLast) {
  const std::string weights = "constant %u = f32[4, 4] {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4} ";
  // Not known to be fast, or to succeed.
  expect_kept(weights + "%v = Sub (%w, %g) %n = Add (%v, %m) %y = MatMul (%n, %u) output %y }");
  expect_kept("%v = Sub (%w, %g) %n = Add (%v, %m) %y = NonZero (%n) output %y }");
  // A product writes over no operand.
  expect_kept(weights + "%v = MatMul (%w, %u) %n = MatMul (%m, %u) output %g }");
}

TEST(OrderUpdates, StepsOfAPlanWithoutUpdatesStayInOrder) {
  const auto plan = planned(
      "graph { input %g : f32[4] variable %w = f32[4] {1, 2, 3, 4} %a = Add (%g, %w) %y = Exp (%a) "
      "output %y }");
  EXPECT_THAT(order(*plan), ElementsAre("a", "y"));
  EXPECT_THAT(written_over(*plan), IsEmpty());
}

}  // namespace
}  // namespace tessera::plan::order_updates_test
