// Layers of bytes against the reference, which dequantises, computes in float32 and quantises: a number on the edge
// between two steps may fall to either side.
// Length: all layers share the makers of quantised operands and the bound of a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "backends/cpu/machine/large_operands.h"
#include "backends/cpu/machine/simd.h"
#include "base/numbers/half.h"
#include "ops/convolutions/channels_last.h"
#include "ops/quantised/quantised_layers.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::window_product_s8_test {
namespace {

using Integers = std::vector<std::int64_t>;

Tensor bytes(DType type, Shape shape, std::uint64_t seed) {
  return test::random_tensor(type, std::move(shape), seed, type == DType::u8 ? 0 : -128, type == DType::u8 ? 255 : 127);
}
Tensor zero_point(DType type, int value) {
  return type == DType::u8 ? Tensor::scalar(static_cast<std::uint8_t>(value))
                           : Tensor::scalar(static_cast<std::int8_t>(value));
}

int element(const Tensor& tensor, std::int64_t i) {
  return tensor.dtype() == DType::u8 ? tensor.data<std::uint8_t>()[i] : tensor.data<std::int8_t>()[i];
}

// All elements within a step of each other, and nearly all equal.
void expect_same_steps(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.shape(), expected.shape());
  std::int64_t parted = 0;
  for (std::int64_t i = 0; i < expected.elements(); ++i) {
    const int distance = std::abs(element(actual, i) - element(expected, i));
    ASSERT_LE(distance, 1) << "element " << i;
    parted += distance;
  }
  EXPECT_LE(parted, 1 + expected.elements() / 50);
}

void check(const test::OpCall& call, std::string_view kernel) {
  EXPECT_EQ(test::chosen_cpu_kernel(call), kernel);
  const Tensor expected = test::run_op_tensor(call, "reference");
  for (const Extensions extensions : kAllExtensions) {
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const ScopedIsa scoped(isa, extensions);
      const Tensor one = test::run_op_tensor(call, "cpu", 1);
      if (expected.dtype() == DType::f32)
        EXPECT_TRUE(test::close_to(one, expected, test::Tolerance::epsilons(DType::f32, 256)))
            << "isa " << static_cast<int>(isa);
      else expect_same_steps(one, expected);
      for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), one));
    }
  }
}

enum class To { real, u8, i8 };

struct Case {
  Shape x, w;  // with the channels first, as in ONNX
  ir::Attributes attributes = {};
  To to = To::u8;
  bool bias = true, by_channel = true;
  DType data = DType::u8;
  bool addend = false;
  double weights = 127;  // none is larger
};

// Operands behind data and weights: scales that spread results over about the range of a byte.
void add_operands(test::OpCall& call, std::int64_t outputs, double terms, const Case& c) {
  const auto y_scale = static_cast<float>(0.02 * 0.01 * std::sqrt(terms) * 5400 / 64);
  if (c.bias) call.inputs.emplace_back(test::random_tensor(DType::f32, {outputs}, 3, -8.0 * y_scale, 8.0 * y_scale));
  else call.inputs.emplace_back();
  call.inputs.emplace_back(Tensor::scalar(0.02f));
  call.inputs.emplace_back(zero_point(c.data, c.data == DType::u8 ? 119 : -9));
  call.inputs.emplace_back(c.by_channel ? test::random_tensor(DType::f32, {outputs}, 4, 0.005, 0.015)
                                        : Tensor::scalar(0.01f));
  if (c.to == To::real) return;
  call.inputs.emplace_back(Tensor::scalar(y_scale));
  call.inputs.emplace_back(c.to == To::u8 ? zero_point(DType::u8, 131) : zero_point(DType::i8, -3));
}

// A tensor of the result's shape behind the other operands.
void add_sum(test::OpCall& call) {
  const float scale = *call.inputs[ops::QuantisedLayerInputs::result_scale].tensor().data<float>();
  const Shape shape = test::run_op_tensor(call, "reference").shape();
  call.inputs.emplace_back(bytes(DType::u8, shape, 5));
  call.inputs.emplace_back(Tensor::scalar(0.7f * scale));
  call.inputs.emplace_back(zero_point(DType::u8, 140));
  call.inputs.emplace_back(Tensor::scalar(1.1f * scale));
  call.inputs.emplace_back(zero_point(DType::u8, 77));
}

