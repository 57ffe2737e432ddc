#include "ops/training/optimiser_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::optimiser_step_test {
namespace {

const Tolerance kTolerance = Tolerance::epsilons(DType::f64, 16);

Tensor numbers(std::initializer_list<double> values) {
  return Tensor::from<double>({static_cast<std::int64_t>(values.size())}, values);
}

// A step of one or more parameters; `tensors` as the operator takes them.
std::vector<Value> step(const std::string& algorithm, std::vector<Value> tensors, ir::Attributes attributes,
                        std::size_t outputs, double rate = 0.1, std::int64_t count = 1, double scale = 1,
                        bool apply = true) {
  std::vector<Value> inputs{Tensor::scalar(rate), Tensor::scalar(count), Tensor::scalar(scale), Tensor::scalar(apply)};
  inputs.insert(inputs.end(), tensors.begin(), tensors.end());
  attributes["algorithm"] = algorithm;
  return run_op({"tessera::OptimiserStep", inputs, attributes, outputs});
}

void expect_equal(const Value& found, const Tensor& expected) {
  EXPECT_TRUE(close_to(found.tensor(), expected, kTolerance));
}

TEST(Sgd, WithoutStateFollowsTheGradient) {
  const std::vector<Value> y = step("sgd", {numbers({1, -2}), numbers({10, 20})}, {}, 1);
  expect_equal(y[0], numbers({0, -4}));
}

TEST(Sgd, MomentumNesterovAndWeightDecay) {
  const ir::Attributes attributes{{"momentum", 0.5f}, {"weight_decays", std::vector<float>{0.1f}}};
  // g = 3 + 0.1 · 2 = 3.2; b = 0.5 · 4 + 3.2 = 5.2
  std::vector<Value> y = step("sgd", {numbers({2}), numbers({3}), numbers({4})}, attributes, 2);
  expect_equal(y[0], numbers({2 - 0.52}));
  expect_equal(y[1], numbers({5.2}));
  ir::Attributes nesterov = attributes;
  nesterov["nesterov"] = std::int64_t{1};
  y = step("sgd", {numbers({2}), numbers({3}), numbers({4})}, nesterov, 2);
  expect_equal(y[0], numbers({2 - 0.1 * (3.2 + 0.5 * 5.2)}));
}

TEST(Adam, CorrectsTheBiasOfItsMoments) {
  const ir::Attributes attributes{{"epsilon", 1e-8f}};
  // In the first step both corrected moments are those of the gradient itself.
  std::vector<Value> y = step("adam", {numbers({1}), numbers({-4}), numbers({0}), numbers({0})}, attributes, 3);
  expect_equal(y[0], numbers({1 + 0.1 * 4 / (4 + 1e-8)}));
  expect_equal(y[1], numbers({-0.4}));
  expect_equal(y[2], numbers({0.016}));
  const double m = 0.9 * -0.4 + 0.1 * 2, v = 0.999 * 0.016 + 0.001 * 4;
  y = step("adam", {numbers({1}), numbers({2}), numbers({-0.4}), numbers({0.016})}, attributes, 3, 0.1, 2);
  expect_equal(y[0], numbers({1 - 0.1 * m / (1 - 0.81) / (std::sqrt(v / (1 - 0.999 * 0.999)) + 1e-8)}));
}

TEST(AdamW, DecaysTheWeightApartFromTheGradient) {
  const ir::Attributes attributes{{"weight_decays", std::vector<float>{0.5f}}};
  const std::vector<Value> y = step("adamw", {numbers({2}), numbers({-4}), numbers({0}), numbers({0})}, attributes, 3);
  expect_equal(y[0], numbers({2 - 0.1 * 0.5 * 2 + 0.1 * 4 / (4 + 1e-8)}));
  expect_equal(y[1], numbers({-0.4}));
}

TEST(Adagrad, SumsSquares) {
  const std::vector<Value> y = step("adagrad", {numbers({1}), numbers({3}), numbers({16})},
                                    {{"epsilon", 1e-10f}, {"rate_decay", 0.5f}}, 2, 0.1, 3);
  expect_equal(y[0], numbers({1 - 0.1 / 2 * 3 / (5 + 1e-10)}));
  expect_equal(y[1], numbers({25}));
}

TEST(Lars, ScalesByTheNormsOfEachTensor) {
  const ir::Attributes attributes{
      {"momentum", 0.5f}, {"trust", 0.25f}, {"epsilon", 0.0f}, {"weight_decays", std::vector<float>{0.5f, 0}}};
  // ‖p‖ = 5, ‖g‖ = 10: local rate 0.25 · 5 / (10 + 0.5 · 5); the second parameter is zero and takes the plain rate.
  const std::vector<Value> y =
      step("lars", {numbers({3, 4}), numbers({0}), numbers({6, 8}), numbers({2}), numbers({1, 1}), numbers({0})},
           attributes, 4);
  const double local = 0.25 * 5 / 12.5;
  const double first = 0.5 + 0.1 * local * (6 + 1.5), second = 0.5 + 0.1 * local * (8 + 2);
  expect_equal(y[0], numbers({3 - first, 4 - second}));
  expect_equal(y[1], numbers({-0.2}));
  expect_equal(y[2], numbers({first, second}));
}

TEST(Lamb, StepsByTheRatioOfNorms) {
  const ir::Attributes attributes{{"epsilon", 0.0f}, {"weight_decays", std::vector<float>{0.5f, 0.5f}}};
  const std::vector<Value> y = step("lamb",
                                    {numbers({3, 4}), numbers({0}), numbers({6, -8}), numbers({2}), numbers({0, 0}),
                                     numbers({0}), numbers({0, 0}), numbers({0})},
                                    attributes, 6);
  // m̂ / √v̂ are the signs of the gradient; u = signs + 0.5 p.
  const double u0 = 1 + 1.5, u1 = -1 + 2, ratio = 5 / std::sqrt(u0 * u0 + u1 * u1);
  expect_equal(y[0], numbers({3 - 0.1 * ratio * u0, 4 - 0.1 * ratio * u1}));
  expect_equal(y[1], numbers({-0.1}));  // a parameter of norm 0 takes the plain rate
}

TEST(OptimiserStep, ScalesGradientsAndMaySkip) {
  const std::vector<Value> tensors{numbers({1}), numbers({64}), numbers({2}), numbers({3})};
  const std::vector<Value> scaled = step("adam", tensors, {}, 3, 0.1, 1, 1.0 / 64);
  const std::vector<Value> plain = step("adam", {numbers({1}), numbers({1}), numbers({2}), numbers({3})}, {}, 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(identical(scaled[i].tensor(), plain[i].tensor()));
  const std::vector<Value> skipped =
      step("adam", {numbers({1}), numbers({HUGE_VAL}), numbers({2}), numbers({3})}, {}, 3, 0.1, 1, 1, false);
  for (const auto& [output, input] : {std::pair{0, 1.0}, {1, 2.0}, {2, 3.0}})
    EXPECT_EQ(skipped[static_cast<std::size_t>(output)].tensor().data<double>()[0], input);
}

TEST(Decimal, IsTheNumberThatWasMeant) {
  EXPECT_EQ(ops::decimal(0.999f), 0.999);
  EXPECT_EQ(ops::decimal(1e-8f), 1e-8);
  EXPECT_EQ(ops::decimal(0.0f), 0);
}

TEST(OptimiserStep, RefusesWhatDoesNotFit) {
  const auto refuses = [](const std::string& algorithm, std::vector<Value> tensors, ir::Attributes attributes,
                          const std::string& message) {
    try {
      step(algorithm, std::move(tensors), std::move(attributes), 1);
      ADD_FAILURE() << "no error; expected: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), message);
    }
  };
  refuses("adan", {numbers({1}), numbers({1})}, {},
          "algorithm is 'adan', expected sgd, adam, adamw, adagrad, lars or lamb");
  refuses("adam", {numbers({1}), numbers({1})}, {}, "2 tensors are given, expected 4 for each parameter");
  refuses("sgd", {numbers({1}), numbers({1})}, {{"weight_decays", std::vector<float>{0, 0}}},
          "2 weight decays are given for 1 parameters");
  refuses("sgd", {numbers({1}), numbers({1, 2})}, {}, "input 5 is f64[2], expected f64[1]");
}

}  // namespace
}  // namespace tessera::test::optimiser_step_test
