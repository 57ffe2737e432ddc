// Layers that round to bfloat16 against the reference, which rounds, widens and computes in float32.
#include <gtest/gtest.h>

#include "backends/cpu/machine/large_operands.h"
#include "backends/cpu/machine/simd.h"
#include "ops/convolutions/channels_last.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::window_product_bf16_test {
namespace {

using test::random_tensor;
using Integers = std::vector<std::int64_t>;

constexpr double kWinogradAbsolute = 3e-4;  // its transforms lose some digits of small sums

// Which of data, result and addend are stored rounded.
struct Stored {
  bool data = false, result = false, addend = false;
};

void check(test::OpCall call, double terms, Stored stored, std::string_view kernel) {
  call.attributes.emplace("precision", std::string("bf16"));
  if (stored.result) call.attributes.emplace("output_dtype", static_cast<std::int64_t>(DType::bf16));
  {
    const ScopedIsa scoped(base::Isa::avx512, Extensions::vectors);  // tile registers take what Winograd does otherwise
    EXPECT_EQ(test::chosen_cpu_kernel(call), kernel);
  }
  const Tensor expected = test::run_op_tensor(call, "reference");
  test::Tolerance tolerance =
      stored.result ? test::Tolerance::epsilons(DType::bf16, 2) : test::Tolerance::epsilons(DType::f32, 8 + terms);
  if (kernel == "cpu_bf16_winograd") tolerance.absolute = kWinogradAbsolute;
  for (const Extensions extensions : kAllExtensions) {
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const ScopedIsa scoped(isa, extensions);
      const Tensor one = test::run_op_tensor(call, "cpu", 1);
      EXPECT_TRUE(test::close_to(one, expected, tolerance)) << "isa " << static_cast<int>(isa);
      for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), one));
    }
  }
}

struct Case {
  Shape x, w;  // with the channels first, as in ONNX
  ir::Attributes attributes = {};
  Stored stored = {};
  bool bias = true, addend = false;
};

void check_conv(const Case& c, std::string_view kernel = "cpu_bf16_conv") {
  SCOPED_TRACE(to_string(c.x) + " * " + to_string(c.w));
  test::OpCall call{"tessera::ChannelsLastConv",
                    {random_tensor(c.stored.data ? DType::bf16 : DType::f32, ops::channels_last(c.x), 1),
                     random_tensor(DType::f32, c.w, 2)},
                    c.attributes};
  call.attributes.emplace("precision", std::string("bf16"));
  call.inputs.resize(4);
  if (c.bias) call.inputs[2] = random_tensor(DType::f32, {c.w[0]}, 3);
  if (c.addend)
    call.inputs[3] =
        random_tensor(c.stored.addend ? DType::bf16 : DType::f32, test::run_op_tensor(call, "reference").shape(), 4);
  check(call, static_cast<double>(element_count(c.w)) / static_cast<double>(c.w[0]), c.stored, kernel);
}

TEST(CpuBf16Conv, PointwiseAndWindows) {
  check_conv({{2, 8, 5, 9}, {13, 8, 1, 1}});
  check_conv({{1, 41, 30}, {70, 41, 1}, {}, {true, true}, false});
  check_conv({{1, 33, 4, 4}, {16, 33, 1, 1}, {{"strides", Integers{2, 2}}}, {false, true}, true, true});
  check_conv({{1, 3, 13, 37}, {16, 3, 3, 3}, {{"pads", Integers{1, 1, 1, 1}}}});
  check_conv({{2, 36, 7, 7}, {33, 36, 3, 3}, {{"pads", Integers{1, 1, 1, 1}}}, {true, false}, true, true});
  check_conv({{1, 2, 5, 6, 7}, {3, 2, 3, 2, 3}, {{"pads", Integers{1, 0, 2, 0, 1, 1}}}});
}

// Lines of whole tiles, of tiles of fewer rows, and of neither; segments that end within a step of 64 bytes.
TEST(CpuBf16Conv, LinesAndSegmentsByTiles) {
  const ir::Attributes padded{{"pads", Integers{1, 1, 1, 1}}},
      strided{{"pads", Integers{1, 2, 1, 0}}, {"strides", Integers{2, 2}}};
  check_conv(
      {{2, 32, 5, 28}, {33, 32, 2, 3}, {{"pads", Integers{1, 2, 0, 2}}, {"dilations", Integers{1, 2}}}, {true, true}});
  check_conv({{1, 20, 6, 32}, {16, 20, 5, 3}, strided, {true, true, true}, true, true});
  check_conv({{2, 48, 7, 27}, {20, 48, 2, 2}, {}, {true, false}});
  check_conv({{1, 40, 4, 19}, {50, 40, 1, 3}, {{"pads", Integers{0, 1, 0, 1}}}});
  check_conv({{1, 72, 3, 16}, {64, 72, 1, 1}, {}, {true, true}});
  check_conv({{2, 16, 3, 4, 9}, {5, 16, 3, 3, 3}, {{"pads", Integers{1, 1, 1, 1, 1, 1}}}, {true, false}});
  check_conv({{1, 96, 6, 14},
              {34, 48, 3, 3},
              {{"group", std::int64_t{2}}, {"pads", Integers{1, 1, 1, 1}}, {"strides", Integers{1, 2}}},
              {true, true}});
}

