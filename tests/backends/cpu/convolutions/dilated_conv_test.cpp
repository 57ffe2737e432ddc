// Dilated convolutions whose windows reach far into the padding, and what of them is skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/windows/window_plan.h"
#include "ops/convolutions/channels_last.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::dilated_conv_test {
namespace {

using test::random_tensor;
using Integers = std::vector<std::int64_t>;

// Winograd's transforms cost some digits of a sum.
constexpr double kLostToTransforms = 4;

// By the kernel that is chosen and by all that could be, for every instruction set, as the reference; with the same
// bits for any number of threads.
void expect_like_reference(const test::OpCall& call, double terms) {
  const Tensor expected = test::run_op_tensor(call, "reference", 1);
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    SCOPED_TRACE("isa " + std::to_string(static_cast<int>(isa)));
    const Tensor one = test::run_op_tensor(call, "cpu", 1);
    EXPECT_TRUE(test::close_to(one, expected, test::Tolerance::epsilons(DType::f32, kLostToTransforms * (8 + terms))));
    for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), one));
    for (const std::string& kernel : test::accepting_cpu_kernels(call)) {
      SCOPED_TRACE(kernel);
      const double digits = kernel == "cpu_channels_last_winograd" ? kLostToTransforms : 1;
      const Tensor other = test::run_op_tensor_by(call, kernel);
      EXPECT_TRUE(test::close_to(other, expected, test::Tolerance::epsilons(DType::f32, digits * (8 + terms))));
      for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor_by(call, kernel, threads), other));
    }
  }
}

struct Case {
  Shape x, w;  // with the channels first, as in ONNX
  ir::Attributes attributes;
};

// In both layouts, of which one also adds a tensor.
void check(const Case& c) {
  SCOPED_TRACE(to_string(c.x) + " * " + to_string(c.w));
  const Tensor w = random_tensor(DType::f32, c.w, 2), bias = random_tensor(DType::f32, {c.w[0]}, 3);
  const double terms = static_cast<double>(element_count(c.w)) / static_cast<double>(c.w[0]);
  expect_like_reference({"Conv", {random_tensor(DType::f32, c.x, 1), w, bias}, c.attributes}, terms);
  test::OpCall last{
      "tessera::ChannelsLastConv", {random_tensor(DType::f32, ops::channels_last(c.x), 1), w, bias}, c.attributes};
  last.attributes.insert_or_assign("activation", std::string("HardSwish"));
  last.inputs.emplace_back(random_tensor(DType::f32, test::run_op_tensor(last, "reference", 1).shape(), 4));
  expect_like_reference(last, terms);
}

// Windows with dilations up to beyond the map and padding that is not the same on both sides.
Case random_case(std::mt19937& generator) {
  const auto any = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  };
  const auto rank = static_cast<std::size_t>(any(1, 3));
  const std::int64_t kind = any(0, 3), groups = kind == 0 ? any(2, 3) : kind == 1 ? any(3, 20) : 1;
  const std::int64_t inputs = kind == 1 ? 1 : any(1, rank == 3 ? 9 : 40);
  const std::int64_t outputs = kind == 1 ? groups : groups * any(1, 40);
  Case c{{any(1, 2), inputs * groups}, {outputs, inputs}, {}};
  Integers strides, dilations, begins, ends;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t kernel = any(0, 2) == 0 ? any(1, 4) : 3, size = any(1, rank == 3 ? 7 : 19);
    const std::int64_t dilation = any(1, size + 3), extent = (kernel - 1) * dilation + 1;
    const std::int64_t missing = std::max<std::int64_t>(0, extent - size);
    begins.push_back(any(missing / 2, std::max(missing, extent / 2 + 1)));
    ends.push_back(std::max(missing - begins.back(), any(0, extent / 2 + 1)));
    strides.push_back(any(0, 2) == 0 ? any(2, 3) : 1);
    dilations.push_back(dilation);
    c.x.push_back(size);
    c.w.push_back(kernel);
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  c.attributes = {{"group", groups}, {"strides", strides}, {"dilations", dilations}, {"pads", begins}};
  return c;
}