void check_conv(const Case& c, std::string_view kernel = "cpu_quantised_conv") {
  SCOPED_TRACE(to_string(c.x) + " * " + to_string(c.w));
  test::OpCall call{
      "tessera::QuantisedConv",
      {bytes(c.data, ops::channels_last(c.x), 1), test::random_tensor(DType::i8, c.w, 2, -c.weights - 1, c.weights)},
      c.attributes};
  add_operands(call, c.w[0], static_cast<double>(element_count(c.w)) / static_cast<double>(c.w[0]), c);
  if (c.addend) add_sum(call);
  check(call, kernel);
}

ir::Attributes pads(std::int64_t n) {
  return {{"pads", Integers{n, n, n, n}}};
}

TEST(CpuQuantisedConv, Pointwise) {
  check_conv({{2, 8, 5, 9}, {13, 8, 1, 1}});
  check_conv({{1, 40, 30}, {70, 40, 1}, {}, To::i8, false});
  check_conv({{1, 33, 4, 4}, {16, 33, 1, 1}, {{"strides", Integers{2, 2}}}, To::real});
  check_conv({{1, 3, 6, 6}, {17, 3, 1, 1}, {}, To::u8, true, false});
}

TEST(CpuQuantisedConv, WindowsOfEveryRank) {
  check_conv({{2, 3, 50}, {5, 3, 4}, {{"pads", Integers{2, 1}}}});
  check_conv({{1, 3, 13, 37}, {16, 3, 3, 3}, pads(1)});
  check_conv({{2, 36, 7, 7}, {33, 36, 3, 3}, pads(1), To::real, false, false});
  check_conv({{1, 2, 5, 6, 7}, {3, 2, 3, 2, 3}, {{"pads", Integers{1, 0, 2, 0, 1, 1}}}, To::i8});
}

// As CpuBf16Conv.LinesAndSegmentsByTiles.
TEST(CpuQuantisedConv, LinesAndSegmentsByTiles) {
  check_conv({{2, 64, 5, 28}, {33, 64, 3, 3}, {{"pads", Integers{1, 2, 1, 2}}, {"dilations", Integers{1, 2}}}});
  check_conv({{1, 40, 6, 32}, {16, 40, 5, 3}, {{"pads", Integers{1, 2, 1, 0}}, {"strides", Integers{2, 2}}}, To::i8});
  check_conv({.x = {1, 48, 6, 32}, .w = {16, 48, 3, 3}, .attributes = pads(1), .addend = true});
  check_conv({{2, 80, 7, 27}, {20, 80, 2, 2}, {}, To::real});
  check_conv(
      {.x = {1, 68, 4, 20}, .w = {50, 68, 1, 3}, .attributes = {{"pads", Integers{0, 1, 0, 1}}}, .data = DType::i8});
  check_conv({{1, 144, 3, 16}, {64, 144, 1, 1}});
  check_conv({{2, 32, 3, 4, 9}, {5, 32, 3, 3, 3}, {{"pads", Integers{1, 1, 1, 1, 1, 1}}}});
  check_conv({{1, 192, 6, 14},
              {34, 96, 3, 3},
              {{"group", std::int64_t{2}}, {"pads", Integers{1, 1, 1, 1}}, {"strides", Integers{1, 2}}}});
}

TEST(CpuQuantisedConv, StridesDilationsAndWidePads) {
  check_conv({{1, 3, 15, 41}, {8, 3, 3, 3}, {{"strides", Integers{2, 2}}, {"pads", Integers{0, 1, 1, 0}}}});
  check_conv({{1, 5, 20, 41},
              {8, 5, 3, 5},
              {{"strides", Integers{1, 3}}, {"dilations", Integers{2, 3}}, {"pads", Integers{2, 6, 3, 5}}}});
  check_conv({{1, 2, 3, 2}, {3, 2, 7, 9}, {{"pads", Integers{5, 9, 4, 8}}}});
  constexpr std::int64_t kFar = std::int64_t{1} << 40;  // lines that no memory holds with their padding
  check_conv(
      {{1, 40, 40, 2}, {3, 40, 7, 9}, {{"pads", Integers{5, kFar, 4, kFar}}, {"strides", Integers{1, kFar / 2}}}});
  check_conv({{1, 3, 40, 0}, {8, 3, 1, 1}, {{"pads", Integers{0, 2, 0, 2}}}});  // nothing but padding
}