// The machine's tile registers and their emulation do the same sums in the same order. Where there are none, vectors
// take other orders, or Winograd.
TEST(CpuBf16Conv, TilesEqualTheirEmulation) {
  for (const std::int64_t channels : {5, 24, 64, 77}) {
    const test::OpCall call{
        "tessera::ChannelsLastConv",
        {random_tensor(DType::f32, {1, 9, 21, channels}, 1), random_tensor(DType::f32, {45, channels, 3, 3}, 2)},
        {{"precision", std::string("bf16")}, {"pads", Integers{1, 1, 1, 1}}}};
    Tensor emulated, actual;
    {
      const ScopedIsa scoped(base::Isa::avx512, Extensions::emulated_tiles);
      emulated = test::run_op_tensor(call, "cpu", 1);
    }
    const ScopedIsa scoped(base::Isa::avx512, Extensions::tiles);
    actual = test::run_op_tensor(call, "cpu", 1);
    if (active_tiles()) EXPECT_TRUE(identical(actual, emulated)) << channels;
    else
      EXPECT_TRUE(
          test::close_to(actual, emulated, {test::Tolerance::epsilons(DType::f32, 700).relative, kWinogradAbsolute}))
          << channels;
  }
}

TEST(CpuBf16Conv, StridesDilationsGroupsAndWidePads) {
  check_conv({{1, 3, 20, 41},
              {8, 3, 3, 5},
              {{"strides", Integers{1, 3}}, {"dilations", Integers{2, 3}}, {"pads", Integers{2, 6, 3, 5}}}});
  check_conv({{1, 8, 11, 11},
              {18, 4, 5, 3},
              {{"group", std::int64_t{2}}, {"auto_pad", std::string("SAME_UPPER")}},
              {true, true}});
  check_conv({{2, 9, 4, 4}, {27, 3, 1, 1}, {{"group", std::int64_t{3}}}});
  check_conv({{1, 2, 3, 2}, {3, 2, 7, 9}, {{"pads", Integers{5, 9, 4, 8}}}});
  constexpr std::int64_t kFar = std::int64_t{1} << 40;  // lines that no memory holds with their padding
  check_conv(
      {{1, 40, 40, 2}, {3, 40, 7, 9}, {{"pads", Integers{5, kFar, 4, kFar}}, {"strides", Integers{1, kFar / 2}}}});
  check_conv({{1, 96, 20, 20}, {130, 96, 3, 3}, {{"strides", Integers{2, 1}}}});
}

TEST(CpuBf16Conv, ActivationsInRegistersAndBehindThem) {
  check_conv({{1, 16, 7, 7}, {20, 16, 3, 3}, {{"activation", std::string("Relu")}}, {false, true}});
  check_conv({{1, 16, 7, 7}, {20, 16, 3, 3}, {{"activation", std::string("HardSwish")}}, {true, true}});
  check_conv({{1, 16, 7, 7}, {20, 16, 3, 3}, {{"activation", std::string("Tanh")}}});
}

TEST(CpuBf16Conv, RoundedAddends) {
  check_conv({{1, 33, 4, 5}, {19, 33, 1, 1}, {{"activation", std::string("Relu")}}, {true, true, true}, true, true});
  check_conv({{1, 33, 4, 5}, {64, 33, 1, 1}, {}, {false, false, true}, false, true});
  check_conv(
      {{1, 16, 7, 7}, {20, 16, 3, 3}, {{"activation", std::string("HardSwish")}}, {true, true, true}, true, true});
}

