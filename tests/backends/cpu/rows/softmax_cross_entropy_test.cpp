#include <gtest/gtest.h>

#include <cmath>

#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::softmax_cross_entropy_kernel_test {
namespace {

// Labels of each class, some of them ignored.
Tensor labels_of(const Shape& shape, std::int64_t classes, std::int64_t ignored) {
  Tensor labels(DType::i64, shape);
  for (std::int64_t i = 0; i < labels.elements(); ++i)
    labels.mutable_data<std::int64_t>()[i] = i % 7 == 3 ? ignored : i * 5 % classes;
  return labels;
}

Shape without(Shape shape, std::size_t axis) {
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return shape;
}

void expect_both(const Tensor& x, std::size_t axis, float smoothing) {
  const Shape rest = without(x.shape(), axis);
  const Tensor labels = labels_of(rest, x.shape()[axis], -7);
  const ir::Attributes attributes{
      {"axis", static_cast<std::int64_t>(axis)}, {"ignore_index", std::int64_t{-7}}, {"label_smoothing", smoothing}};
  const OpCall forward{"tessera::SoftmaxCrossEntropy", {x, labels}, attributes, 2};
  expect_matches_reference(forward, Tolerance::epsilons(DType::f32, 64));
  const Tensor log_sums = run_op(forward)[1].tensor();
  expect_matches_reference(
      {"tessera::SoftmaxCrossEntropyGradient", {random_tensor(DType::f32, rest, 9), x, labels, log_sums}, attributes},
      Tolerance::epsilons(DType::f32, 64));
}

TEST(CpuSoftmaxCrossEntropy, MatchesReferenceAlongEveryAxis) {
  for (const Shape& shape :
       {Shape{1}, Shape{70, 10}, Shape{5, 1000}, Shape{3, 2, 67}, Shape{2, 5, 3, 33}, Shape{9, 1, 4}, Shape{600, 3}}) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      for (const float smoothing : {0.0f, 0.1f})
        expect_both(random_tensor(DType::f32, shape, 1, -15, 15), axis, smoothing);
    }
  }
}

TEST(CpuSoftmaxCrossEntropy, KeepsLargeScoresApart) {
  const Tensor x = Tensor::from<float>({3, 3}, {1e4f, 1e4f + 1, 9e3f, -1e4f, 0, 3e38f, -INFINITY, 2, 1});
  for (const std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
    const OpCall forward{"tessera::SoftmaxCrossEntropy",
                         {x, Tensor::from<std::int64_t>({3}, {1, 2, 1})},
                         {{"axis", static_cast<std::int64_t>(axis)}},
                         2};
    expect_matches_reference(forward, Tolerance::epsilons(DType::f32, 8));
  }
}

TEST(CpuSoftmaxCrossEntropy, RefusesLabelsOutsideOfTheClasses) {
  const Tensor x = random_tensor(DType::f32, {2, 3, 4}, 1);
  for (const std::int64_t axis : {1, 2}) {
    Tensor labels(DType::i64, without(x.shape(), static_cast<std::size_t>(axis)));
    for (std::int64_t& label : labels.mutable_values<std::int64_t>()) label = 4;
    for (const char* device : {"cpu", "reference"}) {
      expect_error_containing(ErrorKind::failed, "label 4 is outside [0, ", [&] {
        run_op({"tessera::SoftmaxCrossEntropy", {x, labels}, {{"axis", axis}}, 2}, device);
      });
    }
  }
}

}  // namespace
}  // namespace tessera::test::softmax_cross_entropy_kernel_test
