#include "ops/core/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "passes/training/differentiate.h"
#include "support/gradient_cases.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::test::gradient_test {
namespace {

using namespace gradient_cases;

void expect_gradients(const std::vector<GradientCase>& cases) {
  for (const GradientCase& each : cases) expect_gradient(each.call, each.check);
}

TEST(Gradient, OfFunctions) {
  expect_gradients(unary_gradient_cases());
}
TEST(Gradient, OfBroadcastArithmetic) {
  expect_gradients(binary_gradient_cases());
}
TEST(Gradient, OfMatrixProducts) {
  expect_gradients(product_gradient_cases());
}
TEST(Gradient, OfMovement) {
  expect_gradients(movement_gradient_cases());
}
TEST(Gradient, OfReductions) {
  expect_gradients(reduction_gradient_cases());
}
TEST(Gradient, OfLayers) {
  expect_gradients(layer_gradient_cases());
}
TEST(Gradient, OfEinsum) {
  expect_gradients(einsum_gradient_cases());
}
TEST(Gradient, OfResize) {
  expect_gradients(resize_gradient_cases());
}
TEST(Gradient, OfRecurrentLayers) {
  expect_gradients(recurrent_gradient_cases());
}
TEST(Gradient, OfAttention) {
  expect_gradients(attention_gradient_cases());
}

TEST(Gradient, OfDeformedWindows) {
  expect_gradients(deformed_gradient_cases());
}
TEST(Gradient, OfTransforms) {
  expect_gradients(transform_gradient_cases());
}
TEST(Gradient, OfLayersWithState) {
  expect_gradients(stateful_gradient_cases());
}

TEST(Gradient, EveryOneIsChecked) {
  std::set<std::string_view> checked{"QuantizeLinear"};  // by a test of its own: differences see its steps
  const std::vector<GradientCase> cases = all_gradient_cases();
  for (const GradientCase& each : cases) checked.insert(each.call.op);
  for (const ops::OpDef* op : ops::all_ops()) {
    EXPECT_TRUE(op->gradient == nullptr || checked.contains(op->name)) << op->name;
    EXPECT_TRUE(op->gradient == nullptr || op->decompose == nullptr)
        << op->name << " is a composite with a gradient of its own";
  }
}

// In training mode the statistics are those of the batch, and Dropout draws a mask: both are checked where the run is
// repeatable.
TEST(Gradient, OfBatchNormalizationInTraining) {
  const Tensor x = reals({3, 2, 4}), scale = reals({2}, 2), bias = reals({2}, 3);
  const Tensor mean = Tensor::from<float>({2}, {0, 0}), variance = Tensor::from<float>({2}, {1, 1});
  expect_gradient({"BatchNormalization", {x, scale, bias, mean, variance}, {{"training_mode", std::int64_t{1}}}},
                  {.tolerance = 1e-6});
}

// Between QuantizeLinear and DequantizeLinear gradients flow through the integers and what moves them.
TEST(Gradient, PassesStraightThroughQuantisation) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const auto input = [&](const char* name, const Shape& shape) {
    return graph->add_input(name, ir::ValueType::tensor(DType::f32, ir::to_dims(shape)));
  };
  const ir::ValueId x = input("x", {2, 3}), scale = input("scale", {2}), weights = input("weights", {3, 2});
  const ir::ValueId zero = graph->add_constant(Tensor::from<std::int8_t>({2}, {0, 100}));
  const ir::ValueId code =
      builder.add("Transpose", {builder.add("QuantizeLinear", {x, scale, zero}, {{"axis", std::int64_t{0}}})});
  const ir::ValueId back = builder.add("DequantizeLinear", {code, scale, zero}, {{"axis", std::int64_t{1}}});
  const ir::ValueId sum =
      builder.add("ReduceSum", {builder.add("Mul", {back, weights})}, {{"keepdims", std::int64_t{0}}});
  const ir::ValueId xs[] = {x, scale};
  for (const ir::ValueId gradient : passes::build_gradients(*graph, sum, xs)) graph->add_output(gradient);
  // Codes 2, -128 and 127 (both saturate); 101, 127 (saturates), 98.
  const std::vector<float> values{1.1f, -99, 80, 0.2f, 20, -0.45f};
  const std::vector<float> scales{0.5f, 0.25f}, factors{1, 2, 3, 4, 5, 6};  // weights are transposed
  Session session(Model(graph), {.device = "reference"});
  const NamedValues results = session.run({{"x", Tensor::from<float>({2, 3}, std::span<const float>(values))},
                                           {"scale", Tensor::from<float>({2}, std::span<const float>(scales))},
                                           {"weights", Tensor::from<float>({3, 2}, std::span<const float>(factors))}});
  const auto named = [&](std::size_t i) { return results.at(graph->value(graph->outputs()[i]).name).tensor(); };
  EXPECT_TRUE(close_to(named(0), Tensor::from<float>({2, 3}, {1, 0, 0, 2, 0, 6})));
  // Σ weight · (code − zero point − x / scale), the last of those that do not saturate.
  const float first = 1 * (2 - 2.2f) + 3 * -128 + 5 * 127, second = 2 * (1 - 0.8f) + 4 * 27 + 6 * (-2 + 1.8f);
  EXPECT_TRUE(close_to(named(1), Tensor::from<float>({2}, {first, second}), Tolerance::epsilons(DType::f32, 16)));
}

TEST(Gradient, OperandsThatAreEquallyLargeShareIt) {
  const Tensor same = Tensor::from<double>({2}, {1, 2});
  // Central differences see half of the slope on either side.
  expect_gradient({"Max", {same, same}});
  expect_gradient({"ReduceMax", {Tensor::from<double>({1, 2}, {3, 3}), integers({1})}});
}

TEST(Gradient, OfPowersIsFiniteAtZero) {
  expect_gradient({"Pow", {Tensor::from<double>({3}, {0, 0, 0}), integers({0, 1, 2})}});
}

}  // namespace
}  // namespace tessera::test::gradient_test
