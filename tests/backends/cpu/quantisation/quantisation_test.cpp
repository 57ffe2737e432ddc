#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::quantisation_test {
namespace {

// Halves, saturation, infinities and NaN at scale 0.5.
Tensor edges() {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  return Tensor::from<float>(
      {12}, {0.25f, 0.75f, 1.25f, -0.25f, -0.75f, 1e9f, -1e9f, infinity, -infinity, nan, -0.0f, 1e-40f});
}

TEST(CpuQuantisation, MatchesReferenceBitByBit) {
  for (const DType type : {DType::u8, DType::i8}) {
    const Tensor zero = random_tensor(type, {}, 9, 3, 5);
    expect_matches_reference({"QuantizeLinear", {edges(), Tensor::scalar(0.5f), zero}});
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{67}, Shape{3, 40'001}}) {
      expect_matches_reference(
          {"QuantizeLinear", {random_tensor(DType::f32, shape, 1, -20, 20), Tensor::scalar(0.1f), zero}});
      expect_matches_reference(
          {"DequantizeLinear", {random_tensor(type, shape, 1, 0, 120), Tensor::scalar(0.1f), zero}});
    }
    for (const std::int64_t axis : {0, 1, 2}) {
      const Shape shape = {5, 7, 35}, scales = {shape[static_cast<std::size_t>(axis)]};
      const Tensor scale = random_tensor(DType::f32, scales, 2, 0.05, 0.2),
                   zeros = random_tensor(type, scales, 3, 0, 9);
      expect_matches_reference(
          {"QuantizeLinear", {random_tensor(DType::f32, shape, 1, -20, 20), scale, zeros}, {{"axis", axis}}});
      expect_matches_reference(
          {"DequantizeLinear", {random_tensor(type, shape, 1, 0, 120), scale, zeros}, {{"axis", axis}}});
    }
  }
  expect_matches_reference({"QuantizeLinear", {edges(), Tensor::scalar(0.5f)}});
}

// Quotients at the edge between two steps, by scales of every size.
TEST(CpuQuantisation, QuotientsAreRoundedAsDivisionRounds) {
  const Tensor scales = random_tensor(DType::f32, {60}, 5, 1, 2),
               quotients = random_tensor(DType::f32, {1000}, 6, -300, 300);
  for (std::int64_t i = 0; i < scales.elements(); ++i) {
    const float scale = std::ldexp(scales.data<float>()[i], static_cast<int>(4 * i - 120));
    std::vector<float> x;
    for (const float quotient : std::span(quotients.data<float>(), 1000)) {
      const float edge = (std::floor(quotient) + 0.5f) * scale;
      for (const float value : {quotient * scale, edge, std::nextafter(edge, 0.0f), std::nextafter(edge, 1e38f)})
        x.push_back(value);
    }
    for (const float quotient : {7e4f, -7e4f, 3e9f, -3e9f}) x.push_back(quotient * scale);
    for (const float value : {std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(), std::nanf("")})
      x.push_back(value);
    const auto count = static_cast<std::int64_t>(x.size());
    expect_matches_reference(
        {"QuantizeLinear",
         {Tensor::from<float>({count}, x), Tensor::scalar(scale), Tensor::scalar<std::uint8_t>(131)}});
    expect_matches_reference(
        {"QuantizeLinear", {Tensor::from<float>({count}, x), Tensor::scalar(scale), Tensor::scalar<std::int8_t>(-3)}});
  }
}

TEST(CpuQuantisation, DynamicMatchesReferenceBitByBit) {
  for (const Shape& shape : {Shape{1}, Shape{67}, Shape{3, 50'001}}) {
    expect_matches_reference({"DynamicQuantizeLinear", {random_tensor(DType::f32, shape, 1, -3, 5)}, {}, 3});
    expect_matches_reference({"DynamicQuantizeLinear", {random_tensor(DType::f32, shape, 1, 2, 5)}, {}, 3});
  }
  expect_matches_reference({"DynamicQuantizeLinear", {Tensor::from<float>({4}, {0, 0, 0, 0})}, {}, 3});
}

}  // namespace
}  // namespace tessera::test::quantisation_test
