// Calls whose stated gradients are compared with central differences, by family.
#pragma once

#include "support/gradient_check.h"
#include "support/random_tensor.h"

namespace tessera::test {

struct GradientCase {
  OpCall call;
  GradientCheck check = {};
};

std::vector<GradientCase> unary_gradient_cases();
std::vector<GradientCase> binary_gradient_cases();
std::vector<GradientCase> product_gradient_cases();
std::vector<GradientCase> movement_gradient_cases();
std::vector<GradientCase> reduction_gradient_cases();
std::vector<GradientCase> layer_gradient_cases();
std::vector<GradientCase> einsum_gradient_cases();
std::vector<GradientCase> resize_gradient_cases();
std::vector<GradientCase> recurrent_gradient_cases();
std::vector<GradientCase> attention_gradient_cases();
std::vector<GradientCase> deformed_gradient_cases();
std::vector<GradientCase> transform_gradient_cases();
std::vector<GradientCase> stateful_gradient_cases();
std::vector<GradientCase> all_gradient_cases();

// --- how cases are written ---

namespace gradient_cases {

using Case = GradientCase;
using Integers = std::vector<std::int64_t>;

inline Tensor reals(const Shape& shape, std::uint64_t seed = 1, double low = -2, double high = 2) {
  return random_tensor(DType::f64, shape, seed, low, high);
}
inline Tensor integers(const Integers& values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, std::span<const std::int64_t>(values));
}
inline Tensor indices(const Shape& shape, const Integers& values) {
  return Tensor::from<std::int64_t>(shape, std::span<const std::int64_t>(values));
}

inline constexpr GradientCheck kKnown{.symbolic = false};                 // needs sizes that are known
inline constexpr GradientCheck kSingle{.step = 1e-2, .tolerance = 2e-3};  // f32
inline constexpr GradientCheck kStash{.step = 1e-3, .tolerance = 1e-4};   // rounds to f32 inside

}  // namespace gradient_cases

}  // namespace tessera::test
