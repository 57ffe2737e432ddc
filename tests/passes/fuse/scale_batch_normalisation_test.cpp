// Normalisation by known statistics as a product and a sum.
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "support/pass_context.h"

namespace tessera::passes::scale_batch_normalisation_test {
namespace {

using Lines = std::vector<std::string>;

// A constant that repeats two numbers.
std::string constant(const std::string& name, const std::string& type, const std::string& shape, int count,
                     const std::string& a, const std::string& b) {
  std::string text = "constant %" + name + " = " + type + "[" + shape + "] {" + a;
  for (int i = 1; i < count; ++i) text += ", " + (i % 2 == 0 ? a : b);
  return text + "} ";
}
std::string statistics(int channels) {
  const std::string shape = std::to_string(channels);
  return "graph { " + constant("s", "f32", shape, channels, "1", "2") +
         constant("b", "f32", shape, channels, "-1", "0.5") + constant("m", "f32", shape, channels, "0", "3") +
         constant("v", "f32", shape, channels, "3", "0.25");
}

void expect_scaled(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(statistics(64) + text, "scale_batch_normalisation", nodes, 50);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(text, "scale_batch_normalisation");
}

TEST(ScaleBatchNormalisation, BecomesAProductAndASum) {
  const std::string text =
      "input %x : f32[batch, 64, 3, 4] %y = BatchNormalization (%x, %s, %b, %m, %v) {epsilon = 1.0} output %y }";
  expect_scaled(text, {"%? = Mul (%x, %?)", "%y = Add (%?, %?)"});
  const ir::Graph graph = scale_batch_normalisation(test::parsed(statistics(64) + text), test::cpu_pass_context());
  const Tensor& scale = *graph.constant(graph.node(graph.order()[0]).inputs[1]);
  EXPECT_EQ(scale.shape(), (Shape{64, 1, 1}));
  EXPECT_FLOAT_EQ(scale.data<float>()[0], 0.5f);  // 1 / sqrt(3 + 1)
  expect_scaled("input %x : f32[batch, 64] %y = BatchNormalization (%x, %s, %b, %m, %v) output %y }",
                {"%? = Mul (%x, %?)", "%y = Add (%?, %?)"});
}

// As in the evaluation of a net that is being trained.
TEST(ScaleBatchNormalisation, ComputesTheFactorsOfVariablesInTheRun) {
  expect_scaled(
      "input %x : f32[batch, 64, 3, 4] input %t : f32[64] input %r : f32[64] %y = BatchNormalization (%x, %t, "
      "%b, %r, %v) {epsilon = 1.0} output %y }",
      {"%? = Add (%v, %?)", "%? = Sqrt (%?)", "%? = Div (%t, %?)", "%? = Mul (%r, %?)", "%? = Sub (%b, %?)",
       "%? = Reshape (%?, %?)", "%? = Mul (%x, %?)", "%? = Reshape (%?, %?)", "%y = Add (%?, %?)"});
}

TEST(ScaleBatchNormalisation, LeavesOthers) {
  const std::string map = "input %x : f32[1, 64, 3, 4] ";
  expect_unchanged(statistics(64) +
                   "input %x : f32[1, 64] input %t : f32[64] %y = BatchNormalization (%x, %t, %b, %m, %v) output %y }");
  expect_unchanged(statistics(64) + map +
                   "%y, %n, %w = BatchNormalization (%x, %s, %b, %m, %v) {training_mode = 1} output %y, %n, %w }");
  expect_unchanged("graph { " + constant("d", "f64", "64", 64, "1", "2") +
                   "input %x : f64[1, 64, 3, 4] %y = BatchNormalization (%x, %d, %d, %d, %d) output %y }");
  expect_unchanged(
      statistics(32) +
      "input %x : f32[1, 32, 3, 4] %y = BatchNormalization (%x, %s, %b, %m, %v) output %y }");  // few channels
}

// As before the convolutions of DenseNet: no transposes, and one loop with the activation.
TEST(ScaleBatchNormalisation, StaysBetweenConvolutionsThatHaveTheChannelsLast) {
  const std::string text =
      statistics(64) + "input %x : f32[1, 3, 4, 4] " + constant("w", "f32", "64, 3, 1, 1", 192, "1", "-2") +
      constant("u", "f32", "1, 64, 1, 1", 64, "1", "2") +
      "%c = Conv (%x, %w) %p = MaxPool (%c) {kernel_shape = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1]} %n = "
      "BatchNormalization (%p, %s, %b, %m, %v) %r = Relu (%n) %y = Conv (%r, %u) output %y }";
  EXPECT_EQ(test::ops_of(run_pipeline(test::parsed(text), test::cpu_pass_context())),
            (Lines{"Transpose", "tessera::ChannelsLastConv", "tessera::ChannelsLastMaxPool", "tessera::ElementWise",
                   "tessera::ChannelsLastConv", "Reshape"}));
}

}  // namespace
}  // namespace tessera::passes::scale_batch_normalisation_test
