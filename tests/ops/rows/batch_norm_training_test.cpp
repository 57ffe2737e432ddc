#include "ops/rows/batch_norm_training.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::batch_norm_training_test {
namespace {

const Tensor kOnes = Tensor::from<double>({2}, {1, 1}), kZeros = Tensor::from<double>({2}, {0, 0});

void expect_equal(const Value& found, const Tensor& expected) {
  EXPECT_TRUE(close_to(found.tensor(), expected, Tolerance::epsilons(DType::f64, 16)));
}

TEST(BatchNormTraining, GivesStatisticsOfTheBatch) {
  // Channels of means 2 and 0 and variances 1 and 4.
  const Tensor x = Tensor::from<double>({2, 2, 1}, {1, 2, 3, -2});
  const std::vector<Value> y =
      run_op({"tessera::BatchNormTraining", {x, Tensor::from<double>({2}, {1, 3}), kOnes}, {{"epsilon", 0.0f}}, 3});
  expect_equal(y[0], Tensor::from<double>({2, 2, 1}, {0, 4, 2, -2}));
  expect_equal(y[1], Tensor::from<double>({2}, {2, 0}));
  expect_equal(y[2], Tensor::from<double>({2}, {1, 4}));
}

TEST(BatchNormTraining, AddsAndKeepsWhatIsPositive) {
  const Tensor x = Tensor::from<double>({2, 2}, {1, 2, 3, -2}), addend = Tensor::from<double>({2, 2}, {5, -3, -5, 2});
  const std::vector<Value> y =
      run_op({"tessera::BatchNormTraining",
              {x, kOnes, kZeros, addend},
              {{"epsilon", 0.0f}, {"relu", std::int64_t{1}}, {"channel_axis", std::int64_t{-1}}},
              3});
  expect_equal(y[0], Tensor::from<double>({2, 2}, {4, 0, 0, 1}));
}

TEST(BatchNormTrainingGradient, MasksByTheResult) {
  const Tensor dy = Tensor::from<double>({2, 2}, {1, 2, 3, 4}), y = Tensor::from<double>({2, 2}, {1, 0, 0, 2});
  const Tensor x = Tensor::from<double>({2, 2}, {1, 2, 3, -2});
  const std::vector<Value> d =
      run_op({"tessera::BatchNormTrainingGradient",
              {dy, x, kOnes, Tensor::from<double>({2}, {2, 0}), Tensor::from<double>({2}, {1, 4}), y},
              {{"epsilon", 0.0f}, {"relu", std::int64_t{1}}},
              4});
  expect_equal(d[1], Tensor::from<double>({2}, {-1, -4}));
  expect_equal(d[2], Tensor::from<double>({2}, {1, 4}));
  expect_equal(d[3], Tensor::from<double>({2, 2}, {1, 0, 0, 4}));
  // With two elements a channel nothing is left of the gradient of the data.
  expect_equal(d[0], Tensor::from<double>({2, 2}, {0, 0, 0, 0}));
}

TEST(BatchNormTraining, KeepsSymbolicShape) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f16, ir::Dims{ir::Dim::symbol("batch"), 4, 3});
  const ir::ValueType channels = ir::ValueType::tensor(DType::f16, ir::Dims{4}),
                      wide = ir::ValueType::tensor(DType::f32, ir::Dims{4});
  const std::vector<ir::ValueType> types = infer_op("tessera::BatchNormTraining", {x, channels, channels}, {}, 3);
  EXPECT_EQ(types[0], x);
  EXPECT_EQ(types[1], wide);
  EXPECT_EQ(types[2], wide);
}

TEST(BatchNormTraining, RefusesWhatDoesNotFit) {
  const auto f32 = [](ir::Dims dims) { return ir::ValueType::tensor(DType::f32, std::move(dims)); };
  const auto refuses = [&](const std::string& message, const std::string& op, std::vector<ir::ValueType> inputs,
                           const ir::Attributes& attributes = {}) {
    expect_error(ErrorKind::invalid_model, message, [&] { infer_op(op, inputs, attributes, 3); });
  };
  const std::string forward = "tessera::BatchNormTraining", backward = "tessera::BatchNormTrainingGradient";
  refuses("input 'X' has rank 1, expected at least 2", forward, {f32({4}), f32({4}), f32({4})});
  refuses("input 'B' has shape [3], expected one value for each of 4 channels", forward,
          {f32({2, 4, 3}), f32({4}), f32({3})});
  refuses("input 'addend' has shape [4], expected that of 'X', [2, 4]", forward,
          {f32({2, 4}), f32({4}), f32({4}), f32({4})});
  refuses("with relu the result of the operator is needed", backward,
          {f32({2, 4}), f32({2, 4}), f32({4}), f32({4}), f32({4})}, {{"relu", std::int64_t{1}}});
}

}  // namespace
}  // namespace tessera::test::batch_norm_training_test
