#include <gtest/gtest.h>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::conv_test {
namespace {

using Integers = std::vector<std::int64_t>;

Tensor ones(Shape shape) {
  Tensor tensor(DType::f32, std::move(shape));
  std::fill_n(tensor.mutable_data<float>(), tensor.elements(), 1.0f);
  return tensor;
}

Tensor counting(Shape shape) {
  Tensor tensor(DType::f32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.mutable_data<float>()[i] = static_cast<float>(i);
  return tensor;
}

std::string error_of(const OpCall& call) {
  try {
    run_op(call);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

// Values of the ONNX documentation's example.
TEST(Conv, SumsNeighboursWithPadding) {
  const Tensor expected = Tensor::from<float>(
      {1, 1, 5, 5},
      {12, 21, 27, 33, 24, 33, 54, 63, 72, 51, 63, 99, 108, 117, 81, 93, 144, 153, 162, 111, 72, 111, 117, 123, 84});
  const Tensor y =
      run_op_tensor({"Conv", {counting({1, 1, 5, 5}), ones({1, 1, 3, 3})}, {{"pads", Integers{1, 1, 1, 1}}}});
  EXPECT_TRUE(close_to(y, expected));
}

TEST(Conv, StridesAndAsymmetricPadding) {
  const Tensor expected = Tensor::from<float>({1, 1, 4, 2}, {21, 33, 99, 117, 189, 207, 171, 183});
  const Tensor y = run_op_tensor({"Conv",
                                  {counting({1, 1, 7, 5}), ones({1, 1, 3, 3})},
                                  {{"pads", Integers{1, 0, 1, 0}}, {"strides", Integers{2, 2}}}});
  EXPECT_TRUE(close_to(y, expected));
}

TEST(Conv, AutoPadSameLowerPutsTheOddOneFirst) {
  const Tensor expected = Tensor::from<float>({1, 1, 4}, {0, 1, 3, 5});
  const Tensor y =
      run_op_tensor({"Conv", {counting({1, 1, 4}), ones({1, 1, 2})}, {{"auto_pad", std::string("SAME_LOWER")}}});
  EXPECT_TRUE(close_to(y, expected));
}

TEST(Conv, GroupsBiasAndDilation) {
  const Tensor x = Tensor::from<float>({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor w = Tensor::from<float>({2, 1, 2}, {1, 10, 2, 20});
  const Tensor bias = Tensor::from<float>({2}, {100, 200});
  const Tensor y = run_op_tensor({"Conv", {x, w, bias}, {{"group", std::int64_t{2}}, {"dilations", Integers{2}}}});
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 2, 2}, {131, 142, 350, 372})));
}

TEST(Conv, SameBitsForAnyNumberOfThreads) {
  const OpCall call{"Conv", {counting({2, 3, 9, 9}), counting({4, 3, 3, 3})}};
  EXPECT_TRUE(identical(run_op_tensor(call), run_op_tensor(call, "reference", 3)));
}

TEST(Conv, KeepsSymbolicBatchAndPreservedSizes) {
  const ir::Dim batch = ir::Dim::symbol("batch"), height = ir::Dim::symbol("height");
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{batch, 3, height, 224});
  const ir::ValueType w = ir::ValueType::tensor(DType::f32, Shape{64, 3, 7, 7});
  EXPECT_EQ(infer_op("Conv", {x, w}, {{"pads", Integers{3, 3, 3, 3}}})[0],
            ir::ValueType::tensor(DType::f32, ir::Dims{batch, 64, height, 224}));
  EXPECT_EQ(infer_op("Conv", {x, w}, {{"pads", Integers{3, 3, 3, 3}}, {"strides", Integers{2, 2}}})[0],
            ir::ValueType::tensor(DType::f32, ir::Dims{batch, 64, ir::Dim(), 112}));
}

TEST(Conv, RefusesWhatDoesNotFit) {
  const Tensor x = ones({1, 2, 4, 4}), w = ones({2, 2, 3, 3});
  EXPECT_EQ(error_of({"Conv", {x, ones({2, 3, 3, 3})}}),
            "2 input channels in 1 groups do not fit weights for 3 channels a group");
  EXPECT_EQ(error_of({"Conv", {x, w}, {{"strides", Integers{0, 1}}}}),
            "attribute 'strides' has the entry 0, expected at least 1");
  EXPECT_EQ(error_of({"Conv", {x, w}, {{"pads", Integers{1, 1}}}}), "attribute 'pads' has 2 entries, expected 4");
  EXPECT_EQ(error_of({"Conv", {x, w}, {{"group", std::int64_t{0}}}}), "group is 0, expected at least 1");
  EXPECT_EQ(error_of({"Conv", {x, w}, {{"dilations", Integers{4, 1}}}}),
            "a window of 9 positions (kernel 3, dilation 4) is larger than the padded input of 4 at spatial axis 0");
  EXPECT_EQ(error_of({"Conv", {x, w}, {{"dilations", Integers{INT64_MAX, 1}}}}),
            "size overflow: 2 x 9223372036854775807");
  EXPECT_EQ(error_of({"Conv", {x, w, ones({3})}}), "the bias has shape [3], expected [2]");
  EXPECT_EQ(error_of({"Conv", {x, w}, {{"kernel_shape", Integers{3, 2}}}}),
            "kernel_shape is [3, 2], but the weights have [3, 3]");
  EXPECT_EQ(error_of({"Conv", {x, ones({2, 2, 0, 3})}}), "the weights have a kernel of size 0");
}

TEST(ConvTranspose, SpreadsInputs) {
  const Tensor x = counting({1, 1, 3, 3}), w = ones({1, 2, 3, 3});
  const Tensor y = run_op_tensor({"ConvTranspose", {x, w}});
  const std::vector<float> channel{0,  1,  3, 3,  2,  3,  8,  15, 12, 7,  9,  21, 36,
                                   27, 15, 9, 20, 33, 24, 13, 6,  13, 21, 15, 8};
  std::vector<float> both = channel;
  both.insert(both.end(), channel.begin(), channel.end());
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 2, 5, 5}, std::span<const float>(both))));
}

