#include <gtest/gtest.h>

#include <cmath>

#include "ops/convolutions/channels_last.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::max_pool_gradient_kernel_test {
namespace {

using Integers = std::vector<std::int64_t>;

// The gradient for data in both layouts. Numbers of few values, so that windows have several largest elements.
void expect_gradient(const Shape& shape, const ir::Attributes& attributes) {
  Tensor x = random_tensor(DType::f32, shape, 1, -3, 3);
  for (float& element : x.mutable_values<float>()) element = std::round(element);
  const auto swapped = [](const Tensor& tensor) {
    return run_op_tensor({"Transpose", {tensor}, {{"perm", ops::to_channels_last(tensor.shape().size())}}});
  };
  const Tensor y = run_op_tensor({"MaxPool", {x}, attributes}), dy = random_tensor(DType::f32, y.shape(), 2);
  const OpCall first{"tessera::MaxPoolGradient", {dy, x, y}, attributes};
  expect_matches_reference(first, Tolerance::epsilons(DType::f32, 4));
  OpCall last{first.op, {swapped(dy), swapped(x), swapped(y)}, attributes};
  last.attributes["channel_axis"] = std::int64_t{-1};
  expect_matches_reference(last, Tolerance::epsilons(DType::f32, 4));
  EXPECT_TRUE(identical(run_op_tensor(last), swapped(run_op_tensor(first))));
}

TEST(CpuMaxPoolGradient, MatchesReference) {
  const auto square = [](std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
    return ir::Attributes{{"kernel_shape", Integers{kernel, kernel}},
                          {"strides", Integers{stride, stride}},
                          {"pads", Integers{pad, pad, pad, pad}}};
  };
  expect_gradient({2, 3, 9, 8}, square(3, 2, 1));
  expect_gradient({2, 67, 8, 8}, square(2, 2, 0));
  expect_gradient({1, 130, 7, 5}, square(3, 1, 1));
  expect_gradient({3, 16, 6, 6}, square(2, 3, 0));
  expect_gradient({2, 5, 11},
                  {{"kernel_shape", Integers{4}}, {"dilations", Integers{2}}, {"ceil_mode", std::int64_t{1}}});
  expect_gradient({1, 4, 5, 6, 7}, {{"kernel_shape", Integers{2, 3, 2}}, {"strides", Integers{2, 1, 2}}});
  expect_gradient({0, 4, 5, 6}, square(2, 2, 0));
}

TEST(CpuMaxPoolGradient, AddsUpWhatSeveralWindowsTook) {
  const Tensor x = Tensor::from<float>({1, 1, 1, 3}, {1, 5, 5}), y = Tensor::from<float>({1, 1, 1, 2}, {5, 5}),
               dy = Tensor::from<float>({1, 1, 1, 2}, {2, 3});
  for (const std::int64_t axis : {1, 3}) {
    const auto shaped = [&](const Tensor& tensor) {
      return axis == 1 ? tensor : tensor.reshaped({1, 1, tensor.elements(), 1});
    };
    const OpCall call{"tessera::MaxPoolGradient",
                      {shaped(dy), shaped(x), shaped(y)},
                      {{"kernel_shape", Integers{1, 2}}, {"channel_axis", axis}}};
    for (const char* device : {"cpu", "reference"})
      EXPECT_TRUE(identical(run_op_tensor(call, device), shaped(Tensor::from<float>({1, 1, 1, 3}, {0, 5, 0}))));
  }
}

}  // namespace
}  // namespace tessera::test::max_pool_gradient_kernel_test
