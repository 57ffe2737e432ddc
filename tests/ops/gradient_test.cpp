#include "ops/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/op_table.h"
#include "support/gradient_check.h"
#include "support/random_tensor.h"

namespace tessera::test::gradient_test {
namespace {

using Integers = std::vector<std::int64_t>;

Tensor reals(const Shape& shape, std::uint64_t seed = 1, double low = -2, double high = 2) {
  return random_tensor(DType::f64, shape, seed, low, high);
}
Tensor integers(const Integers& values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, std::span<const std::int64_t>(values));
}
Tensor indices(const Shape& shape, const Integers& values) {
  return Tensor::from<std::int64_t>(shape, std::span<const std::int64_t>(values));
}

struct Case {
  OpCall call;
  GradientCheck check = {};
};

// One element-wise function of x in (low, high).
Case unary(const std::string& op, double low = -2, double high = 2, ir::Attributes attributes = {}) {
  return {{op, {reals({3, 4}, 1, low, high)}, std::move(attributes)}};
}

constexpr GradientCheck kKnown{.symbolic = false};                 // needs sizes that are known
constexpr GradientCheck kSingle{.step = 1e-2, .tolerance = 2e-3};  // f32
constexpr GradientCheck kStash{.step = 1e-3, .tolerance = 1e-4};   // rounds to f32 inside

std::vector<Case> unary_cases() {
  return {
      unary("Abs"),
      unary("Acos", -0.9, 0.9),
      unary("Acosh", 1.2, 3),
      unary("Asin", -0.9, 0.9),
      unary("Asinh"),
      unary("Atan"),
      unary("Atanh", -0.9, 0.9),
      unary("Ceil"),
      unary("Cos"),
      unary("Cosh"),
      unary("Erf"),
      unary("Exp"),
      unary("Floor"),
      unary("Log", 0.5, 3),
      unary("Neg"),
      unary("Reciprocal", 0.5, 3),
      unary("Round"),
      unary("Sign"),
      unary("Sin"),
      unary("Sinh"),
      unary("Sqrt", 0.5, 3),
      unary("Tan", -1, 1),
      unary("Relu"),
      unary("Sigmoid"),
      unary("Tanh"),
      unary("Elu", -2, 2, {{"alpha", 0.7f}}),
      unary("HardSigmoid", -4, 4),
      unary("HardSwish", -5, 5),
      unary("LeakyRelu", -2, 2, {{"alpha", 0.3f}}),
      unary("Mish"),
      unary("Selu"),
      unary("Shrink", -2, 2, {{"bias", 0.2f}, {"lambd", 0.8f}}),
      unary("Softplus"),
      unary("Softsign"),
      unary("Swish", -2, 2, {{"alpha", 1.5f}}),
      unary("ThresholdedRelu", -2, 2, {{"alpha", 0.5f}}),
      unary("Gelu"),
      unary("Gelu", -2, 2, {{"approximate", std::string("tanh")}}),
      {{"Celu", {random_tensor(DType::f32, {3, 4}, 1, -2, 2)}, {{"alpha", 0.7f}}}, kSingle},
      {{"Clip", {reals({3, 4}), Tensor::scalar(-1.0), Tensor::scalar(0.5)}}},
      {{"Clip", {reals({3, 4}), Value(), Tensor::scalar(0.5)}}},
      {{"Clip", {reals({3, 4}), Tensor::from<double>({1}, {-0.5})}}},
      {{"Clip", {reals({3, 4}), Tensor::scalar(0.6), Tensor::scalar(-0.2)}}},
  };
}

std::vector<Case> binary_cases() {
  std::vector<Case> cases;
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum"}) {
    cases.push_back({{op, {reals({2, 3, 4}, 1, 0.5, 2), reals({3, 1}, 2, 0.5, 2)}}});
    cases.push_back({{op, {reals({4}, 1, 0.5, 2), reals({2, 1, 1}, 2, 0.5, 2)}}});
  }
  for (const std::string op : {"Max", "Min", "Mean", "Sum"})
    cases.push_back({{op, {reals({2, 3}, 1), reals({3}, 2), reals({2, 1}, 3)}}});
  cases.insert(cases.end(),
               {
                   {{"Pow", {reals({2, 3}, 1, 0.5, 2), reals({3}, 2, -2, 3)}}},
                   {{"Pow", {reals({2, 3}, 1, -2, 2), integers({2, 0, 3})}}},
                   {{"Pow", {reals({2}, 1, 0.5, 2), random_tensor(DType::f32, {2}, 3, 0.5, 2)}}, kStash},
                   {{"Mod", {reals({4, 3}, 1, -9, 9), reals({3}, 2, 1, 2)}, {{"fmod", std::int64_t{1}}}}},
                   {{"PRelu", {reals({2, 3, 2}), reals({3, 1}, 2)}}},
                   {{"Where", {Tensor::from<bool>({2, 1}, {true, false}), reals({3}, 1), reals({2, 3}, 2)}}},
               });
  return cases;
}

