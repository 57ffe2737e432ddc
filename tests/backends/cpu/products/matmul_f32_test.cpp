#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/machine/simd.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::matmul_f32_test {
namespace {

Tensor random(Shape shape, std::uint64_t seed) {
  return test::random_tensor(DType::f32, shape, seed);
}

void check(const test::OpCall& call, double length) {
  const Tensor expected = test::run_op_tensor(call, "reference");
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    const Tensor one = test::run_op_tensor(call, "cpu", 1);
    EXPECT_TRUE(test::close_to(one, expected, test::Tolerance::epsilons(DType::f32, 8 + length)));
    for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), one));
    // And by what else could be chosen.
    for (const std::string& kernel : test::accepting_cpu_kernels(call)) {
      SCOPED_TRACE(kernel);
      const Tensor other = test::run_op_tensor_by(call, kernel);
      EXPECT_TRUE(test::close_to(other, expected, test::Tolerance::epsilons(DType::f32, 8 + length)));
      EXPECT_TRUE(identical(test::run_op_tensor_by(call, kernel, 3), other));
    }
  }
}

TEST(CpuMatMul, BatchesBroadcast) {
  const std::pair<Shape, Shape> shapes[] = {{{4, 6}, {6, 5}},
                                            {{6}, {6}},
                                            {{6}, {6, 5}},
                                            {{3, 6}, {6}},
                                            {{2, 3, 6}, {6, 5}},
                                            {{2, 3, 6}, {2, 6, 5}},
                                            {{2, 1, 3, 6}, {7, 6, 5}},
                                            {{3, 6}, {2, 6, 5}},
                                            {{1, 3, 6}, {2, 1, 6, 5}},
                                            {{0, 6}, {6, 5}},
                                            {{3, 0}, {0, 5}}};
  for (const auto& [a, b] : shapes) {
    SCOPED_TRACE(to_string(a) + " x " + to_string(b));
    check({"MatMul", {random(a, 1), random(b, 2)}}, 6);
  }
}

TEST(CpuMatMul, Large) {
  check({"MatMul", {random({70, 500}, 1), random({500, 130}, 2)}}, 200);
}

// Shapes are those of the matrices that are multiplied.
TEST(CpuTransposedMatMul, BatchesBroadcast) {
  const std::pair<Shape, Shape> shapes[] = {
      {{4, 6}, {6, 5}},          {{2, 3, 6}, {6, 5}}, {{1, 3, 6}, {6, 5}},  {{2, 3, 6}, {2, 6, 5}},
      {{2, 1, 3, 6}, {7, 6, 5}}, {{3, 6}, {2, 6, 5}}, {{6}, {6, 5}},        {{3, 6}, {6}},
      {{2, 0, 6}, {6, 5}},       {{3, 0}, {0, 5}},    {{33, 65}, {65, 70}}, {{3, 40, 401}, {3, 401, 37}}};
  const auto swapped = [](Shape shape, std::int64_t transposed) {
    if (transposed != 0 && shape.size() > 1) std::swap(shape.end()[-1], shape.end()[-2]);
    return shape;
  };
  for (const auto& [a, b] : shapes) {
    for (const std::int64_t left : {0, 1}) {
      for (const std::int64_t right : {0, 1}) {
        SCOPED_TRACE(to_string(a) + " x " + to_string(b) + ", transposed: " + std::to_string(left) +
                     std::to_string(right));
        const test::OpCall call{"tessera::TransposedMatMul",
                                {random(swapped(a, left), 1), random(swapped(b, right), 2)},
                                {{"transA", left}, {"transB", right}}};
        EXPECT_EQ(test::chosen_cpu_kernel(call), "cpu_transposed_matmul_f32");
        check(call, static_cast<double>(a.back()));
      }
    }
  }
}

TEST(CpuGemm, TransposesAndBias) {
  for (const std::int64_t transpose_a : {0, 1}) {
    for (const std::int64_t transpose_b : {0, 1}) {
      const Tensor a = random(transpose_a != 0 ? Shape{9, 14} : Shape{14, 9}, 1);
      const Tensor b = random(transpose_b != 0 ? Shape{37, 9} : Shape{9, 37}, 2);
      const ir::Attributes attributes{
          {"transA", transpose_a}, {"transB", transpose_b}, {"alpha", 0.5f}, {"beta", 2.0f}};
      check({"Gemm", {a, b}, attributes}, 9);
      for (const Shape& c : {Shape{}, Shape{37}, Shape{1, 37}, Shape{14, 1}, Shape{14, 37}, Shape{1, 1}}) {
        check({"Gemm", {a, b, random(c, 3)}, attributes}, 9);
      }
    }
  }
}