TEST(CpuBf16Conv, WinogradWhereItIsFaster) {
  const ir::Attributes padded{{"pads", Integers{1, 1, 1, 1}}};
  check_conv({{1, 40, 21, 22}, {50, 40, 3, 3}, padded}, "cpu_bf16_winograd");
  check_conv({{3, 33, 14, 9}, {64, 33, 3, 3}, padded, {true, true, true}, true, true}, "cpu_bf16_winograd");
  check_conv({{3, 64, 15, 15},
              {32, 64, 3, 3},
              {{"pads", Integers{0, 2, 1, 0}}, {"activation", std::string("HardSwish")}},
              {false, true},
              false,
              true},
             "cpu_bf16_winograd");
  check_conv({{1, 32, 40, 70},
              {32, 32, 3, 3},
              {{"pads", Integers{1, 1, 1, 1}}, {"activation", std::string("Relu")}},
              {true, false, true},
              true,
              true},
             "cpu_bf16_winograd");
  check_conv(
      {{2, 36, 5, 9, 8}, {34, 36, 3, 3, 3}, {{"pads", Integers{1, 1, 1, 1, 1, 1}}}, {true, true, true}, true, true},
      "cpu_bf16_winograd");
  const ir::Attributes dilated{
      {"pads", Integers{2, 3, 2, 1}}, {"dilations", Integers{2, 3}}, {"activation", std::string("HardSwish")}};
  check_conv({{1, 40, 25, 34}, {33, 40, 3, 3}, dilated, {true, true, true}, true, true}, "cpu_bf16_winograd");
  check_conv({{2, 33, 25, 34}, {48, 33, 3, 3}, dilated, {false, false, true}, true, true}, "cpu_bf16_winograd");

  test::OpCall few_tiles{"tessera::ChannelsLastConv",
                         {random_tensor(DType::bf16, {1, 14, 14, 40}, 1), random_tensor(DType::f32, {50, 40, 3, 3}, 2)},
                         padded};
  few_tiles.attributes.emplace("precision", std::string("bf16"));
  const ScopedIsa scoped(base::Isa::avx512, Extensions::vectors);
  EXPECT_EQ(test::chosen_cpu_kernel(few_tiles), active_bf16() ? "cpu_bf16_conv" : "cpu_bf16_winograd");
}

TEST(CpuBf16Depthwise, WindowsStridesAndPads) {
  const auto check_depthwise = [](const Shape& x, const Shape& window, ir::Attributes attributes, Stored stored,
                                  bool bias = true, bool addend = false) {
    Shape w{x[1], 1};
    w.insert(w.end(), window.begin(), window.end());
    attributes.emplace("group", x[1]);
    check_conv({x, w, std::move(attributes), stored, bias, addend}, "cpu_bf16_depthwise");
  };
  const ir::Attributes padded{{"pads", Integers{1, 1, 1, 1}}}, wide{{"pads", Integers{2, 2, 2, 2}}},
      relu6{{"pads", Integers{1, 1, 1, 1}},
            {"activation", std::string("Clip")},
            {"activation_params", std::vector<float>{0, 6}}};
  check_depthwise({2, 32, 9, 9}, {3, 3}, relu6, {true, true});
  check_depthwise({1, 21, 6, 17}, {3, 3}, padded, {true, true}, false);
  check_depthwise({1, 5, 8, 1}, {3, 3}, padded, {false, true});
  check_depthwise({1, 40, 14, 15}, {3, 3}, {{"pads", Integers{0, 0, 1, 1}}, {"strides", Integers{2, 2}}}, {true, true});
  check_depthwise({1, 16, 7, 16}, {5, 5}, wide, {true, false});
  check_depthwise({1, 17, 12, 22}, {5, 5}, {{"pads", Integers{2, 2, 2, 2}}, {"strides", Integers{2, 2}}},
                  {true, true, true}, true, true);
  check_depthwise({1, 18, 9, 9}, {3, 3}, {{"pads", Integers{2, 2, 2, 2}}, {"dilations", Integers{2, 2}}},
                  {true, true, false}, true, true);
  check_depthwise({1, 70, 7, 10}, {7, 4}, {{"strides", Integers{1, 3}}, {"pads", Integers{3, 9, 3, 9}}},
                  {false, false});
  check_depthwise({1, 77, 9, 16}, {3, 3}, padded, {true, true, true}, true, true);
  check_depthwise({2, 50, 10, 13}, {5, 5}, wide, {true, true});
  check_depthwise({1, 100, 6, 15}, {5, 5}, {{"pads", Integers{2, 2, 2, 2}}, {"strides", Integers{2, 2}}}, {true, true});
  check_depthwise({1, 144, 7, 7}, {3, 3}, padded, {true, false});
  check_depthwise({1, 19, 30}, {3}, {{"activation", std::string("HardSwish")}}, {true, true});
  check_depthwise({1, 3, 4, 5, 6}, {2, 3, 3}, {{"activation", std::string("HardSwish")}}, {true, false});
}

void check_linear(const Shape& x, std::int64_t outputs, Stored stored, ir::Attributes attributes = {}) {
  SCOPED_TRACE(to_string(x));
  const test::OpCall call{"tessera::Linear",
                          {random_tensor(stored.data ? DType::bf16 : DType::f32, x, 1),
                           random_tensor(DType::f32, {x.back(), outputs}, 2), random_tensor(DType::f32, {outputs}, 3)},
                          std::move(attributes)};
  check(call, static_cast<double>(x.back()), stored, "cpu_bf16_linear");
}

