#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::pow_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CpuPow, ConstantExponents) {
  const Tensor x = random_tensor(DType::f32, {4003}, 4, 0, 9);
  for (const float power : {2.0f, 3.0f, 0.5f, -1.0f, 0.0f, 1.7f, -3.3f, 40.0f, 1e-3f}) {
    expect_matches_reference({"Pow", {x, Tensor::scalar(power)}}, Tolerance::epsilons(DType::f32, 1));
    expect_matches_reference({"Pow", {x, Tensor::scalar(static_cast<double>(power))}},
                             Tolerance::epsilons(DType::f32, 1));
  }
  for (const std::int64_t power : {2, 3, 4, 5, -2})
    expect_matches_reference({"Pow", {x, Tensor::scalar(power)}}, Tolerance::epsilons(DType::f32, 1));
}

TEST(CpuPow, BroadcastExponents) {
  const std::vector<std::pair<Shape, Shape>> kCases = {{{5, 33}, {33}}, {{5, 1}, {5, 33}}, {{}, {67}}, {{67}, {1}},
                                                       {{0, 3}, {3}},   {{3}, {3}},        {{1}, {}}};
  for (const auto& [x, y] : kCases) {
    expect_matches_reference({"Pow", {random_tensor(DType::f32, x, 1, 0, 3), random_tensor(DType::f32, y, 2, -3, 3)}},
                             Tolerance::epsilons(DType::f32, 1));
  }
}

// Every pair of edges, with the signs and infinities of the C library.
TEST(CpuPow, EdgeValues) {
  const std::vector<float> edges = {0.0f,  -0.0f,  1.0f,      -1.0f,      2.0f,  -2.0f,  3.0f,   -3.0f,
                                    0.5f,  -0.5f,  2.5f,      -2.5f,      1e-3f, 1e30f,  -1e30f, 16777216.0f,
                                    3e38f, -3e38f, kInfinity, -kInfinity, kNan,  1e-30f, 1e-40f, -1e-40f};
  const auto count = static_cast<std::int64_t>(edges.size());
  const Tensor x = Tensor::from<float>({count, 1}, edges), y = Tensor::from<float>({count}, edges);
  expect_matches_reference({"Pow", {x, y}}, Tolerance::epsilons(DType::f32, 1));
  for (const float power : edges) {
    expect_matches_reference({"Pow", {y, Tensor::scalar(power)}}, Tolerance::epsilons(DType::f32, 1));
    expect_matches_reference({"Pow", {Tensor::scalar(power), y}}, Tolerance::epsilons(DType::f32, 1));
  }
}

TEST(CpuPow, MixedTypes) {
  for (const DType x : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    for (const DType y : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      const Tensor bases = random_tensor(x, {5, 67}, 3, 1, 9);
      const Tolerance tolerance = is_float(x) ? Tolerance::epsilons(x, 1) : Tolerance{};
      expect_matches_reference({"Pow", {bases, random_tensor(y, {67}, 4, 0, 6)}}, tolerance);
      expect_matches_reference({"Pow", {bases, random_tensor(y, {}, 4, 2, 5)}}, tolerance);
    }
  }
  // Wraps, and truncates fractions.
  const Tensor x = Tensor::from<std::int64_t>({5}, {-3, -1, 1, 2, 7});
  for (const std::int64_t power : {0, 1, 63, 64, -1, -2}) expect_matches_reference({"Pow", {x, Tensor::scalar(power)}});
  for (const double power : {0.5, -1.0, 500.0, std::nan("")})
    expect_matches_reference({"Pow", {x, Tensor::scalar(power)}});
}

}  // namespace
}  // namespace tessera::test::pow_test
