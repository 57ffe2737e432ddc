#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::skip_normalisation_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kLayer = "com.microsoft::SkipLayerNormalization",
                  kSimplified = "com.microsoft::SkipSimplifiedLayerNormalization";
const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 4);

Tensor row(std::initializer_list<float> values) {
  return Tensor::from<float>({1, static_cast<std::int64_t>(values.size())},
                             std::span<const float>(values.begin(), values.size()));
}

TEST(SkipNormalisation, NormalisesTheSum) {
  // The sum is 1, 5: mean 3, deviation 2.
  const Tensor gamma = Tensor::from<float>({2}, {1, 10}), beta = Tensor::from<float>({2}, {0, 100}),
               bias = Tensor::from<float>({2}, {1, 1});
  const auto y = run_op({kLayer, {row({0, 1}), row({0, 3}), gamma, beta, bias}, {}, 4});
  EXPECT_TRUE(close_to(y[0].tensor(), row({-1, 110}), kTolerance));
  EXPECT_TRUE(close_to(y[1].tensor(), row({3})));
  EXPECT_TRUE(close_to(y[2].tensor(), row({0.5f}), kTolerance));
  EXPECT_TRUE(close_to(y[3].tensor(), row({1, 5})));
}

TEST(SkipNormalisation, SimplifiedDividesByTheRootOfTheMeanSquare) {
  // The sum is 1, 7: mean square 25.
  const auto y = run_op({kSimplified, {row({1, 3}), row({0, 4}), Tensor::from<float>({2}, {5, 10})}, {}, 4});
  EXPECT_TRUE(close_to(y[0].tensor(), row({1, 14}), kTolerance));
  EXPECT_TRUE(close_to(y[1].tensor(), row({0})));
  EXPECT_TRUE(close_to(y[2].tensor(), row({0.2f}), kTolerance));
  EXPECT_TRUE(close_to(y[3].tensor(), row({1, 7})));
}

TEST(SkipNormalisation, KeepsSymbolicShape) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType x = ValueType::tensor(DType::f16, Dims{batch, length, 8}),
                  skip = ValueType::tensor(DType::f16, Dims{length, 8}), gamma = ValueType::tensor(DType::f16, Dims{8});
  const auto types = infer_op(kLayer, {x, skip, gamma}, {}, 4);
  EXPECT_EQ(types[0], x);
  EXPECT_EQ(types[1], ValueType::tensor(DType::f32, Dims{batch, length, 1}));
  EXPECT_EQ(types[3], x);
}

TEST(SkipNormalisation, RefusesWhatDoesNotFit) {
  const ValueType x = ValueType::tensor(DType::f32, Shape{2, 3, 8}),
                  wider = ValueType::tensor(DType::f32, Shape{4, 2, 3, 8}),
                  gamma = ValueType::tensor(DType::f32, Shape{8}),
                  short_gamma = ValueType::tensor(DType::f32, Shape{7});
  expect_error(ErrorKind::invalid_model, "'skip' of shape [4, 2, 3, 8] does not broadcast to [2, 3, 8]",
               [&] { infer_op(kLayer, {x, wider, gamma}); });
  expect_error(ErrorKind::invalid_model, "'gamma' has shape [7], expected [8]",
               [&] { infer_op(kSimplified, {x, x, short_gamma}); });
}

}  // namespace
}  // namespace tessera::test::skip_normalisation_test
