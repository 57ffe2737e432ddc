#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::normalisation_test {
namespace {

ir::ValueType f32(ir::Dims dims) {
  return ir::ValueType::tensor(DType::f32, std::move(dims));
}
const Tolerance kClose{1e-5, 1e-5};

TEST(BatchNormalization, UsesGivenStatistics) {
  const Tensor x = Tensor::from<float>({1, 2, 1}, {3.0f, 10.0f});
  const Tensor scale = Tensor::from<float>({2}, {2.0f, 1.0f}), shift = Tensor::from<float>({2}, {1.0f, 0.0f}),
               mean = Tensor::from<float>({2}, {1.0f, 10.0f}), variance = Tensor::from<float>({2}, {4.0f, 1.0f});
  EXPECT_TRUE(close_to(run_op_tensor({"BatchNormalization", {x, scale, shift, mean, variance}}),
                       Tensor::from<float>({1, 2, 1}, {3.0f, 0.0f}), kClose));
}

TEST(BatchNormalization, TrainingUpdatesRunningStatistics) {
  const Tensor x = Tensor::from<float>({2, 1, 2}, {1.0f, 3.0f, 5.0f, 7.0f});  // mean 4, variance 5
  const Tensor one = Tensor::from<float>({1}, {1.0f}), zero = Tensor::from<float>({1}, {0.0f});
  const auto y = run_op(
      {"BatchNormalization", {x, one, zero, zero, one}, {{"training_mode", std::int64_t{1}}, {"momentum", 0.5f}}, 3});
  EXPECT_NEAR(y[0].tensor().data<float>()[3], 3 / std::sqrt(5.0), 1e-5);
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({1}, {2.0f}), kClose));
  EXPECT_TRUE(close_to(y[2].tensor(), Tensor::from<float>({1}, {3.0f}), kClose));
}

TEST(BatchNormalization, RefusesWrongChannelsAndStrayStatistics) {
  const ir::ValueType two = f32({2});
  expect_error(ErrorKind::invalid_model, "input 'scale' has 2 values for 3 channels",
               [&] { infer_op("BatchNormalization", {f32({1, 3, 4}), two, two, two, two}); });
  expect_error(ErrorKind::invalid_model, "running statistics are asked for outside training mode",
               [&] { infer_op("BatchNormalization", {f32({1, 2, 4}), two, two, two, two}, {}, 3); });
}

TEST(LayerNormalization, GivesMeanAndInverseDeviation) {
  const Tensor x = Tensor::from<float>({2, 2}, {1.0f, 3.0f, -2.0f, 2.0f}),
               scale = Tensor::from<float>({2}, {1.0f, 2.0f});
  const auto y = run_op({"LayerNormalization", {x, scale}, {{"epsilon", 0.0f}}, 3});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<float>({2, 2}, {-1.0f, 2.0f, -1.0f, 2.0f}), kClose));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({2, 1}, {2.0f, 0.0f}), kClose));
  EXPECT_TRUE(close_to(y[2].tensor(), Tensor::from<float>({2, 1}, {1.0f, 0.5f}), kClose));
}

TEST(LayerNormalization, KeepsSymbols) {
  const ir::Dim batch = ir::Dim::symbol("batch");
  const auto types = infer_op("LayerNormalization", {f32({batch, 7, 8}), f32({8})}, {}, 2);
  EXPECT_EQ(types[0], f32({batch, 7, 8}));
  EXPECT_EQ(types[1], f32({batch, 7, 1}));
}

TEST(LayerNormalization, StatisticsHaveTheStashType) {
  for (const DType type : {DType::f16, DType::bf16, DType::f64}) {
    const ir::Attributes stash{{"stash_type", static_cast<std::int64_t>(type)}};
    EXPECT_EQ(infer_op("LayerNormalization", {f32({2, 8}), f32({8})}, stash, 3)[2],
              ir::ValueType::tensor(type, ir::Dims{2, 1}));
    EXPECT_EQ(infer_op("LayerNormalization", {ir::ValueType::tensor(DType::f32), f32({8})}, stash, 3)[2],
              ir::ValueType::tensor(type));
  }
  expect_error(ErrorKind::invalid_model, "stash_type is 7, expected the number of a float type",
               [] { infer_op("LayerNormalization", {f32({2, 8}), f32({8})}, {{"stash_type", std::int64_t{7}}}); });
}

TEST(RmsNormalization, DividesByTheRootMeanSquare) {
  const Tensor x = Tensor::from<float>({1, 2}, {3.0f, 4.0f}), scale = Tensor::from<float>({2}, {1.0f, 10.0f});
  const double rms = std::sqrt(12.5);
  EXPECT_TRUE(close_to(run_op_tensor({"RMSNormalization", {x, scale}, {{"epsilon", 0.0f}}}),
                       Tensor::from<float>({1, 2}, {static_cast<float>(3 / rms), static_cast<float>(40 / rms)}),
                       kClose));
}

