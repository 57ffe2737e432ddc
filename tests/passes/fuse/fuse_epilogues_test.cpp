#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::fuse_epilogues_test {
namespace {

using test::expect_left_alone;
using test::expect_rewritten;

constexpr std::string_view kPass = "fuse_epilogues";

// Constants of f32 with made-up elements, as text.
std::string constant(const std::string& name, const Shape& shape) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements += (i == 0 ? "" : ", ") + std::to_string(static_cast<float>(i * 7 % 13) / 6.5f - 1);
  return " constant %" + name + " = f32" + to_string(shape) + " {" + elements + "}";
}

const std::string kRow = "graph { input %x : f32[batch, 6] input %z : f32[batch, 5]" + constant("w", {6, 5}) +
                         constant("v", {5, 6}) + constant("b", {5});

TEST(FuseEpilogues, GemmTakesActivations) {
  const std::pair<const char*, const char*> activations[] = {
      {"Relu (%p)", "\"Relu\""},
      {"Sigmoid (%p)", "\"Sigmoid\""},
      {"Tanh (%p)", "\"Tanh\""},
      {"HardSwish (%p)", "\"HardSwish\""},
      {"Gelu (%p)", "\"Gelu\""},
      {"Gelu (%p) {approximate = \"tanh\"}", "\"GeluTanh\""},
      {"LeakyRelu (%p) {alpha = 0.25}", "\"LeakyRelu\", activation_params = [0.25]"},
      {"Swish (%p)", "\"Swish\", activation_params = [1.0]"},
      {"HardSigmoid (%p)", "\"HardSigmoid\", activation_params = [0.2, 0.5]"},
      {"Mish (%p)", "\"Mish\""},
      {"Softplus (%p)", "\"Softplus\""},
      {"Softsign (%p)", "\"Softsign\""},
      {"Elu (%p) {alpha = 0.75}", "\"Elu\", activation_params = [0.75]"},
      {"Celu (%p)", "\"Celu\", activation_params = [1.0]"},
      {"Selu (%p) {alpha = 1.5, gamma = 1.25}", "\"Selu\", activation_params = [1.5, 1.25]"},
      {"ThresholdedRelu (%p) {alpha = 0.5}", "\"ThresholdedRelu\", activation_params = [0.5]"},
      {"Clip (%p, %lo, %hi)", "\"Clip\", activation_params = [-0.5, 0.25]"}};
  for (const auto& [node, attributes] : activations) {
    const std::string bounds = " constant %lo = f32[] {-0.5} constant %hi = f32[] {0.25}";
    expect_rewritten(kRow + bounds + " %p = Gemm (%x, %w, %b) %y = " + node + " output %y }", kPass,
                     {std::string("%y = tessera::Linear (%x, %w, %b) {activation = ") + attributes + "}"});
  }
}

TEST(FuseEpilogues, APReluOfOneSlopeIsALeakyRelu) {
  for (const char* slope : {"f32[1] {0.25}", "f32[] {0.25}", "f32[5] {0.25, 0.25, 0.25, 0.25, 0.25}"}) {
    expect_rewritten(kRow + " constant %s = " + slope + " %p = Gemm (%x, %w, %b) %y = PRelu (%p, %s) output %y }",
                     kPass,
                     {"%y = tessera::Linear (%x, %w, %b) {activation = \"LeakyRelu\", activation_params = [0.25]}"});
  }
  expect_rewritten(kRow + " constant %s = f32[1] {-1.5} %p = Gemm (%x, %w, %b) %y = PRelu (%p, %s) output %y }", kPass,
                   {"%y = tessera::Linear (%x, %w, %b) {activation = \"LeakyRelu\", activation_params = [-1.5]}"});
  const std::string several = " constant %s = f32[5] {0.25, 0.25, 0.5, 0.25, 0.25}", computed = " %s = Abs (%z)";
  for (const std::string& slopes : {several, computed})
    expect_left_alone(kRow + slopes + " %p = Gemm (%x, %w, %b) %y = PRelu (%p, %s) output %y }", kPass);
}

TEST(FuseEpilogues, GemmWithTransposedWeightsBiasAndAddend) {
  expect_rewritten(kRow + " %p = Gemm (%x, %v, %b) {transB = 1} %y = Relu (%p) output %y }", kPass,
                   {"%y = tessera::Linear (%x, %v, %b) {activation = \"Relu\", transB = 1}"});
  expect_rewritten(kRow + " %p = Gemm (%x, %v) {transB = 1} %q = Add (%b, %p) %y = Relu (%q) output %y }", kPass,
                   {"%y = tessera::Linear (%x, %v, %b) {activation = \"Relu\", transB = 1}"});
  expect_rewritten(kRow + " %p = Gemm (%x, %w, %b) %q = Add (%p, %z) %y = Tanh (%q) output %y }", kPass,
                   {"%y = tessera::Linear (%x, %w, %b, %z) {activation = \"Tanh\"}"});
}