std::vector<Case> product_cases() {
  std::vector<Case> cases;
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {3, 4}}, {{3}, {3, 2}},       {{2, 3}, {3}},
                                            {{3}, {3}},       {{2, 2, 3}, {3, 2}}, {{2, 1, 2, 3}, {4, 3, 2}},
                                            {{2, 3, 4}, {4}}, {{4}, {2, 4, 3}}};
  for (const auto& [a, b] : shapes) cases.push_back({{"MatMul", {reals(a, 1), reals(b, 2)}}});
  for (const std::int64_t a : {0, 1}) {
    for (const std::int64_t b : {0, 1}) {
      const ir::Attributes attributes{{"alpha", 0.5f}, {"beta", 2.0f}, {"transA", a}, {"transB", b}};
      cases.push_back(
          {{"Gemm",
            {reals(a ? Shape{3, 2} : Shape{2, 3}, 1), reals(b ? Shape{4, 3} : Shape{3, 4}, 2), reals({4}, 3)},
            attributes}});
    }
  }
  cases.push_back({{"Gemm", {reals({2, 3}, 1), reals({3, 4}, 2)}}});
  return cases;
}

std::vector<Case> movement_cases() {
  const Tensor x = reals({2, 3, 4});
  return {
      {{"Reshape", {x, integers({4, -1})}}},
      {{"Flatten", {x}, {{"axis", std::int64_t{2}}}}},
      {{"Squeeze", {reals({2, 1, 3, 1}), integers({1})}}},
      {{"Unsqueeze", {x, integers({0, -1})}}},
      {{"Transpose", {x}, {{"perm", Integers{2, 0, 1}}}}},
      {{"Transpose", {x}}},
      {{"Expand", {reals({3, 1}), integers({2, 1, 4})}}},
      {{"Tile", {reals({2, 3}), integers({3, 2})}}},
      {{"Identity", {x}}},
      {{"Dropout", {x, Tensor::scalar(0.5)}}},
      {{"Cast", {x}, {{"to", static_cast<std::int64_t>(DType::f32)}}}, kStash},
      {{"CastLike", {x, Tensor::scalar(1.0f)}}, kStash},
      {{"Concat", {reals({2, 1, 3}, 1), reals({2, 2, 3}, 2), reals({2, 0, 3}, 3)}, {{"axis", std::int64_t{-2}}}}},
      {{"Concat", {x}, {{"axis", std::int64_t{0}}}}},
      {{"Split", {x}, {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{3}}}, 3}},
      {{"Split", {x, integers({1, 2})}, {{"axis", std::int64_t{1}}}, 2}},
      {{"Slice", {reals({6, 5}), integers({1, -1}), integers({5, -5}), integers({0, 1}), integers({2, -2})}}},
      {{"Slice", {x, integers({1, 1}), integers({2, 100})}}},
      {{"Gather", {x, integers({2, 0, 2})}, {{"axis", std::int64_t{1}}}}},
      {{"Gather", {x, indices({2, 2}, {1, -1, 0, 1})}, {{"axis", std::int64_t{0}}}}},
      {{"Gather", {x, Tensor::scalar(std::int32_t{-2})}, {{"axis", std::int64_t{-1}}}}},
      {{"GatherElements", {reals({3, 3}), indices({2, 3}, {0, 1, 2, 0, -1, 0})}, {{"axis", std::int64_t{0}}}}},
      {{"GatherND", {x, indices({3, 2}, {0, 1, 1, 2, 0, 1})}}},
      {{"ScatterElements",
        {reals({3, 3}), indices({2, 2}, {0, 2, -1, 0}), reals({2, 2}, 2)},
        {{"axis", std::int64_t{1}}}}},
      {{"ScatterElements",
        {reals({3, 3}), indices({2, 1}, {0, 0}), reals({2, 1}, 2)},
        {{"reduction", std::string("add")}}}},
      {{"ScatterND", {x, indices({2, 2}, {0, 1, 1, 2}), reals({2, 4}, 2)}}},
      {{"ScatterND", {x, indices({2, 1}, {1, 1}), reals({2, 3, 4}, 2)}, {{"reduction", std::string("add")}}}},
      {{"Pad", {reals({2, 3}), integers({1, 0, 0, 2}), Tensor::scalar(0.5)}}},
      {{"Pad", {reals({4, 3}), integers({-1, 2}), Tensor::scalar(0.5), integers({0})}}},
      {{"Trilu", {reals({2, 3, 4}), Tensor::scalar(std::int64_t{1})}, {{"upper", std::int64_t{0}}}}},
      {{"CumSum", {x, Tensor::scalar(std::int64_t{1})}, {{"exclusive", std::int64_t{1}}}}},
      {{"CumSum", {x, Tensor::scalar(std::int64_t{-1})}, {{"reverse", std::int64_t{1}}}}},
  };
}