TEST(CpuLinear, BiasAddendAndActivation) {
  for (const Shape& x : {Shape{1, 7}, Shape{3, 5, 40}, Shape{2, 33, 17}}) {
    for (const std::int64_t outputs : {1, 21, 70}) {
      Shape y = x;
      y.back() = outputs;
      for (const char* activation : {"", "Relu", "GeluTanh", "Gelu", "Sigmoid"}) {
        for (const int operands : {2, 3, 4}) {
          SCOPED_TRACE(to_string(x) + " to " + std::to_string(outputs) + " " + activation);
          test::OpCall call{"tessera::Linear", {random(x, 1), random({x.back(), outputs}, 2)}};
          if (operands > 2) call.inputs.emplace_back(random({outputs}, 3));
          if (operands > 3) call.inputs.emplace_back(random(y, 4));
          if (*activation != 0) call.attributes.emplace("activation", std::string(activation));
          check(call, static_cast<double>(x.back()));
        }
      }
    }
  }
}

TEST(CpuLinear, TransposedWeightsAndSeveralAxesOfInputs) {
  struct Case {
    Shape x;
    std::int64_t axis, inputs, outputs;
  };
  for (const auto& [x, axis, inputs, outputs] :
       {Case{{1, 67}, -1, 67, 5}, Case{{3, 2, 5, 7}, 1, 70, 33}, Case{{2, 3, 4, 9}, 2, 36, 17},
        Case{{5, 401, 2}, -2, 802, 1}, Case{{0, 2, 3}, 1, 6, 4}, Case{{2, 3, 4}, 1, 12, 0}}) {
    for (const std::int64_t transposed : {0, 1}) {
      SCOPED_TRACE(to_string(x) + " from axis " + std::to_string(axis) + (transposed != 0 ? ", transposed" : ""));
      const Tensor weights = random(transposed != 0 ? Shape{outputs, inputs} : Shape{inputs, outputs}, 2);
      check({"tessera::Linear",
             {random(x, 1), weights, random({outputs}, 3)},
             {{"axis", axis}, {"transB", transposed}, {"activation", std::string("Relu")}}},
            static_cast<double>(inputs));
    }
  }
}

TEST(CpuLinear, FewRowsReadWeightsAsTheyLie) {
  const Tensor weights = random({303, 1003}, 2);  // several chunks
  for (const std::int64_t rows : {1, 2, 3, 4, 5}) {
    for (const char* activation : {"", "Relu", "Gelu"}) {
      SCOPED_TRACE(std::to_string(rows) + activation);
      Tensor x = random({rows, 1003}, 1);
      test::OpCall call{
          "tessera::Linear", {x, weights, random({303}, 3), random({rows, 303}, 4)}, {{"transB", std::int64_t{1}}}};
      if (*activation != 0) call.attributes.emplace("activation", std::string(activation));
      EXPECT_EQ(std::ranges::count(test::accepting_cpu_kernels(call), "cpu_linear_of_few_rows"), rows < 5 ? 1 : 0);
      check(call, 1003);
      x.mutable_data<float>()[1000] = std::numeric_limits<float>::quiet_NaN();
      check(call, 1003);
    }
  }
}

TEST(CpuLinear, EveryActivation) {
  const std::pair<const char*, std::vector<float>> activations[] = {{"Relu", {}},
                                                                    {"Tanh", {}},
                                                                    {"Sigmoid", {}},
                                                                    {"HardSwish", {}},
                                                                    {"Gelu", {}},
                                                                    {"GeluTanh", {}},
                                                                    {"LeakyRelu", {0.1f}},
                                                                    {"Swish", {1.5f}},
                                                                    {"HardSigmoid", {0.2f, 0.5f}},
                                                                    {"Clip", {-0.25f, 0.5f}},
                                                                    {"Mish", {}},
                                                                    {"Softplus", {}},
                                                                    {"Softsign", {}},
                                                                    {"Elu", {0.75f}},
                                                                    {"Celu", {0.5f}},
                                                                    {"Selu", {1.5f, 1.25f}}};
  for (const auto& [name, parameters] : activations) {
    for (const Shape& x : {Shape{1, 9}, Shape{37, 501}}) {  // one block of k, and several
      SCOPED_TRACE(name + to_string(x));
      test::OpCall call{"tessera::Linear",
                        {random(x, 1), random({43, x[1]}, 2), random({43}, 3)},
                        {{"transB", std::int64_t{1}}, {"activation", std::string(name)}}};
      if (!parameters.empty()) call.attributes.emplace("activation_params", parameters);
      EXPECT_EQ(test::chosen_cpu_kernel(call), "cpu_linear");
      check(call, static_cast<double>(x[1]));
    }
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::matmul_f32_test