// They are multiplied otherwise where instructions saturate.
TEST(CpuQuantisedConv, WeightsOfSevenBits) {
  check_conv({.x = {2, 36, 7, 7}, .w = {33, 36, 3, 3}, .attributes = pads(1), .weights = 63});
  check_conv({.x = {1, 64, 13, 5}, .w = {64, 64, 1, 1}, .to = To::real, .weights = 63});
  check_conv({.x = {1, 41, 30}, .w = {70, 41, 1}, .addend = true, .weights = 63});
  check_conv({.x = {1, 41, 30}, .w = {41, 41, 1}, .to = To::i8, .weights = 63});
}

TEST(CpuQuantisedConv, GroupsAndManyTiles) {
  check_conv({{1, 8, 11, 11}, {18, 4, 5, 3}, {{"group", std::int64_t{2}}, {"auto_pad", std::string("SAME_UPPER")}}});
  check_conv({{2, 6, 4, 4}, {27, 2, 1, 1}, {{"group", std::int64_t{3}}}, To::i8});
  check_conv({{1, 96, 20, 20}, {130, 96, 3, 3}, {{"strides", Integers{2, 1}}}});
  check_conv({{1, 40, 15, 13}, {70, 40, 3, 3}, pads(1)});
  check_conv({{1, 132, 9, 26}, {40, 132, 3, 3}, {{"strides", Integers{1, 2}}, {"pads", Integers{1, 1, 1, 1}}}});
  // Many rows under weights that are more than the data, but stay in the second-level cache: chunks are rows.
  check_conv({{1, 16, 28, 28}, {96, 16, 3, 3}, pads(1)});
  check_conv({{1, 130, 28, 28}, {70, 130, 3, 3}, pads(1)});
}

TEST(CpuQuantisedConv, ActivationsBoundTheResult) {
  ir::Attributes relu = pads(1);
  relu.emplace("activation", std::string("Relu"));
  check_conv({{1, 16, 7, 7}, {20, 16, 3, 3}, relu});
  check_conv({{1, 16, 7, 7}, {20, 16, 3, 3}, relu, To::i8});
  ir::Attributes clip = pads(1);
  clip.emplace("activation", std::string("Clip"));
  clip.emplace("activation_params", std::vector<float>{-0.25f, 1.5f});
  check_conv({{1, 16, 7, 7}, {20, 16, 3, 3}, clip});
  ir::Attributes swish = pads(1);
  swish.emplace("activation", std::string("Swish"));
  swish.emplace("activation_params", std::vector<float>{1.0f});
  check_conv({{1, 16, 7, 7}, {20, 16, 3, 3}, swish, To::real});
}

// What happens to the result of the layer before: a sum with another quantised tensor, some of which reaches the ends
// of a byte.
TEST(CpuQuantisedConv, SumsWithAnotherTensor) {
  check_conv({.x = {2, 8, 5, 9}, .w = {13, 8, 1, 1}, .addend = true});
  check_conv({.x = {1, 64, 7, 7}, .w = {96, 64, 1, 1}, .by_channel = false, .addend = true});
  check_conv(
      {.x = {1, 6, 9, 9}, .w = {34, 6, 3, 3}, .attributes = pads(1), .bias = false, .data = DType::i8, .addend = true});
  check_conv({.x = {2, 6, 4, 4}, .w = {27, 2, 1, 1}, .attributes = {{"group", std::int64_t{3}}}, .addend = true});
  ir::Attributes relu = pads(1);
  relu.emplace("activation", std::string("Relu"));
  check_conv({.x = {1, 16, 7, 7}, .w = {20, 16, 3, 3}, .attributes = relu, .addend = true});
}

