#include "ops/training/optimiser_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::optimiser_step_kernel_test {
namespace {

struct Case {
  std::string algorithm;
  std::size_t states;
  ir::Attributes attributes = {};
};

const std::vector<Case> kCases{
    {"sgd", 0},
    {"sgd", 1, {{"momentum", 0.9f}}},
    {"sgd", 1, {{"momentum", 0.9f}, {"nesterov", std::int64_t{1}}}},
    {"adam", 2},
    {"adamw", 2, {{"epsilon", 1e-6f}}},
    {"adagrad", 1, {{"epsilon", 1e-10f}, {"rate_decay", 0.1f}}},
    {"lars", 1, {{"momentum", 0.9f}, {"trust", 0.01f}}},
    {"lamb", 2, {{"epsilon", 1e-6f}}},
};

// Sizes around those of vectors and of pieces.
const std::vector<Shape> kShapes{{1}, {3, 5}, {0}, {64}, {127}, {40'003}, {16'384}, {2, 3, 7}, {100'000}};

OpCall call_of(const Case& given, bool decays, bool apply, const std::vector<Shape>& shapes) {
  OpCall call{"tessera::OptimiserStep",
              {Tensor::scalar(0.01f), Tensor::scalar(std::int64_t{3}), Tensor::scalar(0.25f), Tensor::scalar(apply)},
              given.attributes,
              (1 + given.states) * shapes.size()};
  call.attributes["algorithm"] = given.algorithm;
  if (decays) {
    std::vector<float> each(shapes.size(), 0.05f);
    each[1] = 0;
    call.attributes["weight_decays"] = each;
  }
  std::uint64_t seed = 0;
  for (std::size_t group = 0; group < 2 + given.states; ++group) {
    // The second moment is not negative.
    const double low = group == 3 || given.algorithm == "adagrad" ? 0 : -1;
    for (const Shape& shape : shapes) call.inputs.push_back(random_tensor(DType::f32, shape, ++seed, low, 1));
  }
  return call;
}

TEST(CpuOptimiserStep, MatchesReference) {
  for (const Case& each : kCases) {
    for (const bool decays : {false, true})
      expect_matches_reference(call_of(each, decays, true, kShapes), Tolerance::epsilons(DType::f32, 8));
  }
}

TEST(CpuOptimiserStep, KeepsEverythingWhereItDoesNotApply) {
  for (const Case& each : kCases) {
    OpCall call = call_of(each, true, false, {{3}, {20'000}});
    call.inputs[6] = Tensor::from<float>({3}, {NAN, HUGE_VALF, 1});
    expect_matches_reference(call);
  }
}

TEST(CpuOptimiserStep, IsTheSameForGradientsScaledByAPowerOfTwo) {
  for (const Case& each : kCases) {
    const OpCall plain = call_of(each, true, true, {{129}, {1000}});
    OpCall scaled = plain;
    scaled.inputs[2] = Tensor::scalar(0.25f / 1024);
    for (const std::size_t i : {std::size_t{6}, std::size_t{7}}) {
      Tensor gradient = plain.inputs[i].tensor().clone();
      for (float& g : gradient.mutable_values<float>()) g *= 1024;
      scaled.inputs[i] = gradient;
    }
    const std::vector<Value> expected = run_op(plain, "cpu"), found = run_op(scaled, "cpu");
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(identical(found[i].tensor(), expected[i].tensor())) << each.algorithm << ", output " << i;
  }
}

TEST(CpuOptimiserStep, TakesThePlainRateForParametersOfNormZero) {
  for (const std::string algorithm : {"lars", "lamb"}) {
    const Case given{algorithm, algorithm == "lamb" ? std::size_t{2} : std::size_t{1}};
    OpCall call = call_of(given, true, true, {{5}, {7}});
    call.inputs[4] = Tensor::from<float>({5}, {0, 0, 0, 0, 0});
    expect_matches_reference(call, Tolerance::epsilons(DType::f32, 8));
  }
}

}  // namespace
}  // namespace tessera::test::optimiser_step_kernel_test
