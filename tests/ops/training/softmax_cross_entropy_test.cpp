#include "ops/training/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::softmax_cross_entropy_test {
namespace {

ir::ValueType f32(ir::Dims dims) {
  return ir::ValueType::tensor(DType::f32, std::move(dims));
}

TEST(SoftmaxCrossEntropy, IsTheLikelihoodOfTheLabel) {
  const double one = std::log(1.0), three = std::log(3.0);
  const Tensor x = Tensor::from<double>({3, 2}, {one, three, three, one, one, one});
  const Tensor labels = Tensor::from<std::int64_t>({3}, {1, 1, -100});
  const std::vector<Value> y = run_op({"tessera::SoftmaxCrossEntropy", {x, labels}, {}, 2});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<double>({3}, {std::log(4.0 / 3), std::log(4.0), 0}),
                       Tolerance::epsilons(DType::f64, 4)));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<double>({3}, {std::log(4.0), std::log(4.0), std::log(2.0)}),
                       Tolerance::epsilons(DType::f64, 4)));
  const Tensor dx =
      run_op_tensor({"tessera::SoftmaxCrossEntropyGradient", {Tensor::from<double>({3}, {2, 1, 1}), x, labels, y[1]}});
  EXPECT_TRUE(
      close_to(dx, Tensor::from<double>({3, 2}, {0.5, -0.5, 0.75, -0.75, 0, 0}), Tolerance::epsilons(DType::f64, 4)));
}

TEST(SoftmaxCrossEntropy, KeepsSymbolicShape) {
  const ir::ValueType labels = ir::ValueType::tensor(DType::i64, ir::Dims{ir::Dim::symbol("batch"), 7});
  const std::vector<ir::ValueType> types = infer_op(
      "tessera::SoftmaxCrossEntropy", {f32({ir::Dim::symbol("batch"), 5, 7}), labels}, {{"axis", std::int64_t{1}}}, 2);
  EXPECT_EQ(types[0], f32({ir::Dim::symbol("batch"), 7}));
}

TEST(SoftmaxCrossEntropy, RefusesWhatDoesNotFit) {
  const ir::ValueType labels = ir::ValueType::tensor(DType::i64, ir::Dims{3});
  expect_error(ErrorKind::invalid_model, "'labels' has shape [3], expected that of the scores without the classes, [2]",
               [&] { infer_op("tessera::SoftmaxCrossEntropy", {f32({2, 3}), labels}, {}, 2); });
  expect_error(ErrorKind::invalid_model, "label_smoothing is 1, expected a number in [0, 1)", [&] {
    infer_op("tessera::SoftmaxCrossEntropy", {f32({3, 2}), labels}, {{"label_smoothing", 1.0f}}, 2);
  });
}

}  // namespace
}  // namespace tessera::test::softmax_cross_entropy_test
