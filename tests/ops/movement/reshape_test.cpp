#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::reshape_test {
namespace {

const Tensor kOneToSix = Tensor::from<std::int32_t>({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
const ir::ValueType kSymbolic = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 1, 4});

Tensor axes(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

TEST(Reshape, TakesARestAndACopiedDimension) {
  EXPECT_EQ(run_op_tensor({"Reshape", {kOneToSix, axes({0, -1})}}).shape(), (Shape{1, 6}));
}

TEST(Flatten, JoinsOnBothSidesOfTheAxis) {
  EXPECT_TRUE(
      identical(run_op_tensor({"Flatten", {kOneToSix}, {{"axis", std::int64_t{2}}}}), kOneToSix.reshaped({2, 3})));
  EXPECT_EQ(run_op_tensor({"Flatten", {kOneToSix}, {{"axis", std::int64_t{-4}}}}).shape(), (Shape{1, 6}));
  EXPECT_EQ(infer_op("Flatten", {kSymbolic})[0].dims, (ir::Dims{ir::Dim::symbol("batch"), 4}));
}

TEST(Squeeze, DropsUnitAxes) {
  EXPECT_EQ(run_op_tensor({"Squeeze", {kOneToSix}}).shape(), (Shape{2, 3}));
  EXPECT_EQ(run_op_tensor({"Squeeze", {kOneToSix, axes({-2})}}).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(
      infer_op("Squeeze", {kSymbolic, ir::ValueType::tensor(DType::i64, Shape{1})}, {}, 1, {{}, axes({1})})[0].dims,
      (ir::Dims{ir::Dim::symbol("batch"), 4}));
  EXPECT_EQ(infer_op("Squeeze", {kSymbolic, ir::ValueType::tensor(DType::i64, Shape{1})})[0].dims, ir::Dims(2));
  EXPECT_FALSE(infer_op("Squeeze", {kSymbolic})[0].dims);
}

TEST(Squeeze, RefusesLargerAxes) {
  expect_error(ErrorKind::invalid_model, "cannot squeeze axis 1 of [1, 2, 1, 3]: its dimension is not 1",
               [] { run_op({"Squeeze", {kOneToSix, axes({1})}}); });
  expect_error(ErrorKind::invalid_model, "axis -4 is listed more than once",
               [] { run_op({"Squeeze", {kOneToSix, axes({0, -4})}}); });
}

TEST(Unsqueeze, AddsUnitAxes) {
  EXPECT_EQ(run_op_tensor({"Unsqueeze", {kOneToSix, axes({-1, 0})}}).shape(), (Shape{1, 1, 2, 1, 3, 1}));
  EXPECT_EQ(
      infer_op("Unsqueeze", {kSymbolic, ir::ValueType::tensor(DType::i64, Shape{1})}, {}, 1, {{}, axes({0})})[0].dims,
      (ir::Dims{1, ir::Dim::symbol("batch"), 1, 4}));
}

TEST(Unsqueeze, RefusesAxesOutsideTheResult) {
  expect_error(ErrorKind::invalid_model, "axis 5 is outside [-5, 5) of a tensor of rank 5",
               [] { run_op({"Unsqueeze", {kOneToSix, axes({5})}}); });
}

}  // namespace
}  // namespace tessera::test::reshape_test
