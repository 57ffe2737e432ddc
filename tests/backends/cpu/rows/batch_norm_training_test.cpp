#include <gtest/gtest.h>

#include <cmath>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::batch_norm_training_kernel_test {
namespace {

struct Case {
  Shape shape;
  std::int64_t axis;
};

// Both layouts, with channels around the lengths of vectors, and more rows and longer lines than a piece has.
const std::vector<Case> kCases{
    {{5, 3}, 1},         {{1, 7}, 1},          {{600, 16}, 1},         {{3, 4, 5, 67}, -1}, {{2, 9, 11, 130}, 3},
    {{2, 3, 9000}, 1},   {{4, 17, 3, 5}, 1},   {{3, 2, 7, 33}, 1},     {{1, 1, 1}, 1},      {{2, 40, 64}, -1},
    {{1300, 2, 21}, -1}, {{2, 3, 4, 5, 8}, 1}, {{2, 4, 4, 4, 24}, -1},
};

Tensor channels_of(const Case& each, std::uint64_t seed, double low = -1, double high = 1) {
  const auto axis =
      static_cast<std::size_t>(each.axis < 0 ? each.axis + static_cast<std::int64_t>(each.shape.size()) : each.axis);
  return random_tensor(DType::f32, {each.shape[axis]}, seed, low, high);
}

OpCall forward_of(const Case& each, bool adds, bool relu, double low = -2, double high = 3) {
  OpCall call{"tessera::BatchNormTraining",
              {random_tensor(DType::f32, each.shape, 1, low, high), channels_of(each, 2, 0.5, 2), channels_of(each, 3)},
              {{"channel_axis", each.axis}, {"relu", std::int64_t{relu}}},
              3};
  if (adds) call.inputs.push_back(random_tensor(DType::f32, each.shape, 4));
  return call;
}

OpCall backward_of(const Case& each, bool relu, bool addend) {
  OpCall call{"tessera::BatchNormTrainingGradient",
              {random_tensor(DType::f32, each.shape, 1), random_tensor(DType::f32, each.shape, 2, -2, 3),
               channels_of(each, 3, 0.5, 2), channels_of(each, 4, 0.3, 0.7), channels_of(each, 5, 1, 3)},
              {{"channel_axis", each.axis}, {"relu", std::int64_t{relu}}},
              addend ? std::size_t{4} : std::size_t{3}};
  if (!relu) return call;
  Tensor y = random_tensor(DType::f32, each.shape, 6);
  for (float& element : y.mutable_values<float>()) element = std::fmax(element, 0.0f);
  call.inputs.push_back(y);
  return call;
}

TEST(CpuBatchNormTraining, MatchesReference) {
  for (const Case& each : kCases) {
    for (const auto& [adds, relu] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}})
      expect_matches_reference(forward_of(each, adds, relu), Tolerance::epsilons(DType::f32, 64));
  }
}

// Sums of n elements, of which many cancel.
TEST(CpuBatchNormTrainingGradient, MatchesReference) {
  for (const Case& each : kCases) {
    for (const auto& [relu, addend] : {std::pair{false, false}, {true, false}, {true, true}})
      expect_matches_reference(backward_of(each, relu, addend), Tolerance::epsilons(DType::f32, 256));
  }
}

// A mean a thousand times the deviation: the variance keeps the digits that the elements have.
TEST(CpuBatchNormTraining, KeepsItsDigitsFarFromZero) {
  for (const Case& each : {Case{{40, 30, 24}, -1}, Case{{4, 3, 5000}, 1}}) {
    const OpCall call = forward_of(each, false, false, 1000, 1001);
    const std::vector<Value> found = run_op(call, "cpu"), expected = run_op(call, "reference");
    EXPECT_TRUE(close_to(found[1].tensor(), expected[1].tensor(), Tolerance::epsilons(DType::f32, 1)));
    EXPECT_TRUE(close_to(found[2].tensor(), expected[2].tensor(), {.relative = 1e-5}));
    EXPECT_TRUE(close_to(found[0].tensor(), expected[0].tensor(), {.absolute = 2e-3}));
  }
}

TEST(CpuBatchNormTraining, LetsNaNThrough) {
  for (const Case& each : {Case{{3, 4, 20}, -1}, Case{{3, 4, 20}, 1}}) {
    OpCall call = forward_of(each, true, true);
    Tensor x = call.inputs[0].tensor().clone();
    x.mutable_data<float>()[25] = NAN;
    call.inputs[0] = x;
    expect_matches_reference(call, Tolerance::epsilons(DType::f32, 64));
  }
}

}  // namespace
}  // namespace tessera::test::batch_norm_training_kernel_test