TEST(FuseEpilogues, BiasesOfOneRow) {
  const std::string row = kRow + constant("r", {1, 5}) + constant("m", {1, 1, 5});
  expect_rewritten(row + " %p = MatMul (%x, %w) %q = Add (%p, %r) %y = Relu (%q) output %y }", kPass,
                   {"%y = tessera::Linear (%x, %w, %?) {activation = \"Relu\"}"});
  // Of more axes than the product, it gives the sum one more.
  expect_left_alone(row + " %p = MatMul (%x, %w) %q = Add (%p, %m) %y = Relu (%q) output %y }", kPass);
}

TEST(FuseEpilogues, GemmWithFactorsOrOtherOperandsStays) {
  expect_left_alone(kRow + " %y = Gemm (%x, %w, %b) output %y }", kPass);
  for (const char* attributes : {"{alpha = 2.0}", "{beta = 0.5}"})
    expect_left_alone(kRow + " %p = Gemm (%x, %w, %b) " + attributes + " %y = Relu (%p) output %y }", kPass);
  expect_left_alone(kRow + " %p = Gemm (%x, %w, %z) %y = Relu (%p) output %y }", kPass);  // a matrix is no bias
  expect_left_alone(kRow + " input %c : f32[5, batch] %p = Gemm (%c, %v) {transA = 1} %y = Relu (%p) output %y }",
                    kPass);
  expect_left_alone(
      "graph { input %x : f32[2, 6]" + constant("c", {6, 2}) + " %p = MatMul (%c, %x) %y = Relu (%p) output %y }",
      kPass);  // a constant on the left
  expect_left_alone(kRow + " %p = Gemm (%x, %w, %b) %y = Relu (%p) output %y, %p }",
                    kPass);  // its result is wanted as it is
}

// As those of a training step, which are variables.
TEST(FuseEpilogues, TakesWeightsAndBiasesThatAreNoConstants) {
  const std::string inputs = "graph { input %x : f32[2, 6] input %w : f32[6, 5] input %b : f32[5] ";
  expect_rewritten(inputs + "%p = MatMul (%x, %w) %q = Add (%p, %b) %y = Relu (%q) output %y }", kPass,
                   {"%y = tessera::Linear (%x, %w, %b) {activation = \"Relu\"}"});
  expect_rewritten(inputs + "%p = Gemm (%x, %w) %y = Relu (%p) output %y }", kPass,
                   {"%y = tessera::Linear (%x, %w) {activation = \"Relu\"}"});
}

const std::string kPicture =
    "graph { input %x : f32[batch, 3, 2, 5]" + constant("w", {30, 4}) + constant("v", {10, 4}) + constant("b", {4});

TEST(FuseEpilogues, ProductsReadSeveralAxesAsTheyLie) {
  expect_rewritten(kPicture + " %f = Flatten (%x) %y = Gemm (%f, %w, %b) output %y }", kPass,
                   {"%y = tessera::Linear (%x, %w, %b) {axis = 1}"});
  expect_rewritten(
      kPicture +
          " constant %s = i64[3] {0, 3, 10} %f = Reshape (%x, %s) %p = MatMul (%f, %v) %y = Add (%p, %b) output %y }",
      kPass, {"%y = tessera::Linear (%x, %v, %b) {axis = 2}"});
}

TEST(FuseEpilogues, OtherViewsAndThoseThatAreUsedStay) {
  const std::string other = "graph { input %x : f32[4, 3, 2, 5]" + constant("v", {10, 4}) +
                            " constant %s = i64[2] {12, 10} %f = Reshape (%x, %s) %y = MatMul (%f, %v) output %y }";
  expect_left_alone(other, kPass);  // rows of several axes
  expect_left_alone(kPicture + " %f = Flatten (%x) %y = Gemm (%f, %w) %r = Relu (%f) output %y, %r }", kPass);
  expect_left_alone(kPicture + " constant %s = i64[2] {0, 30} %f = Reshape (%x, %s) %y = Gemm (%f, %w) output %y, %f }",
                    kPass);
}

}  // namespace
}  // namespace tessera::passes::fuse_epilogues_test
