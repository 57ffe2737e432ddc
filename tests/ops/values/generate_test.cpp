#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::generate_test {
namespace {

Tensor list(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}
template <typename T>
OpCall range(T start, T limit, T delta) {
  return {"Range", {Tensor::scalar(start), Tensor::scalar(limit), Tensor::scalar(delta)}};
}

TEST(ConstantOfShape, FillsWithTheValue) {
  EXPECT_TRUE(
      identical(run_op_tensor({"ConstantOfShape", {list({2})}, {{"value", Tensor::from<std::int8_t>({1}, {7})}}}),
                Tensor::from<std::int8_t>({2}, {7, 7})));
  EXPECT_TRUE(identical(run_op_tensor({"ConstantOfShape", {list({})}}), Tensor::scalar(0.0f)));
  EXPECT_EQ(infer_op("ConstantOfShape", {ir::ValueType::tensor(DType::i64, Shape{3})})[0].dims, ir::Dims(3));
}

TEST(ConstantOfShape, RefusesBadShapes) {
  expect_error(ErrorKind::invalid_model, "dimension -3 in the requested shape",
               [] { run_op({"ConstantOfShape", {list({-3})}}); });
  expect_error(ErrorKind::over_budget, "shape [4294967296, 4294967296] has too many elements",
               [] { run_op({"ConstantOfShape", {list({std::int64_t{1} << 32, std::int64_t{1} << 32})}}); });
  expect_error(ErrorKind::invalid_model, "a result of rank 1000000000000, expected at most 64",
               [] { infer_op("ConstantOfShape", {ir::ValueType::tensor(DType::i64, Shape{1000000000000})}); });
}

TEST(Range, CountsToTheLimit) {
  EXPECT_TRUE(identical(run_op_tensor(range<std::int32_t>(10, 4, -2)), Tensor::from<std::int32_t>({3}, {10, 8, 6})));
  EXPECT_TRUE(identical(run_op_tensor(range<float>(1, 2, 0.25f)), Tensor::from<float>({4}, {1, 1.25f, 1.5f, 1.75f})));
  EXPECT_EQ(run_op_tensor(range<std::int64_t>(5, 5, 1)).shape(), (Shape{0}));
  EXPECT_TRUE(identical(run_op_tensor(range<std::int64_t>(INT64_MIN, INT64_MAX, INT64_MAX)),
                        list({INT64_MIN, -1, INT64_MAX - 1})));
}

TEST(Range, RefusesEndlessOnes) {
  expect_error(ErrorKind::failed, "delta is 0", [] { run_op(range<std::int32_t>(0, 1, 0)); });
  expect_error(ErrorKind::over_budget, "the range has too many elements",
               [] { run_op(range<float>(0, 1e30f, 1e-30f)); });
  expect_error(ErrorKind::over_budget, "the range has too many elements",
               [] { run_op(range<std::int64_t>(INT64_MIN, INT64_MAX, 1)); });
  expect_error(ErrorKind::failed, "a range from 0 to inf by 1", [] { run_op(range<float>(0, INFINITY, 1)); });
}

TEST(EyeLike, OnesOnADiagonal) {
  const Tensor x(DType::f32, {2, 3});
  const ir::Attributes attributes = {{"k", std::int64_t{1}}, {"dtype", static_cast<std::int64_t>(DType::i32)}};
  EXPECT_TRUE(
      identical(run_op_tensor({"EyeLike", {x}, attributes}), Tensor::from<std::int32_t>({2, 3}, {0, 1, 0, 0, 0, 1})));
  EXPECT_TRUE(
      identical(run_op_tensor({"EyeLike", {x}, {{"k", INT64_MIN}}}), Tensor::from<float>({2, 3}, {0, 0, 0, 0, 0, 0})));
  expect_error(ErrorKind::invalid_model, "attribute 'dtype' is 99, which is no element type",
               [&] { run_op({"EyeLike", {x}, {{"dtype", std::int64_t{99}}}}); });
}

TEST(OneHot, OnAndOffValues) {
  const Tensor indices = list({1, -1, 7}), values = Tensor::from<float>({2}, {0, 1});
  EXPECT_TRUE(identical(run_op_tensor({"OneHot", {indices, Tensor::scalar(2.0f), values}}),
                        Tensor::from<float>({3, 2}, {0, 1, 0, 1, 0, 0})));
  EXPECT_TRUE(identical(run_op_tensor({"OneHot", {indices, Tensor::scalar(2.0f), values}, {{"axis", std::int64_t{0}}}}),
                        Tensor::from<float>({2, 3}, {0, 0, 0, 1, 1, 0})));
  expect_error(ErrorKind::failed, "depth is -1", [&] { run_op({"OneHot", {indices, Tensor::scalar(-1.0f), values}}); });
}

}  // namespace
}  // namespace tessera::test::generate_test