std::vector<Case> reduction_cases() {
  std::vector<Case> cases;
  for (const std::string op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                               "ReduceMin", "ReduceSum", "ReduceSumSquare"}) {
    const Tensor x = reals({2, 3, 4}, 5, 0.5, 2);
    cases.push_back({{op, {x, integers({0, -1})}, {{"keepdims", std::int64_t{0}}}}});
    cases.push_back({{op, {x, integers({1})}}});
    cases.push_back({{op, {x}, {{"keepdims", std::int64_t{0}}}}});
    cases.push_back({{op, {x, integers({})}, {{"noop_with_empty_axes", std::int64_t{1}}}}});
  }
  return cases;
}

std::vector<Case> layer_cases() {
  const Tensor x = reals({2, 4, 3}), channels = reals({4}, 2), other = reals({4}, 3), positive = reals({4}, 4, 0.5, 2);
  const ir::Attributes ignoring{{"ignore_index", std::int64_t{2}}};
  const auto reduced = [](const std::string& how) { return ir::Attributes{{"reduction", how}}; };
  const Tensor labels = indices({2, 3}, {0, 3, 2, 1, 1, 2});
  return {
      {{"Softmax", {x}, {{"axis", std::int64_t{1}}}}},
      {{"LogSoftmax", {x}}},
      {{"Hardmax", {x}}},
      {{"LayerNormalization", {x, reals({3}, 2), reals({3}, 3)}, {{"epsilon", 0.1f}}}, kStash},
      {{"LayerNormalization", {x, reals({4, 3}, 2)}, {{"axis", std::int64_t{1}}}}, kStash},
      {{"RMSNormalization", {x, reals({4, 3}, 2)}, {{"axis", std::int64_t{-2}}}}, kStash},
      {{"GroupNormalization", {x, channels, other}, {{"num_groups", std::int64_t{2}}}}, kStash},
      {{"InstanceNormalization", {x, channels, other}}},
      {{"BatchNormalization", {x, channels, other, reals({4}, 6), positive}}},
      {{"tessera::BatchNormTraining", {reals({3, 4, 2}), channels, other}}, kStash},
      {{"tessera::BatchNormTraining",
        {reals({5, 4}), channels, other, reals({5, 4}, 7)},
        {{"relu", std::int64_t{1}}, {"epsilon", 0.1f}}},
       kStash},
      {{"tessera::BatchNormTraining",
        {reals({3, 2, 4}), channels, other, reals({3, 2, 4}, 7)},
        {{"axis", std::int64_t{-1}}}},
       kStash},
      {{"NegativeLogLikelihoodLoss", {x, labels}}},
      {{"NegativeLogLikelihoodLoss", {x, labels}, reduced("none")}},
      {{"NegativeLogLikelihoodLoss", {x, labels}, ignoring}},
      {{"SoftmaxCrossEntropyLoss", {x, labels}, reduced("sum"), 2}},
      {{"SoftmaxCrossEntropyLoss", {reals({2, 4}), integers({3, 0})}}},
      {{"SoftmaxCrossEntropyLoss", {x, labels}, ignoring}},
      {{"GlobalAveragePool", {x}}},
      {{"GlobalMaxPool", {x}}},
      {{"MaxPool",
        {reals({1, 2, 5, 4})},
        {{"kernel_shape", Integers{3, 2}}, {"strides", Integers{2, 1}}, {"pads", Integers{1, 0, 1, 1}}}}},
      {{"Conv",
        {reals({2, 2, 7}, 1), reals({3, 2, 3}, 2), reals({3}, 3)},
        {{"strides", Integers{2}}, {"pads", Integers{1, 0}}}},
       kKnown},
      {{"Conv",
        {reals({2, 4, 5, 6}, 1), reals({2, 2, 2, 3}, 2)},
        {{"group", std::int64_t{2}}, {"strides", Integers{1, 3}}, {"dilations", Integers{2, 1}}}},
       kKnown},
      {{"ConvTranspose",
        {reals({2, 2, 3}, 1), reals({2, 3, 3}, 2), reals({3}, 3)},
        {{"strides", Integers{2}}, {"pads", Integers{1, 0}}, {"output_padding", Integers{1}}}},
       kKnown},
      {{"ConvTranspose",
        {reals({1, 4, 2, 3}, 1), reals({4, 1, 2, 2}, 2)},
        {{"group", std::int64_t{2}},
         {"strides", Integers{1, 2}},
         {"dilations", Integers{3, 1}},
         {"output_padding", Integers{2, 0}}}},
       kKnown},
      {{"Conv",
        {reals({1, 1, 6, 5}, 1), reals({1, 1, 3, 2}, 2)},
        {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Integers{2, 2}}}},
       kKnown},
  };
}

