// Gradients of convolutions whose operands are rounded to bfloat16, against the reference, which widens and computes in
// float32.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/machine/simd.h"
#include "ops/convolutions/channels_last.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::conv_gradient_bf16_test {
namespace {

using test::random_tensor;
using Integers = std::vector<std::int64_t>;

// By the kernel with each set of instructions; and that it is chosen where tile registers are, or with vectors for
// bfloat16 unless `by_tiles_alone`.
void check(test::OpCall call, const std::string& kernel, double terms, bool by_tiles_alone = false) {
  call.attributes.insert_or_assign("precision", std::string("bf16"));
  for (const bool rounds : {false, true}) {
    if (rounds) call.attributes.insert_or_assign("output_dtype", static_cast<std::int64_t>(DType::bf16));
    const Tensor expected = test::run_op_tensor(call, "reference");
    EXPECT_EQ(expected.dtype(), rounds ? DType::bf16 : DType::f32);
    test::Tolerance tolerance =
        rounds ? test::Tolerance::epsilons(DType::bf16, 2) : test::Tolerance::epsilons(DType::f32, 8 + terms);
    // What a sum of many terms cancels to is off by their rounding, whatever it is rounded to.
    if (rounds) tolerance.absolute = std::max(tolerance.absolute, 1e-6 * terms);
    for (const Extensions extensions : kAllExtensions) {
      const ScopedIsa scoped(base::Isa::avx512, extensions);
      if (active_tiles() || emulates_tiles() || (active_bf16() && !by_tiles_alone)) {
        EXPECT_EQ(test::chosen_cpu_kernel(call), kernel) << static_cast<int>(extensions);
      }
      const Tensor one = test::run_op_tensor_by(call, kernel, 1);
      EXPECT_TRUE(test::close_to(one, expected, tolerance)) << static_cast<int>(extensions);
      for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor_by(call, kernel, threads), one));
    }
  }
}

// x, g: with the channels first.
void check_weights(const Shape& x, const Shape& g, const ir::Attributes& attributes, bool by_tiles_alone = false) {
  SCOPED_TRACE(to_string(x) + " and " + to_string(g));
  check({"tessera::ChannelsLastConvWeightGradient",
         {random_tensor(DType::bf16, ops::channels_last(x), 1), random_tensor(DType::bf16, ops::channels_last(g), 2)},
         attributes},
        "cpu_bf16_conv_weight_gradient", static_cast<double>(element_count(g)) / static_cast<double>(g[1]),
        by_tiles_alone);
}

TEST(CpuBf16ConvWeightGradient, Pointwise) {
  check_weights({2, 7, 5, 9}, {2, 13, 5, 9}, {{"kernel_shape", Integers{1, 1}}});
  check_weights({3, 40, 30}, {3, 70, 30}, {{"kernel_shape", Integers{1}}});
  check_weights({2, 5, 8, 7}, {2, 33, 4, 3}, {{"kernel_shape", Integers{1, 1}}, {"strides", Integers{2, 3}}});
}

TEST(CpuBf16ConvWeightGradient, Windows) {
  check_weights({2, 3, 50}, {2, 5, 50}, {{"kernel_shape", Integers{4}}, {"pads", Integers{2, 1}}});
  check_weights({2, 32, 9, 9}, {2, 150, 9, 9}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}},
                true);
  check_weights({1, 70, 9, 6}, {1, 100, 9, 6}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{0, 1, 2, 1}}},
                true);
  check_weights({2, 16, 3, 8, 9}, {2, 18, 3, 8, 9},
                {{"kernel_shape", Integers{3, 3, 3}}, {"pads", Integers{1, 1, 1, 1, 1, 1}}}, true);
  check_weights({1, 2, 3, 2}, {1, 3, 6, 11}, {{"kernel_shape", Integers{7, 9}}, {"pads", Integers{5, 9, 4, 8}}});
}

// More positions than a slab has.
TEST(CpuBf16ConvWeightGradient, SeveralSlabs) {
  check_weights({2, 3, 70, 90}, {2, 5, 70, 90}, {{"kernel_shape", Integers{1, 1}}});
  check_weights({3, 4, 60, 61}, {3, 3, 60, 61}, {{"kernel_shape", Integers{5, 5}}, {"pads", Integers{2, 2, 2, 2}}});
}

