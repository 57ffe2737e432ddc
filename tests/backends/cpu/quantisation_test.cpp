#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test {
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

TEST(CpuQuantisation, DynamicMatchesReferenceBitByBit) {
  for (const Shape& shape : {Shape{1}, Shape{67}, Shape{3, 50'001}}) {
    expect_matches_reference({"DynamicQuantizeLinear", {random_tensor(DType::f32, shape, 1, -3, 5)}, {}, 3});
    expect_matches_reference({"DynamicQuantizeLinear", {random_tensor(DType::f32, shape, 1, 2, 5)}, {}, 3});
  }
  expect_matches_reference({"DynamicQuantizeLinear", {Tensor::from<float>({4}, {0, 0, 0, 0})}, {}, 3});
}

}  // namespace
}  // namespace tessera::test