std::vector<Case> attention_cases() {
  const Tensor q = reals({1, 4, 3, 2}, 1), k = reals({1, 2, 5, 2}, 2), v = reals({1, 2, 5, 3}, 3);
  const ir::Attributes packed{
      {"q_num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{1}}, {"is_causal", std::int64_t{1}}};
  return {
      {{"Attention", {q, k, v}}, kKnown},
      {{"Attention", {q, k, v, reals({3, 5}, 4)}, {{"softcap", 1.5f}, {"scale", 0.7f}}}, kKnown},
      {{"Attention", {q, k, v, Tensor::from<bool>({1, 5}, {true, false, true, true, false})}}, kKnown},
      {{"Attention", {reals({2, 3, 4}, 1), reals({2, 3, 2}, 2), reals({2, 3, 3}, 3)}, packed}, kKnown},
      {{"Attention",
        {q, reals({1, 2, 2, 2}, 2), reals({1, 2, 2, 3}, 3), Value(), reals({1, 2, 3, 2}, 4), reals({1, 2, 3, 3}, 5)},
        {{"is_causal", std::int64_t{1}}},
        3},
       kKnown},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& cases : {unary_cases(), binary_cases(), product_cases(), movement_cases(), reduction_cases(),
                            layer_cases(), attention_cases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

void expect_gradients(const std::vector<Case>& cases) {
  for (const Case& each : cases) expect_gradient(each.call, each.check);
}

TEST(Gradient, OfFunctions) {
  expect_gradients(unary_cases());
}
TEST(Gradient, OfBroadcastArithmetic) {
  expect_gradients(binary_cases());
}
TEST(Gradient, OfMatrixProducts) {
  expect_gradients(product_cases());
}
TEST(Gradient, OfMovement) {
  expect_gradients(movement_cases());
}
TEST(Gradient, OfReductions) {
  expect_gradients(reduction_cases());
}
TEST(Gradient, OfLayers) {
  expect_gradients(layer_cases());
}
TEST(Gradient, OfAttention) {
  expect_gradients(attention_cases());
}

TEST(Gradient, EveryOneIsChecked) {
  std::set<std::string_view> checked;
  const std::vector<Case> cases = all_cases();
  for (const Case& each : cases) checked.insert(each.call.op);
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