TEST(CpuQuantisedConv, SignedData) {
  check_conv({.x = {1, 7, 9, 9}, .w = {20, 7, 3, 3}, .attributes = pads(1), .data = DType::i8});
  check_conv({.x = {2, 6, 4, 4},
              .w = {27, 2, 1, 1},
              .attributes = {{"group", std::int64_t{3}}},
              .to = To::i8,
              .data = DType::i8});
}

TEST(CpuQuantisedConv, Depthwise) {
  const auto group = [](std::int64_t channels, ir::Attributes attributes) {
    attributes.emplace("group", channels);
    return attributes;
  };
  constexpr std::string_view kernel = "cpu_quantised_depthwise";
  check_conv({{2, 96, 9, 13}, {96, 1, 3, 3}, group(96, pads(1))}, kernel);
  check_conv({{1, 64, 9, 13}, {64, 1, 5, 5}, group(64, {{"strides", Integers{2, 2}}, {"pads", Integers{2, 1, 2, 2}}})},
             kernel);
  check_conv({{1, 5, 20, 21}, {5, 1, 3, 2}, group(5, {{"dilations", Integers{2, 3}}}), To::u8, false}, kernel);
  check_conv({{1, 70, 3, 2}, {70, 1, 7, 9}, group(70, {{"pads", Integers{5, 9, 4, 8}}})}, kernel);
  ir::Attributes relu = group(17, pads(1));
  relu.emplace("activation", std::string("Relu"));
  check_conv({{1, 17, 6, 6}, {17, 1, 3, 3}, relu}, kernel);
  // Three columns wide, side by side or one apart: a column is read once for all windows.
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t channels : {7, 64, 130}) {
      check_conv({{2, channels, 8, 11},
                  {channels, 1, 3, 3},
                  group(channels, {{"strides", Integers{stride, stride}}, {"pads", Integers{1, 1, 1, 1}}})},
                 kernel);
      check_conv({{1, channels, 6, 12}, {channels, 1, 4, 3}, group(channels, {{"strides", Integers{1, stride}}})},
                 kernel);
      check_conv({{1, channels, 2, 1},
                  {channels, 1, 2, 3},
                  group(channels, {{"strides", Integers{1, stride}}, {"pads", Integers{0, 4, 1, 5}}})},
                 kernel);
    }
  }
  ir::Attributes clip = group(70, pads(1));
  clip.emplace("activation", std::string("Clip"));
  clip.emplace("activation_params", std::vector<float>{-0.02f, 0.03f});
  check_conv({{1, 70, 6, 6}, {70, 1, 3, 3}, clip}, kernel);
}

TEST(CpuQuantisedConv, WindowsOfManyLinesNeedNoWorkingMemoryOfTheirSize) {
  test::OpCall call{
      "tessera::QuantisedConv",
      {bytes(DType::u8, {1, 8, 3000, 1}, 1), bytes(DType::i8, {1, 1, 60000, 1}, 2), Value(), Tensor::scalar(0.02f),
       Value(), Tensor::scalar(0.01f), Tensor::scalar(1.0f), zero_point(DType::u8, 3)},
      {{"group", std::int64_t{1}}, {"pads", Integers{30000, 0, 29992, 0}}}};
  EXPECT_EQ(test::chosen_cpu_kernel(call), "cpu_quantised_conv");
}

void check_linear(const Shape& x, std::int64_t outputs, const Case& c) {
  SCOPED_TRACE(to_string(x));
  test::OpCall call{
      "tessera::QuantisedLinear", {bytes(c.data, x, 1), bytes(DType::i8, {x.back(), outputs}, 2)}, c.attributes};
  add_operands(call, outputs, static_cast<double>(x.back()), c);
  if (c.addend) add_sum(call);
  check(call, "cpu_quantised_linear");
}

TEST(CpuQuantisedLinear, RowsAndColumns) {
  check_linear({1, 64}, 10, {});
  check_linear({13, 7}, 35, {.to = To::real});
  check_linear({2, 3, 130}, 65, {.to = To::i8, .bias = false});
  check_linear({2, 21, 40}, 50, {.addend = true});
  check_linear({2, 50, 256}, 96,
               {.attributes = {{"activation", std::string("Gelu")}}, .to = To::real, .by_channel = false});
}