TEST(CpuDilatedConv, RandomWindows) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 generator(seed);
    check(random_case(generator));
  }
}

ir::Attributes atrous(std::int64_t dilation) {
  return {{"dilations", Integers{dilation, dilation}}, {"pads", Integers(4, dilation)}};
}

TEST(CpuDilatedConv, AtrousPyramidsOnSmallMaps) {
  for (const std::int64_t dilation : {2, 5, 6, 12, 18, 24}) check({{1, 33, 20, 20}, {40, 33, 3, 3}, atrous(dilation)});
  check({{2, 36, 10, 13}, {17, 36, 3, 3}, {{"dilations", Integers{4, 7}}, {"pads", Integers{4, 7, 4, 7}}}});
  check({{1, 18, 3, 21, 17},
         {18, 18, 3, 3, 3},
         {{"dilations", Integers{2, 3, 1}}, {"pads", Integers{2, 3, 1, 2, 3, 1}}}});
}

TEST(CpuDilatedConv, WinogradByPhasesWhereItIsLess) {
  const auto chosen = [](std::int64_t size, std::int64_t dilation) {
    return test::chosen_cpu_kernel(
        {"tessera::ChannelsLastConv",
         {random_tensor(DType::f32, {1, size, size, 64}, 1), random_tensor(DType::f32, {64, 64, 3, 3}, 2)},
         atrous(dilation)});
  };
  for (const std::int64_t dilation : {1, 2, 5, 6})
    EXPECT_EQ(chosen(20, dilation), "cpu_channels_last_winograd") << dilation;
  for (const std::int64_t dilation : {4, 12, 18}) EXPECT_EQ(chosen(20, dilation), "cpu_channels_last_conv") << dilation;
}

ChannelsLastGeometry geometry_of(std::int64_t size, std::int64_t dilation, std::int64_t channels) {
  const ops::WindowAxis axis{
      .input = size, .output = size, .kernel = 3, .dilation = dilation, .pad_begin = dilation, .pad_end = dilation};
  return {.batch = 1, .channels = channels, .axes = {{.input = 1, .output = 1}, axis, axis}};
}

TEST(CpuDilatedConv, LinesAreCutWhereTapsLeaveTheMap) {
  // Undilated windows, and those that stay within the map for the most part, have nothing to gain.
  EXPECT_EQ(tiles_of_line(geometry_of(20, 1, 40).axes[2], 12), 0);
  EXPECT_EQ(tiles_of_line(geometry_of(64, 2, 40).axes[2], 12), 0);
  // Of ten columns on the left, no tap reads 12 columns further left, and of ten on the right none further right.
  EXPECT_EQ(tiles_of_line(geometry_of(20, 12, 40).axes[2], 12), 2);
  EXPECT_EQ(tiles_of_line(geometry_of(10, 6, 40).axes[2], 12), 2);
  EXPECT_EQ(tiles_of_line({.input = 20, .output = 20}, 12), 0);
}

TEST(CpuDilatedConv, SegmentsOfPaddingAloneAreNull) {
  const ChannelsLastGeometry geometry = geometry_of(20, 12, 40);
  const WindowSegments segments(geometry, 40, 1);
  const WindowPointers<float> windows(geometry, segments, 40, segments.length, 12, true),
      whole(geometry, segments, 40, segments.length, 12);
  const std::vector<float> x(20 * 20 * 40), zeros(40);
  // The left half of the first line: of nine taps, the centre, the one to the right and the two below them.
  std::vector<bool> skipped;
  const float* const* left = windows.at(x.data(), 0, 10, zeros.data());
  for (std::int64_t s = 0; s < segments.count; ++s) skipped.push_back(left[s * 12] == nullptr);
  EXPECT_EQ(skipped, (std::vector<bool>{true, true, true, true, false, false, true, false, false}));
  // Without being asked to skip, they are padding as before.
  left = whole.at(x.data(), 0, 10, zeros.data());
  for (std::int64_t s = 0; s < segments.count; ++s)
    EXPECT_EQ(left[s * 12] == zeros.data(), skipped[static_cast<std::size_t>(s)]) << s;
}

}  // namespace
}  // namespace tessera::backends::cpu::dilated_conv_test
