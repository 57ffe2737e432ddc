#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::fused_matmul_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kMatMul = "com.microsoft::FusedMatMul", kGemm = "com.microsoft::FusedGemm";
constexpr std::int64_t kYes = 1;

TEST(FusedMatMul, MultipliesByAlphaAndTransposes) {
  const Tensor a = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6}), b = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  // aᵀ = [[1, 4], [2, 5], [3, 6]]
  EXPECT_TRUE(close_to(run_op_tensor({kMatMul, {a, b}, {{"transA", kYes}, {"alpha", 0.5f}}}),
                       Tensor::from<float>({3, 2}, {6.5f, 9, 8.5f, 12, 10.5f, 15})));
  EXPECT_TRUE(
      close_to(run_op_tensor({kMatMul, {b, b}, {{"transB", kYes}}}), Tensor::from<float>({2, 2}, {5, 11, 11, 25})));
}

TEST(FusedMatMul, MovesTheFirstAxisBehindTheBatch) {
  const Tensor a = random_tensor(DType::f32, {4, 2, 3, 5}, 1), b = random_tensor(DType::f32, {2, 3, 5, 6}, 2);
  const Tensor moved = run_op_tensor({"Transpose", {a}, {{"perm", std::vector<std::int64_t>{1, 2, 0, 3}}}});
  EXPECT_TRUE(
      close_to(run_op_tensor({kMatMul, {a, b}, {{"transBatchA", kYes}}}), run_op_tensor({"MatMul", {moved, b}})));
}

TEST(FusedMatMul, LeavesVectorsAsTheyAre) {
  const Tensor row = Tensor::from<float>({2}, {1, 2}), b = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(close_to(run_op_tensor({kMatMul, {row, b}, {{"transA", kYes}, {"transB", kYes}}}),
                       Tensor::from<float>({2}, {5, 11})));
}

TEST(FusedMatMul, KeepsSymbolicShape) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType a = ValueType::tensor(DType::f32, Dims{batch, 8, length}),
                  b = ValueType::tensor(DType::f32, Dims{3, 8});
  EXPECT_EQ(infer_op(kMatMul, {a, b}, {{"transA", kYes}, {"transB", kYes}})[0],
            ValueType::tensor(DType::f32, Dims{batch, length, 3}));
}

TEST(FusedMatMul, RefusesInnerDimensionsThatDiffer) {
  const ValueType a = ValueType::tensor(DType::f32, Shape{2, 3}), b = ValueType::tensor(DType::f32, Shape{3, 4});
  expect_error(ErrorKind::invalid_model, "the inner dimensions of [3, 2] and [3, 4] differ",
               [&] { infer_op(kMatMul, {a, b}, {{"transA", kYes}}); });
}

TEST(TransposedMatMul, SwapsTheLastTwoAxes) {
  const Tensor a = random_tensor(DType::f32, {2, 3, 4}, 1), b = random_tensor(DType::f32, {5, 3}, 2);
  const Tensor swapped = run_op_tensor({"Transpose", {a}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}}}),
               other = run_op_tensor({"Transpose", {b}, {{"perm", std::vector<std::int64_t>{1, 0}}}});
  EXPECT_TRUE(close_to(run_op_tensor({"tessera::TransposedMatMul", {a, b}, {{"transA", kYes}, {"transB", kYes}}}),
                       run_op_tensor({"MatMul", {swapped, other}})));
  EXPECT_TRUE(close_to(run_op_tensor({"tessera::TransposedMatMul", {swapped, b}, {{"transB", kYes}}}),
                       run_op_tensor({"MatMul", {swapped, other}})));
  const ValueType x = ValueType::tensor(DType::f32, Shape{2, 3}), y = ValueType::tensor(DType::f32, Shape{3, 4});
  expect_error(ErrorKind::invalid_model, "the inner dimensions of [3, 2] and [3, 4] differ",
               [&] { infer_op("tessera::TransposedMatMul", {x, y}, {{"transA", kYes}}); });
}

TEST(FusedGemm, EndsInAnActivation) {
  const Tensor a = Tensor::from<float>({1, 2}, {1, -2}), b = Tensor::from<float>({2, 2}, {1, 2, 3, -4}),
               c = Tensor::from<float>({2}, {1, -2});
  // a · b + c = [-4, 8]
  const auto gemm = [&](ir::Attributes attributes) { return run_op_tensor({kGemm, {a, b, c}, std::move(attributes)}); };
  EXPECT_TRUE(close_to(gemm({}), Tensor::from<float>({1, 2}, {-4, 8})));
  EXPECT_TRUE(close_to(gemm({{"activation", std::string("LeakyRelu")}, {"activation_alpha", 0.5f}}),
                       Tensor::from<float>({1, 2}, {-2, 8})));
  EXPECT_TRUE(close_to(
      gemm({{"activation", std::string("HardSigmoid")}, {"activation_alpha", 0.125f}, {"activation_beta", 0.75f}}),
      Tensor::from<float>({1, 2}, {0.25f, 1})));
  EXPECT_TRUE(close_to(
      gemm({{"activation", std::string("ScaledTanh")}, {"activation_alpha", 2.0f}, {"activation_beta", 0.25f}}),
      Tensor::from<float>({1, 2}, {2 * std::tanh(-1.0f), 2 * std::tanh(2.0f)}), Tolerance::epsilons(DType::f32, 4)));
}

TEST(FusedGemm, RefusesActivationsThatItCannotRead) {
  const ValueType m = ValueType::tensor(DType::f32, Shape{2, 2});
  const auto infer = [&](ir::Attributes attributes) { infer_op(kGemm, {m, m}, attributes); };
  expect_error(ErrorKind::invalid_model, "activation 'Step' is not known",
               [&] { infer({{"activation", std::string("Step")}}); });
  expect_error(ErrorKind::invalid_model, "attribute 'activation_alpha' is missing",
               [&] { infer({{"activation", std::string("Elu")}}); });
  expect_error(ErrorKind::invalid_model, "activation 'Clip' has no parameters here",
               [&] { infer({{"activation", std::string("Clip")}}); });
}

}  // namespace
}  // namespace tessera::test::fused_matmul_test