TEST(GroupNormalization, NormalisesGroupsAndScalesChannels) {
  const Tensor x = Tensor::from<float>({1, 4, 1}, {1.0f, 3.0f, 10.0f, 30.0f}),
               scale = Tensor::from<float>({4}, {1.0f, 2.0f, 3.0f, 4.0f}),
               bias = Tensor::from<float>({4}, {0.0f, 0.0f, 0.0f, 1.0f});
  const Tensor y =
      run_op_tensor({"GroupNormalization", {x, scale, bias}, {{"num_groups", std::int64_t{2}}, {"epsilon", 0.0f}}});
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 4, 1}, {-1.0f, 2.0f, -3.0f, 5.0f}), kClose));
  expect_error(ErrorKind::invalid_model, "4 channels do not split into 3 groups", [] {
    infer_op("GroupNormalization", {f32({1, 4, 1}), f32({4}), f32({4})}, {{"num_groups", std::int64_t{3}}});
  });
}

TEST(LpNormalization, LeavesZeroVectorsZero) {
  const Tensor x = Tensor::from<float>({2, 2}, {3.0f, 4.0f, 0.0f, 0.0f});
  EXPECT_TRUE(
      close_to(run_op_tensor({"LpNormalization", {x}}), Tensor::from<float>({2, 2}, {0.6f, 0.8f, 0.0f, 0.0f}), kClose));
}

TEST(Lrn, SumsNeighbouringChannels) {
  const Tensor x = Tensor::from<float>({1, 3, 1}, {1.0f, 2.0f, 3.0f});
  const Tensor y =
      run_op_tensor({"LRN", {x}, {{"size", std::int64_t{3}}, {"alpha", 3.0f}, {"beta", 1.0f}, {"bias", 0.0f}}});
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 3, 1}, {1 / 5.0f, 2 / 14.0f, 3 / 13.0f}), kClose));
}

TEST(Quantisation, RoundsHalfToEvenAndSaturates) {
  const Tensor x = Tensor::from<float>({5}, {1.0f, 3.0f, -5.0f, 1000.0f, -1000.0f});
  const Tensor y = run_op_tensor({"QuantizeLinear", {x, Tensor::scalar(2.0f), Tensor::scalar(std::int8_t{1})}});
  EXPECT_TRUE(close_to(y, Tensor::from<std::int8_t>({5}, {1, 3, -1, 127, -128})));
}

TEST(Quantisation, GoesThereAndBackByAxisAndByBlock) {
  const Tensor x = Tensor::from<float>({2, 2}, {1.0f, 2.0f, 30.0f, 40.0f});
  const Tensor by_row = Tensor::from<float>({2}, {1.0f, 10.0f});
  const ir::Attributes axis{{"axis", std::int64_t{0}}};
  const Tensor q = run_op_tensor({"QuantizeLinear", {x, by_row}, axis});
  EXPECT_TRUE(close_to(q, Tensor::from<std::uint8_t>({2, 2}, {1, 2, 3, 4})));
  EXPECT_TRUE(close_to(run_op_tensor({"DequantizeLinear", {q, by_row}, axis}), x));
  const Tensor by_block = Tensor::from<float>({2, 1}, {1.0f, 10.0f});
  EXPECT_TRUE(close_to(
      run_op_tensor({"QuantizeLinear", {x, by_block}, {{"axis", std::int64_t{1}}, {"block_size", std::int64_t{2}}}}),
      q));
}

TEST(Quantisation, RefusesScalesThatDoNotCover) {
  expect_error(ErrorKind::invalid_model, "3 scales for axis 1 of [2, 2]",
               [] { infer_op("QuantizeLinear", {f32({2, 2}), f32({3})}); });
}

TEST(DynamicQuantizeLinear, CoversZero) {
  const auto y = run_op({"DynamicQuantizeLinear", {Tensor::from<float>({3}, {51.0f, 102.0f, 255.0f})}, {}, 3});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<std::uint8_t>({3}, {51, 102, 255})));
  EXPECT_EQ(*y[1].tensor().data<float>(), 1.0f);
  EXPECT_EQ(*y[2].tensor().data<std::uint8_t>(), 0);
}

TEST(Loss, AveragesByWeightAndIgnores) {
  const Tensor log_probabilities = Tensor::from<float>({3, 2}, {-1.0f, -2.0f, -3.0f, -4.0f, -5.0f, -6.0f});
  const Tensor labels = Tensor::from<std::int64_t>({3}, {0, 1, -100}), weights = Tensor::from<float>({2}, {1.0f, 3.0f});
  const Tensor loss = run_op_tensor(
      {"NegativeLogLikelihoodLoss", {log_probabilities, labels, weights}, {{"ignore_index", std::int64_t{-100}}}});
  EXPECT_TRUE(close_to(loss, Tensor::scalar(13.0f / 4.0f), kClose));
  expect_error(ErrorKind::failed, "label -100 is outside [0, 2)",
               [&] { run_op({"NegativeLogLikelihoodLoss", {log_probabilities, labels}}); });
}

TEST(Loss, SoftmaxCrossEntropyIsUniformForEqualScores) {
  const auto y = run_op({"SoftmaxCrossEntropyLoss",
                         {Tensor::from<float>({1, 4}, {7.0f, 7.0f, 7.0f, 7.0f}), Tensor::from<std::int64_t>({1}, {2})},
                         {},
                         2});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::scalar(std::log(4.0f)), kClose));
  EXPECT_NEAR(y[1].tensor().data<float>()[0], -std::log(4.0), 1e-5);
}

}  // namespace
}  // namespace tessera::test::normalisation_test