TEST(ConvTranspose, OutputShapeSetsPadding) {
  const Tensor x = Tensor::from<float>({1, 1, 2}, {1, 2}), w = ones({1, 1, 3});
  const Tensor y = run_op_tensor({"ConvTranspose", {x, w}, {{"strides", Integers{2}}, {"output_shape", Integers{4}}}});
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 1, 4}, {1, 3, 2, 2})));
  const Tensor upper =
      run_op_tensor({"ConvTranspose", {x, w}, {{"strides", Integers{2}}, {"auto_pad", std::string("SAME_UPPER")}}});
  EXPECT_TRUE(close_to(upper, Tensor::from<float>({1, 1, 4}, {1, 1, 3, 2})));
}

TEST(ConvTranspose, RefusesPaddingThatEatsTheOutput) {
  EXPECT_EQ(error_of({"ConvTranspose", {ones({1, 1, 2}), ones({1, 1, 2})}, {{"pads", Integers{2, 2}}}}),
            "padding of 2 + 2 leaves no output at spatial axis 0 (windows cover 3)");
}

TEST(ConvInteger, PaddingIsTheZeroPoint) {
  const Tensor x = Tensor::from<std::uint8_t>({1, 1, 3}, {2, 3, 4}),
               w = Tensor::from<std::uint8_t>({1, 1, 3}, {1, 1, 1});
  const Tensor y = run_op_tensor({"ConvInteger", {x, w, Tensor::scalar<std::uint8_t>(1)}, {{"pads", Integers{1, 1}}}});
  EXPECT_TRUE(close_to(y, Tensor::from<std::int32_t>({1, 1, 3}, {3, 6, 5})));
}

TEST(QLinearConv, RoundsToEvenAndSaturates) {
  const Tensor x = Tensor::from<std::uint8_t>({1, 1, 4}, {5, 7, 255, 0}), w = Tensor::from<std::int8_t>({1, 1, 1}, {1});
  const auto scale = [](float value) { return Tensor::scalar(value); };
  const Tensor y =
      run_op_tensor({"QLinearConv",
                     {x, scale(1), Tensor::scalar<std::uint8_t>(0), w, scale(0.5f), Tensor::scalar<std::int8_t>(0),
                      scale(1), Tensor::scalar<std::int8_t>(1), Tensor::from<std::int32_t>({1}, {0})}});
  EXPECT_TRUE(close_to(y, Tensor::from<std::int8_t>({1, 1, 4}, {3, 5, 127, 1})));
}

TEST(CausalConvWithState, CarriesThePast) {
  const Tensor w = Tensor::from<float>({1, 1, 3}, {100, 10, 1});
  const std::vector<Value> first = run_op({"CausalConvWithState", {Tensor::from<float>({1, 1, 2}, {1, 2}), w}, {}, 2});
  EXPECT_TRUE(close_to(first[0].tensor(), Tensor::from<float>({1, 1, 2}, {1, 12})));
  EXPECT_TRUE(close_to(first[1].tensor(), Tensor::from<float>({1, 1, 2}, {1, 2})));
  const std::vector<Value> next =
      run_op({"CausalConvWithState", {Tensor::from<float>({1, 1, 1}, {3}), w, Value(), first[1]}, {}, 2});
  EXPECT_TRUE(close_to(next[0].tensor(), Tensor::from<float>({1, 1, 1}, {123})));
  EXPECT_TRUE(close_to(next[1].tensor(), Tensor::from<float>({1, 1, 2}, {2, 3})));
}

TEST(DeformConv, SamplesBetweenPixels) {
  const Tensor x = counting({1, 1, 3, 3}), w = ones({1, 1, 2, 2});
  Tensor offset(DType::f32, {1, 8, 2, 2});
  std::fill_n(offset.mutable_data<float>(), 32, 0.0f);
  offset.mutable_data<float>()[0] = 0.5f;  // half a row down for the first tap of the first window
  const Tensor y = run_op_tensor({"DeformConv", {x, w, offset}, {{"kernel_shape", Integers{2, 2}}}});
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 1, 2, 2}, {9.5f, 12, 20, 24})));
}

}  // namespace
}  // namespace tessera::test::conv_test
