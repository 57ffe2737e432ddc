#include <gtest/gtest.h>

#include "backends/cpu/machine/simd.h"
#include "ops/convolutions/channels_last.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::conv_weight_gradient_test {
namespace {

using test::random_tensor;
using Integers = std::vector<std::int64_t>;

constexpr double kLostToTransforms = 4;  // of the digits of a sum, by the transforms of Winograd's algorithm

// By all kernels that take the call, on each instruction set.
void check_call(const test::OpCall& call, double terms) {
  const Tensor expected = test::run_op_tensor(call, "reference", 1);
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    if (active_isa() != isa) continue;
    for (const std::string& kernel : test::accepting_cpu_kernels(call)) {
      if (kernel.starts_with("reference")) continue;
      SCOPED_TRACE(kernel + ", instruction set " + std::to_string(static_cast<int>(isa)));
      const double digits = kernel.find("winograd") != std::string::npos ? kLostToTransforms : 1;
      const Tensor one = test::run_op_tensor_by(call, kernel, 1);
      EXPECT_TRUE(test::close_to(one, expected, test::Tolerance::epsilons(DType::f32, digits * (8 + terms))));
      for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor_by(call, kernel, threads), one));
    }
  }
}

// x and g with the channels first; for either order.
void check(const Shape& x, const Shape& g, const ir::Attributes& attributes) {
  SCOPED_TRACE(to_string(x) + " and " + to_string(g));
  const double terms = static_cast<double>(element_count(g)) / static_cast<double>(g[1]);
  const auto pair = [](const Shape& a, const Shape& b) {
    return std::vector<Value>{random_tensor(DType::f32, a, 1), random_tensor(DType::f32, b, 2)};
  };
  check_call({"tessera::ConvWeightGradient", pair(x, g), attributes}, terms);
  check_call(
      {"tessera::ChannelsLastConvWeightGradient", pair(ops::channels_last(x), ops::channels_last(g)), attributes},
      terms);
}

TEST(CpuConvWeightGradient, Pointwise) {
  check({2, 7, 5, 9}, {2, 13, 5, 9}, {{"kernel_shape", Integers{1, 1}}});
  check({3, 40, 30}, {3, 70, 30}, {{"kernel_shape", Integers{1}}});
  check({2, 5, 8, 7}, {2, 33, 4, 3}, {{"kernel_shape", Integers{1, 1}}, {"strides", Integers{2, 3}}});
}

TEST(CpuConvWeightGradient, Windows) {
  check({2, 3, 50}, {2, 5, 50}, {{"kernel_shape", Integers{4}}, {"pads", Integers{2, 1}}});
  check({2, 36, 17, 17}, {2, 33, 17, 17}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}});
  check({1, 70, 9, 6}, {1, 100, 9, 6}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{0, 1, 2, 1}}});
  check({3, 33, 30, 29}, {3, 70, 30, 29}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}});
  check({2, 16, 5, 18, 9}, {2, 18, 5, 18, 9},
        {{"kernel_shape", Integers{3, 3, 3}}, {"pads", Integers{1, 1, 1, 1, 1, 1}}});
  check({3, 16, 6, 22, 18}, {3, 7, 6, 22, 18},
        {{"kernel_shape", Integers{3, 3, 3}}, {"pads", Integers{1, 1, 1, 1, 1, 1}}});
  check({1, 4, 2, 6, 6}, {1, 5, 6, 4, 4},
        {{"kernel_shape", Integers{3, 3, 3}}, {"dilations", Integers{3, 1, 1}}, {"pads", Integers{5, 0, 0, 5, 0, 0}}});
  check({1, 17, 4, 5, 6}, {1, 20, 6, 3, 5},
        {{"kernel_shape", Integers{2, 3, 3}}, {"pads", Integers{1, 0, 1, 2, 0, 0}}});
}

TEST(CpuConvWeightGradient, StridesDilationsAndGroups) {
  check({2, 18, 15, 12}, {2, 20, 8, 6},
        {{"kernel_shape", Integers{3, 3}}, {"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}});
  check({1, 9, 20, 41}, {1, 8, 21, 13},
        {{"kernel_shape", Integers{3, 5}},
         {"strides", Integers{1, 3}},
         {"dilations", Integers{2, 3}},
         {"pads", Integers{2, 6, 3, 5}}});
  check({2, 8, 11, 11}, {2, 18, 7, 9}, {{"kernel_shape", Integers{5, 3}}, {"group", std::int64_t{2}}});
}

TEST(CpuConvWeightGradient, Depthwise) {
  check({3, 70, 9, 8}, {3, 70, 9, 8},
        {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}, {"group", std::int64_t{70}}});
  check({18, 64, 9, 8}, {18, 64, 4, 3},
        {{"kernel_shape", Integers{3, 5}},
         {"strides", Integers{2, 2}},
         {"pads", Integers{0, 1, 0, 1}},
         {"group", std::int64_t{64}}});
  check({1, 5, 30}, {1, 5, 28},
        {{"kernel_shape", Integers{2}}, {"dilations", Integers{2}}, {"group", std::int64_t{5}}});
}

// What is chosen for layers of usual sizes.
TEST(CpuConvWeightGradient, ChoosesByShape) {
  const auto chosen = [](std::int64_t channels, Integers kernel, std::int64_t group) {
    const Shape x{4, 16, 16, channels};
    return test::chosen_cpu_kernel(
        {"tessera::ChannelsLastConvWeightGradient",
         {random_tensor(DType::f32, x, 1), random_tensor(DType::f32, x, 2)},
         {{"kernel_shape", std::move(kernel)}, {"pads", Integers{1, 1, 1, 1}}, {"group", group}}});
  };
  EXPECT_EQ(chosen(32, {3, 3}, 1), "cpu_winograd_weight_gradient");
  EXPECT_EQ(chosen(8, {3, 3}, 1), "cpu_conv_weight_gradient");
  EXPECT_EQ(chosen(32, {3, 3}, 2), "cpu_conv_weight_gradient");
  EXPECT_EQ(chosen(32, {3, 3}, 32), "cpu_depthwise_weight_gradient");
}

TEST(CpuConvWeightGradient, PaddingWiderThanTheData) {
  check({1, 2, 3, 2}, {1, 3, 6, 11}, {{"kernel_shape", Integers{7, 9}}, {"pads", Integers{5, 9, 4, 8}}});
}

}  // namespace
}  // namespace tessera::backends::cpu::conv_weight_gradient_test
