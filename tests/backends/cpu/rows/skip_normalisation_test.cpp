#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::skip_normalisation_test {
namespace {

const std::string kLayer = "com.microsoft::SkipLayerNormalization",
                  kSimplified = "com.microsoft::SkipSimplifiedLayerNormalization";

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

TEST(CpuEmbedLayerNormalisation, MatchesReference) {
  const std::string op = "com.microsoft::EmbedLayerNormalization";
  const Tolerance tolerance = Tolerance::epsilons(DType::f32, 60);
  const ir::Attributes attributes = {{"epsilon", 1e-3f}};
  for (const std::int64_t width : {1, 7, 384}) {
    const auto f32 = [](const Shape& shape, std::uint64_t seed) {
      return random_tensor(DType::f32, shape, seed, -2, 3);
    };
    const Tensor words = f32({5, width}, 1), places = f32({9, width}, 2), segments = f32({2, width}, 3),
                 gamma = f32({width}, 4), beta = f32({width}, 5);
    const auto ids = [](Shape shape, std::vector<std::int64_t> values) {
      return Tensor::from<std::int64_t>(std::move(shape), std::span<const std::int64_t>(values));
    };
    const Tensor tokens = ids({2, 3}, {4, 0, -1, 2, 2, 1}), parts = ids({2, 3}, {0, 1, 1, 0, 0, 1}),
                 one = ids({1, 3}, {8, 0, 4}), each = ids({2, 3}, {8, 0, 4, 3, 3, -9});
    const Value none;
    expect_matches_reference({op, {tokens, none, words, places, none, gamma, beta}, attributes, 1}, tolerance);
    expect_matches_reference({op, {tokens, parts, words, places, segments, gamma, beta, none, one}, attributes, 1},
                             tolerance);
    expect_matches_reference({op, {tokens, parts, words, places, segments, gamma, beta, none, each}, attributes, 1},
                             tolerance);
    const Tensor narrow = Tensor::from<std::int32_t>({1, 2}, std::vector<std::int32_t>{3, -5});
    expect_matches_reference({op, {narrow, none, words, places, none, gamma, beta}, attributes, 1}, tolerance);
    EXPECT_EQ(chosen_cpu_kernel({op, {tokens, none, words, places, none, gamma, beta}, attributes, 1}),
              "cpu_embed_layer_normalization");
  }
  const Tensor words = random_tensor(DType::f32, {5, 4}, 1, -2, 3), row = random_tensor(DType::f32, {4}, 2, -2, 3);
  const Tensor beyond = Tensor::from<std::int32_t>({1, 1}, std::vector<std::int32_t>{5});
  expect_error(ErrorKind::failed, "index 5 is outside [-5, 5)",
               [&] { run_op({op, {beyond, Value(), words, words, Value(), row, row}}, "cpu"); });
}

}  // namespace
}  // namespace tessera::test::skip_normalisation_test
