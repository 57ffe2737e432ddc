#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::embed_layer_normalisation_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kEmbed = "com.microsoft::EmbedLayerNormalization",
                  kQuantised = "com.microsoft::QEmbedLayerNormalization";
const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 4);

Tensor matrix(std::int64_t rows, std::initializer_list<float> values) {
  return Tensor::from<float>({rows, static_cast<std::int64_t>(values.size()) / rows},
                             std::span<const float>(values.begin(), values.size()));
}
Tensor ids(std::initializer_list<std::int32_t> values) {
  return Tensor::from<std::int32_t>({1, static_cast<std::int64_t>(values.size())},
                                    std::span<const std::int32_t>(values.begin(), values.size()));
}

// Two words, [1, 1] and [0, 4]; positions add [0, 2], [0, 0] and [0, -2].
OpCall embedding() {
  return {kEmbed,
          {ids({1, 0}), Value(), matrix(2, {1, 1, 0, 4}), matrix(3, {0, 2, 0, 0, 0, -2}), Value(),
           Tensor::from<float>({2}, {1, 1}), Tensor::from<float>({2}, {0, 10})},
          {},
          3};
}

TEST(EmbedLayerNormalisation, AddsWordsAndPositions) {
  OpCall call = embedding();
  const auto y = run_op(call);
  // Sums [0, 6] and [1, 1]; the second has no deviation.
  EXPECT_TRUE(close_to(y[2].tensor(), Tensor::from<float>({1, 2, 2}, {0, 6, 1, 1})));
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<float>({1, 2, 2}, {-1, 11, 0, 10}), kTolerance));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<std::int32_t>({1}, {0})));
}

TEST(EmbedLayerNormalisation, TakesSegmentsPositionsAndAMask) {
  OpCall call = embedding();
  call.inputs[1] = ids({0, 1});
  call.inputs[4] = matrix(2, {100, 0, 0, 100});
  call.inputs.push_back(ids({1, 2}));  // the mask counts ones
  call.inputs.push_back(ids({2, 1}));
  const auto y = run_op(call);
  EXPECT_TRUE(close_to(y[2].tensor(), Tensor::from<float>({1, 2, 2}, {100, 2, 1, 101})));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<std::int32_t>({1}, {1})));
}

TEST(EmbedLayerNormalisation, QuantisedTablesAreScaled) {
  const auto bytes = [](Shape shape, std::vector<std::uint8_t> values) {
    return Tensor::from<std::uint8_t>(shape, std::span<const std::uint8_t>(values));
  };
  const Value none, half = Tensor::scalar(0.5f), one = Tensor::scalar(1.0f);
  const auto zero = [](std::uint8_t value) { return Tensor::scalar(value); };
  // Word 0: 0.5 [2 - 4, 8 - 4] = [-1, 2]; position 0: [1, 0]; gamma 0.5 [2, 4] = [1, 2]; beta [3, 3].
  const OpCall call{kQuantised,
                    {ids({0}), none, bytes({1, 2}, {2, 8}), bytes({1, 2}, {8, 7}), none, bytes({2}, {2, 4}),
                     bytes({2}, {13, 13}), none, half, one, none, half, one, zero(4), zero(7), none, zero(0), zero(10)},
                    {},
                    2};
  const auto y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<float>({1, 1, 2}, {2, 5}), kTolerance));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<std::int32_t>({1}, {0})));
}

TEST(EmbedLayerNormalisation, InfersFromTheTable) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType tokens = ValueType::tensor(DType::i32, Dims{batch, length}),
                  words = ValueType::tensor(DType::f32, Dims{30, 8}),
                  places = ValueType::tensor(DType::f32, Dims{16, 8}), vector = ValueType::tensor(DType::f32, Dims{8});
  const auto types = infer_op(kEmbed, {tokens, tokens, words, places, words, vector, vector}, {}, 3);
  EXPECT_EQ(types[0], ValueType::tensor(DType::f32, Dims{batch, length, 8}));
  EXPECT_EQ(types[1], ValueType::tensor(DType::i32, Dims{batch}));
  EXPECT_EQ(types[2], types[0]);
}

TEST(EmbedLayerNormalisation, RefusesWhatDoesNotFit) {
  OpCall call = embedding();
  call.inputs[3] = matrix(1, {0, 1, 2});
  expect_error(ErrorKind::invalid_model, "'position_embedding' has shape [1, 3], expected [?, 2]",
               [&] { run_op(call); });
  call = embedding();
  call.inputs[1] = ids({0, 1});
  expect_error(ErrorKind::invalid_model, "segment_ids and segment embeddings must be given together",
               [&] { run_op(call); });
  call = embedding();
  call.inputs[0] = ids({0, 7});
  expect_error_containing(ErrorKind::failed, "7", [&] { run_op(call); });
}

}  // namespace
}  // namespace tessera::test::embed_layer_normalisation_test