TEST(CpuBf16ConvWeightGradient, StridesDilationsAndGroups) {
  check_weights({2, 18, 15, 12}, {2, 20, 8, 6},
                {{"kernel_shape", Integers{3, 3}}, {"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}});
  check_weights({1, 9, 20, 41}, {1, 8, 21, 13},
                {{"kernel_shape", Integers{3, 5}},
                 {"strides", Integers{1, 3}},
                 {"dilations", Integers{2, 3}},
                 {"pads", Integers{2, 6, 3, 5}}});
  check_weights({2, 3, 22, 22}, {2, 16, 11, 11},
                {{"kernel_shape", Integers{7, 7}}, {"strides", Integers{2, 2}}, {"pads", Integers{3, 3, 3, 3}}});
  check_weights({2, 18, 11, 11}, {2, 20, 7, 9}, {{"kernel_shape", Integers{5, 3}}, {"group", std::int64_t{2}}});
}

// x, w: with the channels first.
void check_data(const Shape& x, const Shape& w, const ir::Attributes& attributes, bool by_tiles_alone = false) {
  SCOPED_TRACE(to_string(x) + " and " + to_string(w));
  check({"tessera::ChannelsLastConvTranspose",
         {random_tensor(DType::bf16, ops::channels_last(x), 1), random_tensor(DType::f32, w, 2)},
         attributes},
        "cpu_bf16_conv_transpose", static_cast<double>(element_count(w)) / static_cast<double>(w[1]), by_tiles_alone);
}

TEST(CpuBf16ConvTranspose, StrideOne) {
  check_data({2, 7, 5, 9}, {7, 13, 1, 1}, {});
  check_data({2, 36, 7, 7}, {36, 33, 3, 3}, {{"pads", Integers{1, 1, 1, 1}}}, true);
  check_data({1, 18, 9, 8}, {18, 20, 3, 2}, {{"dilations", Integers{2, 3}}, {"pads", Integers{2, 3, 1, 0}}});
  check_data({1, 17, 4, 5, 6}, {17, 20, 2, 3, 3}, {{"pads", Integers{1, 0, 1, 0, 1, 1}}}, true);
  check_data({1, 18, 6, 5}, {18, 10, 3, 2}, {{"group", std::int64_t{2}}});
}

TEST(CpuBf16ConvTranspose, LongerStrides) {
  check_data({2, 36, 4, 5}, {36, 70, 3, 3}, {{"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}});
  check_data({2, 9, 4, 5}, {9, 7, 3, 3},
             {{"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}, {"output_padding", Integers{1, 1}}});
  check_data({1, 8, 5, 3}, {8, 33, 2, 2}, {{"strides", Integers{2, 2}}});
  check_data({2, 6, 4, 3}, {6, 5, 1, 1}, {{"strides", Integers{3, 2}}, {"output_padding", Integers{1, 1}}});
  check_data({1, 4, 6}, {4, 3, 5}, {{"strides", Integers{3}}, {"dilations", Integers{2}}});
  check_data({1, 18, 6, 5}, {18, 10, 3, 3}, {{"group", std::int64_t{2}}, {"strides", Integers{2, 1}}});
}

// Biases and activations reach every position, or the kernel does not take the layer.
TEST(CpuBf16ConvTranspose, BiasAndActivation) {
  test::OpCall call{"tessera::ChannelsLastConvTranspose",
                    {random_tensor(DType::bf16, {1, 5, 3, 8}, 1), random_tensor(DType::f32, {8, 33, 2, 2}, 2),
                     random_tensor(DType::f32, {33}, 3)},
                    {{"strides", Integers{2, 2}}, {"activation", std::string("Sigmoid")}}};
  check(call, "cpu_bf16_conv_transpose", 32);
  call.inputs[1] = random_tensor(DType::f32, {8, 33, 1, 1}, 2);
  call.attributes.insert_or_assign("precision", std::string("bf16"));
  const ScopedIsa scoped(base::Isa::avx512, Extensions::emulated_tiles);
  const std::vector<std::string> kernels = test::accepting_cpu_kernels(call);
  EXPECT_EQ(std::ranges::find(kernels, "cpu_bf16_conv_transpose"), kernels.end());
}

}  // namespace
}  // namespace tessera::backends::cpu::conv_gradient_bf16_test
