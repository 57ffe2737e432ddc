#include <gtest/gtest.h>

#include "backends/cpu/machine/simd.h"
#include "support/pass_context.h"

namespace tessera::passes::multiply_rounded_test {
namespace {

constexpr const char* kPass = "multiply_rounded";

// Operands as train/net/mixed_precision.h rounds them: two casts each. 16: bf16, 1: f32.
const std::string kRounded =
    "graph { input %x : f32[4, 6] input %w : f32[6, 5] %xb = Cast (%x) {to = 16} %xr = Cast (%xb) {to = 1} "
    "%wb = Cast (%w) {to = 16} %wr = Cast (%wb) {to = 1} ";

TEST(MultiplyRounded, ProductsTakeTheRoundedNumbers) {
  test::expect_rewritten(kRounded + "%y = MatMul (%xr, %wr) output %y }", kPass,
                         {"%xb = Cast (%x) {to = 16}", "%y = tessera::Linear (%xb, %w) {precision = \"bf16\"}"});
  test::expect_rewritten(
      kRounded + "input %b : f32[5] %p = Gemm (%xr, %wr, %b) %y = Cast (%p) {to = 16} output %y }", kPass,
      {"%xb = Cast (%x) {to = 16}", "%y = tessera::Linear (%xb, %w, %b) {output_dtype = 16, precision = \"bf16\"}"});
}

// Gradients of weights.
TEST(MultiplyRounded, TransposesRoundedNumbers) {
  const std::string product =
      "graph { input %x : f32[6, 4] input %w : f32[6, 5] %xb = Cast (%x) {to = 16} %xr = Cast (%xb) {to = 1} "
      "%wb = Cast (%w) {to = 16} %wr = Cast (%wb) {to = 1} ";
  test::expect_rewritten(product + "%y = Gemm (%xr, %wr) {transA = 1} output %y }", kPass,
                         {"%xb = Cast (%x) {to = 16}", "%? = Transpose (%xb) {perm = [1, 0]}",
                          "%y = tessera::Linear (%?, %w) {precision = \"bf16\"}"});
  test::expect_left_alone(product + "%y = Gemm (%xr, %wr) {transA = 1, alpha = 0.5} output %y }", kPass);
  test::expect_left_alone(product + "input %c : f32[4, 5] %y = Gemm (%xr, %wr, %c) {transA = 1} output %y }", kPass);
}

TEST(MultiplyRounded, GradientsOfConvolutions) {
  using namespace backends::cpu;  // emulated, tile registers are there on every machine
  const ScopedIsa scoped(base::Isa::avx512, Extensions::emulated_tiles);
  const std::string operands =
      "graph { input %x : f32[2, 8, 8, 6] input %g : f32[2, 8, 8, 5] input %w : f32[5, 6, 3, 3] "
      "%xb = Cast (%x) {to = 16} %xr = Cast (%xb) {to = 1} %gb = Cast (%g) {to = 16} %gr = Cast (%gb) {to = 1} "
      "%wb = Cast (%w) {to = 16} %wr = Cast (%wb) {to = 1} ";
  test::expect_rewritten(
      operands + "%y = tessera::ChannelsLastConvTranspose (%gr, %wr) {pads = [1, 1, 1, 1]} output %y }", kPass,
      {"%gb = Cast (%g) {to = 16}",
       "%y = tessera::ChannelsLastConvTranspose (%gb, %w) {pads = [1, 1, 1, 1], precision = \"bf16\"}"});
  test::expect_rewritten(
      operands +
          "%p = tessera::ChannelsLastConvWeightGradient (%xr, %gr) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]} "
          "%y = Cast (%p) {to = 16} output %y }",
      kPass,
      {"%xb = Cast (%x) {to = 16}", "%gb = Cast (%g) {to = 16}",
       "%y = tessera::ChannelsLastConvWeightGradient (%xb, %gb) {kernel_shape = [3, 3], output_dtype = 16, "
       "pads = [1, 1, 1, 1], precision = \"bf16\"}"});
  // In float32 Winograd's algorithm multiplies less than vectors of bfloat16 do.
  const ScopedIsa vectors(base::Isa::avx512, Extensions::vectors);
  test::expect_left_alone(
      operands + "%y = tessera::ChannelsLastConvTranspose (%gr, %wr) {pads = [1, 1, 1, 1]} output %y }", kPass);
}

TEST(MultiplyRounded, OthersStay) {
  test::expect_left_alone(
      "graph { input %x : f32[4, 6] input %w : f32[6, 5] %xb = Cast (%x) {to = 16} %xr = Cast (%xb) {to = 1} "
      "%y = MatMul (%xr, %w) output %y }",
      kPass);
}

}  // namespace
}  // namespace tessera::passes::multiply_rounded_test