TEST(CpuQuantisedLinear, RowsThatWouldShareSetsOfTheCache) {
  check_linear({14, 4096}, 300, {.to = To::real});
  check_linear({14, 4096}, 20, {.data = DType::i8});
  check_conv({{1, 4096, 4, 5}, {260, 4096, 1, 1}});
}

TEST(CpuQuantisedLinear, DeepProductsInParts) {
  const ScopedLargeOperands small(0);
  check_linear({400, 2103}, 47, {});
  check_linear({400, 2112}, 47, {});  // whole steps of tile registers
  check_linear({800, 2100}, 20, {.attributes = {{"activation", std::string("Gelu")}}, .to = To::real});
  check_conv({{1, 230, 20, 20}, {33, 230, 3, 3}, pads(1), To::i8});
  check_conv({.x = {1, 230, 20, 20}, .w = {17, 230, 3, 3}, .attributes = pads(1), .addend = true});
  check_conv({{1, 480, 22, 22}, {34, 240, 3, 3}, {{"group", std::int64_t{2}}}});
  check_conv({{1, 100, 20, 20}, {33, 100, 5, 5}, pads(2)});                              // segments are lines
  check_conv({{1, 124, 1, 420}, {33, 124, 1, 31}, {{"pads", Integers{0, 15, 0, 15}}}});  // and one is all of the depth
}

TEST(CpuQuantisedLinear, ExtremesStayExact) {
  const Tensor x = Tensor::from<std::uint8_t>({3, 260}, std::vector<std::uint8_t>(780, 255));
  const Tensor w = Tensor::from<std::int8_t>({260, 20}, std::vector<std::int8_t>(5200, -128));
  const Tensor one = Tensor::scalar(1.0f);
  check({"tessera::QuantisedLinear", {x, w, Value(), one, zero_point(DType::u8, 0), one}}, "cpu_quantised_linear");
}

// A NaN among the scales: as the reference says, every quantised number is then the same.
TEST(CpuQuantisedLinear, ResultsOfNaNScalesAreTheSameForEveryInstructionSet) {
  const Tensor nan = Tensor::scalar(std::nanf(""));
  const test::OpCall call{"tessera::QuantisedLinear",
                          {bytes(DType::u8, {14, 8}, 1), bytes(DType::i8, {8, 33}, 2), Value(), nan, Value(),
                           Tensor::scalar(1.0f), Tensor::scalar(1.0f), zero_point(DType::u8, 7)}};
  const Tensor first = test::run_op_tensor(call, "cpu");
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2}) {
    const ScopedIsa scoped(isa);
    EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu"), first));
  }
}

// A NaN, infinities and numbers beyond integers among the biases.
TEST(CpuQuantisedConv, DepthwiseSumsThatAreNoNumbersAreTheSameForEveryInstructionSet) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t channels : {7, 64}) {
    for (const std::int64_t kernel : {3, 5}) {
      Tensor bias = test::random_tensor(DType::f32, {channels}, 3, -8, 8);
      std::ranges::copy(std::array{std::nanf(""), 3e38f, -3e38f, infinity, -infinity}, bias.mutable_data<float>());
      ir::Attributes attributes = pads(1);
      attributes.emplace("group", channels);
      const test::OpCall call{
          "tessera::QuantisedConv",
          {bytes(DType::u8, {1, 9, 9, channels}, 1), bytes(DType::i8, {channels, 1, kernel, kernel}, 2), bias,
           Tensor::scalar(0.1f), Value(), Tensor::scalar(1.0f), Tensor::scalar(1.0f), zero_point(DType::u8, 7)},
          attributes};
      const Tensor first = test::run_op_tensor(call, "cpu");
      for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2}) {
        const ScopedIsa scoped(isa);
        expect_same_steps(test::run_op_tensor(call, "cpu"), first);
      }
    }
  }
}

