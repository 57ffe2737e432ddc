#include "ops/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/op_table.h"
#include "support/gradient_cases.h"

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

TEST(Gradient, EveryOneIsChecked) {
  std::set<std::string_view> checked;
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
