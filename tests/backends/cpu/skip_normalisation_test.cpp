#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test {
namespace {

const std::string kLayer = "com.microsoft::SkipLayerNormalization", kSimplified = "com.microsoft::SkipSimplifiedLayerNormalization";

TEST(CpuSkipNormalisation, MatchesReference) {
  const Tolerance tolerance = Tolerance::epsilons(DType::f32, 60);
  const auto f32 = [](const Shape& shape, std::uint64_t seed) { return random_tensor(DType::f32, shape, seed, -2, 3); };
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 5, 384}, Shape{4, 1}, Shape{300, 67}, Shape{2, 40}}) {
    const Shape row{shape.back()};
    const Tensor x = f32(shape, 1), skip = f32(shape, 2), gamma = f32(row, 3), beta = f32(row, 4), bias = f32(row, 5);
    const ir::Attributes attributes = {{"epsilon", 1e-3f}};
    expect_matches_reference({kLayer, {x, skip, gamma, beta, bias}, attributes, 4}, tolerance);
    expect_matches_reference({kLayer, {x, skip, gamma, beta}, attributes, 1}, tolerance);
    expect_matches_reference({kLayer, {x, skip, gamma}, attributes, 1}, tolerance);
    expect_matches_reference({kSimplified, {x, skip, gamma, bias}, attributes, 4}, tolerance);
    expect_matches_reference({kSimplified, {x, skip, gamma}, attributes, 1}, tolerance);
  }
}

}  // namespace
}  // namespace tessera::test
