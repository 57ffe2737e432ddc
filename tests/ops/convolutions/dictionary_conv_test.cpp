#include "ops/convolutions/dictionary_conv.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::dictionary_conv_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kConv = "tessera::DictionaryConv";

Tensor random_indices(const Shape& shape, std::int64_t vectors) {
  return random_tensor(DType::i64, shape, 7, 0, static_cast<double>(vectors - 1));
}

// The kernels that dictionary, indices and coefficients stand for: [M, C, kernel...].
Tensor dense_kernels(const Tensor& dictionary, const Tensor& indices, const Tensor& coefficients) {
  Shape shape = coefficients.shape();
  const std::int64_t outputs = shape[0], terms = shape[1], channels = dictionary.shape()[1];
  const std::int64_t taps = coefficients.elements() / (outputs * terms);
  shape[1] = channels;
  std::vector<float> kernels(static_cast<std::size_t>(outputs * channels * taps), 0.0f);
  for (std::int64_t i = 0; i < coefficients.elements(); ++i) {
    const std::int64_t tap = i % taps, output = i / taps / terms;
    const auto at = static_cast<std::size_t>(i);
    const float* vector = dictionary.data<float>() + indices.values<std::int64_t>()[at] * channels;
    for (std::int64_t c = 0; c < channels; ++c)
      kernels[static_cast<std::size_t>((output * channels + c) * taps + tap)] +=
          coefficients.values<float>()[at] * vector[c];
  }
  return Tensor::from<float>(shape, std::span<const float>(kernels));
}

TEST(DictionaryConv, IsTheConvolutionWithTheKernelsThatItStandsFor) {
  const Tensor x = random_tensor(DType::f32, {2, 5, 7, 6}, 1, -1, 1), d = random_tensor(DType::f32, {4, 5}, 2, -1, 1);
  const Tensor w = random_tensor(DType::f32, {6, 3, 3, 2}, 3, -1, 1), b = random_tensor(DType::f32, {6}, 4, -1, 1);
  const Tensor i = random_indices(w.shape(), 4);
  const ir::Attributes window{{"strides", std::vector<std::int64_t>{2, 1}},
                              {"dilations", std::vector<std::int64_t>{1, 2}},
                              {"pads", std::vector<std::int64_t>{1, 0, 2, 1}}};
  EXPECT_TRUE(close_to(run_op_tensor({kConv, {x, d, i, w, b}, window}),
                       run_op_tensor({"Conv", {x, dense_kernels(d, i, w), b}, window}),
                       Tolerance::epsilons(DType::f32, 64)));
}

TEST(DictionaryConv, AddsThenActivates) {
  // The response of the only vector is 2 x[0] - x[1] = [0, 5]; the kernel is 3 of it, then -1 of it at the next place.
  const Tensor x = Tensor::from<float>({1, 2, 2}, {1, 2, 2, -1}), d = Tensor::from<float>({1, 2}, {2, -1});
  const Tensor i = Tensor::from<std::int32_t>({1, 1, 2}, {0, 0}), w = Tensor::from<float>({1, 1, 2}, {3, -1});
  const Tensor b = Tensor::from<float>({1}, {1}), z = Tensor::from<float>({1, 1, 1}, {2});
  EXPECT_TRUE(close_to(run_op_tensor({kConv, {x, d, i, w}}), Tensor::from<float>({1, 1, 1}, {-5})));
  EXPECT_TRUE(close_to(run_op_tensor({kConv, {x, d, i, w, b, z}}), Tensor::from<float>({1, 1, 1}, {-2})));
  EXPECT_TRUE(close_to(run_op_tensor({kConv, {x, d, i, w, b, z}, {{"activation", std::string("Relu")}}}),
                       Tensor::from<float>({1, 1, 1}, {0})));
}

TEST(DictionaryConv, KeepsSymbolicShape) {
  const Dim batch = Dim::symbol("batch"), width = Dim::symbol("width");
  const ValueType x = ValueType::tensor(DType::f32, Dims{batch, 4, width}),
                  d = ValueType::tensor(DType::f32, Shape{3, 4}), i = ValueType::tensor(DType::i64, Shape{6, 2, 1}),
                  w = ValueType::tensor(DType::f32, Shape{6, 2, 1});
  EXPECT_EQ(infer_op(kConv, {x, d, i, w})[0], ValueType::tensor(DType::f32, Dims{batch, 6, width}));
}

TEST(DictionaryConv, CountsLookupsThatAreNotZero) {
  EXPECT_EQ(ops::count_lookups(std::vector<float>{0, 1, -0.0f, 2}), 2);
}

TEST(DictionaryConv, RefusesWhatDoesNotFit) {
  const auto f32 = [](const Shape& shape) { return ValueType::tensor(DType::f32, shape); };
  const ValueType x = f32({1, 4, 5}), d = f32({3, 4}), w = f32({6, 2, 1}),
                  i = ValueType::tensor(DType::i64, Shape{6, 2, 1});
  const auto refuses = [&](const std::string& message, const std::vector<ValueType>& inputs,
                           const std::vector<Tensor>& constants = {}) {
    expect_error(ErrorKind::invalid_model, message, [&] { infer_op(kConv, inputs, {}, 1, constants); });
  };
  refuses("'D' has shape [3], expected [vectors, channels]", {x, f32({3}), i, w});
  refuses("'X' has 4 channels, the vectors of 'D' have 5", {x, f32({3, 5}), i, w});
  refuses("'I' has shape [6, 2, 1], expected that of 'W' [6, 1, 1]", {x, d, i, f32({6, 1, 1})});
  refuses("'W' has shape [6, 2], expected [M, terms, kernel...]", {x, d, i, f32({6, 2})});
  refuses("the bias has shape [5], expected [6]", {x, d, i, w, f32({5})});
  refuses("input 'Z' has shape [1, 6, 4], expected that of the result [1, 6, 5]",
          {x, d, i, w, f32({6}), f32({1, 6, 4})});
  refuses("'I' names vector 3 of a dictionary of 3",
          {x, d, ValueType::tensor(DType::i64, Shape{1, 2, 1}), f32({1, 2, 1})},
          {Tensor(), Tensor(), Tensor::from<std::int64_t>({1, 2, 1}, {0, 3})});
}

}  // namespace
}  // namespace tessera::test::dictionary_conv_test
