// Launches of the CUDA backend on the simulated driver, whose kernels run in the emulation, against the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/backend_table.h"
#include "support/device_call.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"

namespace tessera::test::cuda_kernels_test {
namespace {

const backends::Device& gpu() {
  return backends::find_device("cuda");
}

// `n`: epsilons of the result's type.
void expect_as_reference(const OpCall& call, const std::vector<bool>& constants = {}, double n = 16) {
  const Tensor actual = run_on_device(gpu(), call, constants), expected = run_op_tensor(call);
  EXPECT_TRUE(close_to(actual, expected, Tolerance::epsilons(expected.dtype(), n))) << call.op;
}

Tensor matrix(DType type, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return random_tensor(type, {rows, columns}, seed);
}

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

TEST(CudaKernels, GemmWithAndWithoutTransposedWeights) {
  for (const DType type : kTypes) {
    for (const std::int64_t depth : {1, 7, 32, 100}) {
      for (const std::int64_t transposed : {0, 1}) {
        const Tensor w = transposed != 0 ? matrix(type, 33, depth, 2) : matrix(type, depth, 33, 2);
        expect_as_reference(
            {"Gemm", {matrix(type, 5, depth, 1), w, random_tensor(type, {33}, 3)}, {{"transB", transposed}}},
            {false, true, true});
      }
    }
  }
}

TEST(CudaKernels, ProductsOfBatches) {
  expect_as_reference({"MatMul", {random_tensor(DType::f32, {2, 3, 17}, 1), matrix(DType::f32, 17, 70, 2)}},
                      {false, true});
}

TEST(CudaKernels, LinearWithItsEpilogue) {
  for (const char* const activation : {"", "Relu", "Gelu", "Sigmoid", "Tanh"}) {
    ir::Attributes attributes;
    if (*activation != '\0') attributes.insert({"activation", std::string(activation)});
    expect_as_reference({"tessera::Linear",
                         {matrix(DType::f32, 9, 20, 1), matrix(DType::f32, 20, 12, 2),
                          random_tensor(DType::f32, {12}, 3), matrix(DType::f32, 9, 12, 4)},
                         attributes},
                        {false, true, true, false});
  }
}

TEST(CudaKernels, Rows) {
  for (const DType type : kTypes) {
    for (const std::int64_t columns : {1, 5, 300}) {
      const Tensor x = random_tensor(type, {2, 3, columns}, 1), scale = random_tensor(type, {columns}, 2),
                   bias = random_tensor(type, {columns}, 3);
      expect_as_reference({"Softmax", {x}});
      expect_as_reference({"LogSoftmax", {x}});
      expect_as_reference({"RMSNormalization", {x, scale}});
      if (columns > 1) expect_as_reference({"LayerNormalization", {x, scale, bias}});
    }
  }
}

TEST(CudaKernels, ElementWiseOperatorsThatBroadcast) {
  const Tensor x = random_tensor(DType::f32, {2, 3, 1, 5}, 1), y = random_tensor(DType::f32, {4, 1}, 2);
  for (const char* const op : {"Add", "Sub", "Mul", "Div", "Min", "Max"}) expect_as_reference({op, {x, y}});
  for (const char* const op : {"Abs", "Neg", "Exp", "Erf", "Floor", "Round", "Relu", "Sigmoid", "Tanh", "HardSwish",
                               "LeakyRelu", "HardSigmoid", "Swish", "Reciprocal"})
    expect_as_reference({op, {x}});
}

TEST(CudaKernels, Convolutions) {
  for (const DType type : kTypes) {
    const Tensor x = random_tensor(type, {2, 4, 9, 7}, 1), bias = random_tensor(type, {6}, 3);
    expect_as_reference(
        {"Conv",
         {x, random_tensor(type, {6, 4, 3, 2}, 2), bias},
         {{"pads", std::vector<std::int64_t>{1, 0, 2, 1}}, {"strides", std::vector<std::int64_t>{2, 1}}}},
        {false, true, true});
    expect_as_reference({"Conv",
                         {x, random_tensor(type, {6, 2, 2, 3}, 2)},
                         {{"group", std::int64_t{2}}, {"dilations", std::vector<std::int64_t>{3, 2}}}},
                        {false, true});
  }
}

TEST(CudaKernels, Pooling) {
  const Tensor x = random_tensor(DType::f32, {2, 3, 9, 7}, 1);
  const ir::Attributes window{{"kernel_shape", std::vector<std::int64_t>{3, 2}},
                              {"strides", std::vector<std::int64_t>{2, 2}},
                              {"pads", std::vector<std::int64_t>{1, 0, 1, 1}}};
  ir::Attributes with_pads = window;
  with_pads.insert({"count_include_pad", std::int64_t{1}});
  expect_as_reference({"MaxPool", {x}, window});
  expect_as_reference({"AveragePool", {x}, window});
  expect_as_reference({"AveragePool", {x}, with_pads});
  expect_as_reference({"GlobalMaxPool", {x}});
  expect_as_reference({"GlobalAveragePool", {x}});
}

TEST(CudaKernels, ProductsOfComputedMatrices) {
  for (const DType type : kTypes) {
    const Tensor a = random_tensor(type, {2, 1, 5, 16}, 1);
    expect_as_reference({"MatMul", {a, random_tensor(type, {3, 16, 9}, 2)}});
    expect_as_reference({"MatMul", {a, random_tensor(type, {16, 7}, 2)}});
    expect_as_reference({"MatMul", {matrix(type, 4, 7, 1), random_tensor(type, {2, 7, 3}, 2)}});
  }
}

TEST(CudaKernels, Movement) {
  const auto list = [](std::vector<std::int64_t> values) {
    return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
  };
  for (const DType type : {DType::u8, DType::f16, DType::f32, DType::i64}) {
    const Tensor x = random_tensor(type, {3, 4, 5, 2}, 1, 0, 100);
    expect_as_reference({"Transpose", {x}, {{"perm", std::vector<std::int64_t>{2, 0, 3, 1}}}});
    expect_as_reference({"Transpose", {x}});
    expect_as_reference({"Expand", {random_tensor(type, {4, 1}, 2, 0, 100), list({2, 4, 3})}}, {false, true});
    expect_as_reference({"Slice", {x, list({2, -1}), list({-100, 0}), list({0, 2}), list({-1, -2})}},
                        {false, true, true, true, true});
    expect_as_reference({"Concat", {x, random_tensor(type, {3, 2, 5, 2}, 2, 0, 100), x}, {{"axis", std::int64_t{1}}}});
  }
  expect_as_reference({"Flatten", {random_tensor(DType::f32, {3, 2, 4}, 1)}});
  expect_as_reference({"Reshape", {random_tensor(DType::f32, {3, 8}, 1), list({4, 6})}}, {false, true});
  const OpCall split{"Split", {random_tensor(DType::f32, {3, 6}, 1), list({2, 4})}, {{"axis", std::int64_t{1}}}, 2};
  expect_as_reference(split, {false, true});
}

TEST(CudaKernels, NotANumberStays) {
  const Tensor x = Tensor::from<float>({4}, {NAN, -INFINITY, INFINITY, -0.0f});
  for (const char* const op : {"Relu", "Sigmoid", "Tanh", "Abs"}) expect_as_reference({op, {x}});
  for (const char* const op : {"Min", "Max", "Add"}) expect_as_reference({op, {x, Tensor::from<float>({1}, {1.0f})}});
}

TEST(CudaKernels, NothingOfNothing) {
  expect_as_reference({"Relu", {Tensor(DType::f32, {0, 3})}});
  expect_as_reference({"Softmax", {Tensor(DType::f32, {0, 3})}});
  expect_as_reference({"MatMul", {Tensor(DType::f32, {0, 4}), matrix(DType::f32, 4, 3, 1)}}, {false, true});
}

}  // namespace
}  // namespace tessera::test::cuda_kernels_test
