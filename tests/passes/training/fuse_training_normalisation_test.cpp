// Normalisation by the statistics of the batch as one operator with what follows it.
#include <gtest/gtest.h>

#include "passes/training/differentiate.h"
#include "support/evaluate_graph.h"
#include "support/pass_context.h"

namespace tessera::passes::fuse_training_normalisation_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kHead =
    "graph { input %x : f32[4, 3, 2] input %z : f32[4, 3, 2] constant %s = f32[3] {1, 2, -1} constant %b = f32[3] "
    "{0.5, 0, 1} constant %m = f32[3] {0, 1, 2} constant %v = f32[3] {1, 2, 3} ";
const std::string kTraining = " = BatchNormalization (%x, %s, %b, %m, %v) {training_mode = 1, epsilon = 0.25} ";

void expect_fused(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kHead + text, "fuse_training_normalisation", nodes, 64);
}

TEST(FuseTrainingNormalisation, TakesASumAndAReluIn) {
  expect_fused("%y" + kTraining + "output %y }",
               {"%y, %?, %? = tessera::BatchNormTraining (%x, %s, %b) {epsilon = 0.25}"});
  expect_fused("%n" + kTraining + "%y = Relu (%n) output %y }",
               {"%y, %?, %? = tessera::BatchNormTraining (%x, %s, %b) {epsilon = 0.25, relu = 1}"});
  expect_fused("%n" + kTraining + "%a = Add (%z, %n) %y = Relu (%a) output %y }",
               {"%y, %?, %? = tessera::BatchNormTraining (%x, %s, %b, %z) {epsilon = 0.25, relu = 1}"});
  expect_fused("%n" + kTraining + "%y = Add (%n, %z) output %y }",
               {"%y, %?, %? = tessera::BatchNormTraining (%x, %s, %b, %z) {epsilon = 0.25}"});
}

// As where a residual block changes the number of channels: the sum becomes part of one of its operands.
TEST(FuseTrainingNormalisation, AddsTwoNormalisations) {
  expect_fused("%n" + kTraining +
                   "%k = BatchNormalization (%z, %s, %b, %m, %v) {training_mode = 1} %a = Add (%n, %k) "
                   "%y = Relu (%a) output %y }",
               {"%k, %?, %? = tessera::BatchNormTraining (%z, %s, %b) {epsilon = 1e-05}",
                "%y, %?, %? = tessera::BatchNormTraining (%x, %s, %b, %k) {epsilon = 0.25, relu = 1}"});
}

TEST(FuseTrainingNormalisation, KeepsWhatIsUsedOtherwise) {
  const std::string alone = "tessera::BatchNormTraining (%x, %s, %b) {epsilon = 0.25}";
  expect_fused("%n" + kTraining + "%y = Relu (%n) output %y, %n }", {"%n, %?, %? = " + alone, "%y = Relu (%n)"});
  expect_fused("input %one : f32[3, 1] %n" + kTraining + "%y = Add (%n, %one) output %y }",
               {"%n, %?, %? = " + alone, "%y = Add (%n, %one)"});
  test::expect_left_alone(kHead + "%n = BatchNormalization (%x, %s, %b, %m, %v) %y = Relu (%n) output %y }",
                          "fuse_training_normalisation");
}

TEST(FuseTrainingNormalisation, MovesTheRunningStatistics) {
  const std::string text = kHead +
                           "%n, %r, %w = BatchNormalization (%x, %s, %b, %m, %v) {training_mode = 1, momentum "
                           "= 0.75} %y = Relu (%n) output %y, %r, %w }";
  const Lines ops = test::ops_of(fuse_training_normalisation(test::parsed(text), test::cpu_pass_context()));
  EXPECT_EQ(std::ranges::count(ops, "tessera::BatchNormTraining"), 1);
  EXPECT_EQ(std::ranges::count(ops, "BatchNormalization"), 0);
  test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(test::parsed(text))), "fuse_training_normalisation",
                            64);
}

// A gradient brings a node for the statistics, which becomes one with that of the way there.
TEST(FuseTrainingNormalisation, GivesTheGradientItsStatistics) {
  ir::Graph graph = test::parsed(kHead + "%n" + kTraining + "%y = Relu (%n) output %y }");
  const ir::ValueId x = graph.find_value("x"), y = graph.find_value("y");
  for (const ir::ValueId gradient : build_gradients(graph, y, std::span(&x, 1))) graph.add_output(gradient);
  const auto count = [](const Lines& ops, std::string_view op) { return std::ranges::count(ops, op); };
  const ir::Graph made = run_pipeline(graph, test::cpu_pass_context());
  const Lines ops = test::ops_of(made);
  EXPECT_EQ(count(ops, "tessera::BatchNormTraining"), 1) << testing::PrintToString(test::nodes_of(made));
  EXPECT_EQ(count(ops, "tessera::BatchNormTrainingGradient"), 1);
  test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(graph)), "fuse_training_normalisation", 256);
}

}  // namespace
}  // namespace tessera::passes::fuse_training_normalisation_test
