#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::matrix_product_test {
namespace {

ir::ValueType f32(ir::Dims dims) {
  return ir::ValueType::tensor(DType::f32, std::move(dims));
}

TEST(MatMul, BroadcastsBatchesAndTakesVectors) {
  const Tensor a = Tensor::from<float>({2, 1, 2}, {1.0f, 2.0f, 3.0f, 4.0f});
  const Tensor b = Tensor::from<float>({2, 2}, {1.0f, 0.0f, 1.0f, 1.0f});
  EXPECT_TRUE(close_to(run_op_tensor({"MatMul", {a, b}}), Tensor::from<float>({2, 1, 2}, {3.0f, 2.0f, 7.0f, 4.0f})));
  const Tensor v = Tensor::from<float>({2}, {1.0f, 2.0f});
  EXPECT_TRUE(close_to(run_op_tensor({"MatMul", {v, v}}), Tensor::scalar(5.0f)));
}

TEST(MatMul, WrapsIntegersLikeTheHardware) {
  const Tensor a = Tensor::from<std::int32_t>({1, 1}, {1 << 30}), b = Tensor::from<std::int32_t>({1, 1}, {6});
  EXPECT_TRUE(close_to(run_op_tensor({"MatMul", {a, b}}),
                       Tensor::from<std::int32_t>({1, 1}, {static_cast<std::int32_t>(std::uint32_t{6} << 30)})));
}

TEST(MatMul, AnEmptyInnerDimensionGivesZeros) {
  EXPECT_TRUE(close_to(run_op_tensor({"MatMul", {Tensor(DType::f32, {2, 0}), Tensor(DType::f32, {0, 1})}}),
                       Tensor::from<float>({2, 1}, {0.0f, 0.0f})));
}

TEST(MatMul, KeepsSymbols) {
  const ir::Dim batch = ir::Dim::symbol("batch"), length = ir::Dim::symbol("length");
  EXPECT_EQ(infer_op("MatMul", {f32({batch, length, 8}), f32({8, 4})})[0], f32({batch, length, 4}));
}

TEST(MatMul, RefusesWhatDoesNotFit) {
  expect_error(ErrorKind::invalid_model, "the inner dimensions of [2, 3] and [4, 5] differ",
               [] { infer_op("MatMul", {f32({2, 3}), f32({4, 5})}); });
  expect_error(ErrorKind::invalid_model, "a matrix product takes no scalars (shapes [] and [2])",
               [] { infer_op("MatMul", {f32({}), f32({2})}); });
}

TEST(Gemm, TransposesScalesAndAdds) {
  const Tensor a = Tensor::from<float>({2, 1}, {1.0f, 2.0f}), b = Tensor::from<float>({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f}),
               c = Tensor::from<float>({2}, {10.0f, 20.0f});
  const Tensor y = run_op_tensor(
      {"Gemm", {a, b, c}, {{"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}, {"alpha", 2.0f}, {"beta", 0.5f}}});
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 2}, {15.0f, 32.0f})));
}

TEST(Gemm, RefusesABiasThatWouldGrowTheResult) {
  expect_error(ErrorKind::invalid_model, "input 'C' of shape [5, 3] does not broadcast to [1, 3]",
               [] { infer_op("Gemm", {f32({1, 2}), f32({2, 3}), f32({5, 3})}); });
}

TEST(MatMulInteger, SubtractsZeroPointsByRowAndColumn) {
  const Tensor a = Tensor::from<std::uint8_t>({2, 1}, {10, 20}), b = Tensor::from<std::int8_t>({1, 2}, {3, -4});
  const Tensor y = run_op_tensor(
      {"MatMulInteger", {a, b, Tensor::from<std::uint8_t>({2}, {1, 2}), Tensor::from<std::int8_t>({2}, {1, 0})}});
  EXPECT_TRUE(close_to(y, Tensor::from<std::int32_t>({2, 2}, {18, -36, 36, -72})));
}

TEST(QLinearMatMul, RequantisesAndSaturates) {
  const Tensor one = Tensor::scalar(1.0f), zero = Tensor::scalar(std::uint8_t{0});
  const Tensor a = Tensor::from<std::uint8_t>({1, 1}, {200}), b = Tensor::from<std::uint8_t>({1, 2}, {200, 1});
  const Tensor y = run_op_tensor(
      {"QLinearMatMul", {a, one, zero, b, one, zero, Tensor::scalar(400.0f), Tensor::scalar(std::uint8_t{200})}});
  EXPECT_TRUE(close_to(y, Tensor::from<std::uint8_t>({1, 2}, {255, 200})));
}

TEST(Einsum, FollowsEquations) {
  const Tensor m = Tensor::from<float>({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f});
  EXPECT_TRUE(close_to(run_op_tensor({"Einsum", {m}, {{"equation", std::string("ij->ji")}}}),
                       Tensor::from<float>({2, 2}, {1.0f, 3.0f, 2.0f, 4.0f})));
  EXPECT_TRUE(close_to(run_op_tensor({"Einsum", {m}, {{"equation", std::string("ii")}}}), Tensor::scalar(5.0f)));
  EXPECT_TRUE(close_to(run_op_tensor({"Einsum", {m, m}, {{"equation", std::string("...j, jk -> ...k")}}}),
                       Tensor::from<float>({2, 2}, {7.0f, 10.0f, 15.0f, 22.0f})));
}

TEST(Einsum, RefusesBadEquations) {
  const Tensor m(DType::f32, {2, 2});
  auto run = [&](const std::string& equation) { return [=] { run_op({"Einsum", {m}, {{"equation", equation}}}); }; };
  expect_error(ErrorKind::invalid_model, "the equation 'ij,jk->ik' has 2 terms for 1 inputs", run("ij,jk->ik"));
  expect_error(ErrorKind::invalid_model, "unexpected '-' in the equation", run("i-j"));
  expect_error(ErrorKind::invalid_model, "index 'k' of the output is in no input", run("ij->k"));
  expect_error(ErrorKind::invalid_model, "input 0 of shape [2, 2] does not fit its term", run("ijk->i"));
}

TEST(Det, OfAPermutationAndABatch) {
  const Tensor m = Tensor::from<float>({2, 2, 2}, {0.0f, 1.0f, 1.0f, 0.0f, 2.0f, 1.0f, 1.0f, 3.0f});
  EXPECT_TRUE(close_to(run_op_tensor({"Det", {m}}), Tensor::from<float>({2}, {-1.0f, 5.0f}),
                       Tolerance::epsilons(DType::f32, 4)));
  expect_error(ErrorKind::invalid_model, "shape [2, 3] does not hold square matrices",
               [] { infer_op("Det", {f32({2, 3})}); });
}

}  // namespace
}  // namespace tessera::test::matrix_product_test