TEST(CpuBf16Linear, RowsAndColumns) {
  check_linear({1, 64}, 10, {});
  for (const std::int64_t outputs : {48, 49, 64, 96, 113, 160}) {
    for (const std::int64_t rows : {1, 2, 3}) check_linear({rows, 37}, outputs, {true, rows == 2});
  }
  check_linear({13, 7}, 35, {false, true});
  check_linear({2, 3, 131}, 65, {true, false});
  check_linear({2, 50, 256}, 96, {true, true}, {{"activation", std::string("Gelu")}});
}

TEST(CpuBf16Linear, RowsThatWouldShareSetsOfTheCache) {
  check_linear({14, 2048}, 40, {});
  check_linear({14, 2048}, 300, {true, true});
  check_conv({{1, 2048, 4, 5}, {260, 2048, 1, 1}, {}, {true, false}});
  check_conv({{1, 2048, 4, 5}, {9, 2048, 3, 3}, {{"pads", Integers{1, 1, 1, 1}}}, {false, true}});
}

TEST(CpuBf16Linear, DeepProductsInParts) {
  const ScopedLargeOperands small(0);
  check_linear({400, 1101}, 47, {});
  check_linear({400, 1088}, 47, {true});  // whole steps of tile registers
  check_linear({800, 1100}, 40, {true, true}, {{"activation", std::string("Gelu")}});
  check_conv(
      {{2, 1300, 15, 14}, {20, 1300, 1, 1}, {{"activation", std::string("Relu")}}, {true, true, true}, true, true});
  check_conv({{1, 130, 20, 43}, {33, 130, 3, 3}, {{"pads", Integers{1, 1, 1, 1}}, {"strides", Integers{1, 2}}}});
  check_conv({{1, 260, 22, 21}, {34, 130, 3, 3}, {{"group", std::int64_t{2}}}, {true, false}});
}

// At least 64 tiles of rows and 512 KB of data, fewer than weights. With one instruction set, as they all split
// products alike.
TEST(CpuBf16Linear, ManyRowsAndMoreWeightsThanData) {
  const test::OpCall call{"tessera::Linear",
                          {random_tensor(DType::f32, {770, 345}, 1), random_tensor(DType::f32, {345, 790}, 2),
                           random_tensor(DType::f32, {790}, 3)},
                          {{"precision", std::string("bf16")}}};
  EXPECT_EQ(test::chosen_cpu_kernel(call), "cpu_bf16_linear");
  const Tensor one = test::run_op_tensor(call, "cpu", 1);
  EXPECT_TRUE(
      test::close_to(one, test::run_op_tensor(call, "reference"), test::Tolerance::epsilons(DType::f32, 8 + 345)));
  EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", 2), one));
}

TEST(CpuBf16Linear, TransposedWeightsAndSeveralAxesOfInputs) {
  for (const Stored stored : {Stored{}, Stored{true, true}}) {
    const test::OpCall call{"tessera::Linear",
                            {random_tensor(stored.data ? DType::bf16 : DType::f32, {3, 5, 4, 7}, 1),
                             random_tensor(DType::f32, {37, 140}, 2), random_tensor(DType::f32, {37}, 3)},
                            {{"axis", std::int64_t{1}}, {"transB", std::int64_t{1}}}};
    check(call, 140, stored, "cpu_bf16_linear");
  }
}

TEST(CpuBf16Linear, NoInputsAndNoOutputs) {
  for (const auto& [inputs, outputs] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 0}}) {
    const Tensor y = test::run_op_tensor({"tessera::Linear",
                                          {Tensor(DType::f32, {3, inputs}), Tensor(DType::f32, {inputs, outputs})},
                                          {{"precision", std::string("bf16")}}},
                                         "cpu");
    EXPECT_TRUE(
        identical(y, Tensor::from<float>({3, outputs}, std::vector<float>(static_cast<std::size_t>(3 * outputs), 0))));
  }
}

TEST(CpuBf16Linear, RoundsToTheNearestAndKeepsNaNAndInfinity) {
  const float halfway = 1.00390625f, above = 1.0039064f, nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>({5, 1}, std::vector<float>{halfway, above, -halfway, nan, infinity}),
               w = Tensor::from<float>({1, 1}, std::vector<float>{1});
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    const Tensor y = test::run_op_tensor({"tessera::Linear", {x, w}, {{"precision", std::string("bf16")}}}, "cpu");
    EXPECT_TRUE(test::close_to(y, Tensor::from<float>({5, 1}, std::vector<float>{1, 1.0078125f, -1, nan, infinity})));
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::window_product_bf16_test