TEST(CpuQuantisedAdd, BothSigns) {
  for (const DType type : {DType::u8, DType::i8}) {
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 70, 11}}) {
      const test::OpCall call{
          "com.microsoft::QLinearAdd",
          {bytes(type, shape, 1), Tensor::scalar(0.03f), zero_point(type, 12), bytes(type, shape, 2),
           Tensor::scalar(0.011f), zero_point(type, 5), Tensor::scalar(0.027f), zero_point(type, 20)}};
      check(call, "cpu_quantised_add");
    }
  }
}

// Of bytes and of bfloat16 numbers.
TEST(CpuMaxPool, WindowsAndPads) {
  const auto check_pool = [](const Shape& x, ir::Attributes attributes) {
    for (const DType type : {DType::u8, DType::i8})
      check({"tessera::ChannelsLastMaxPool", {bytes(type, ops::channels_last(x), 1)}, attributes},
            "cpu_max_pool_bytes");
    const test::OpCall call{"tessera::ChannelsLastMaxPool",
                            {test::random_tensor(DType::bf16, ops::channels_last(x), 1)},
                            std::move(attributes)};
    EXPECT_EQ(test::chosen_cpu_kernel(call), "cpu_max_pool_bf16");
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const ScopedIsa scoped(isa);
      EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu"), test::run_op_tensor(call, "reference")));
    }
  };
  check_pool({2, 70, 9, 8},
             {{"kernel_shape", Integers{3, 3}}, {"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}});
  check_pool({1, 3, 20}, {{"kernel_shape", Integers{4}}, {"dilations", Integers{3}}});
  check_pool({2, 24, 7, 11}, {{"kernel_shape", Integers{2, 2}}, {"pads", Integers{0, 1, 1, 0}}});
  check_pool({1, 16, 1, 8}, {{"kernel_shape", Integers{2, 1}},
                             {"dilations", Integers{2, 1}},
                             {"pads", Integers{1, 0, 1, 0}}});  // a line of padding alone
  check_pool({2, 5, 20000}, {{"kernel_shape", Integers{3}}});
  check_pool({1, 5, 3, 4}, {{"kernel_shape", Integers{3, 6}}, {"pads", Integers{1, 1, 1, 1}}});
  check_pool({1, 33, 4, 5, 6},
             {{"kernel_shape", Integers{2, 2, 3}}, {"ceil_mode", std::int64_t{1}}, {"strides", Integers{2, 2, 2}}});
  check_pool({1, 40, 5, 1203}, {{"kernel_shape", Integers{3, 4}},
                                {"strides", Integers{2, 3}},
                                {"pads", Integers{1, 2, 1, 2}}});  // more than is worked on at a time
  check_pool({1, 9000, 3, 7}, {{"kernel_shape", Integers{2, 3}}, {"dilations", Integers{1, 2}}});
  check_pool({1, 20, 11, 13}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}});
}

TEST(CpuMaxPool, InfinitiesAndNaNOfEitherSign) {
  Tensor x = test::random_tensor(DType::bf16, {1, 6, 9, 37}, 3);
  auto* numbers = static_cast<std::uint16_t*>(x.mutable_raw());
  constexpr std::uint16_t kSpecial[] = {0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x8000, 0x0000, 0xFF7F, 0x7F7F};
  for (std::int64_t i = 0; i < x.elements(); i += 7) numbers[i] = kSpecial[i / 7 % 8];
  const test::OpCall call{
      "tessera::ChannelsLastMaxPool", {x}, {{"kernel_shape", Integers{2, 3}}, {"pads", Integers{1, 0, 0, 1}}}};
  const Tensor expected = test::run_op_tensor(call, "reference");
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    const Tensor result = test::run_op_tensor(call, "cpu");
    for (std::int64_t i = 0; i < expected.elements(); ++i) {
      const float a = base::to_float(expected.data<bf16_t>()[i]), b = base::to_float(result.data<bf16_t>()[i]);
      ASSERT_TRUE(std::isnan(a) ? std::isnan(b) : a == b)
          << "set " << static_cast<int>(isa) << " at " << i << ": " << b << ", expected " << a;
    }
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::window_product_s8_test
