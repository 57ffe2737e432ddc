#include <gtest/gtest.h>

#include "support/run_op.h"
#include "tessera/error.h"

namespace tessera::ops::linear_test {
namespace {

using ir::ValueType;

ir::Dims dims_of(ir::Dims x, ir::Dims w, const ir::Attributes& attributes = {},
                 std::optional<ir::Dims> bias = std::nullopt) {
  std::vector<ValueType> inputs{ValueType::tensor(DType::f32, std::move(x)),
                                ValueType::tensor(DType::f32, std::move(w))};
  if (bias) inputs.push_back(ValueType::tensor(DType::f32, std::move(*bias)));
  return *test::infer_op("tessera::Linear", inputs, attributes)[0].dims;
}

ir::Attributes with(std::int64_t axis, std::int64_t transposed) {
  return {{"axis", axis}, {"transB", transposed}};
}

TEST(Linear, InputsAreTheAxesFromTheGivenOneOn) {
  const ir::Dim batch = ir::Dim::symbol("batch");
  EXPECT_EQ(dims_of({batch, 7, 6}, {6, 5}), (ir::Dims{batch, 7, 5}));
  EXPECT_EQ(dims_of({batch, 7, 6}, {5, 6}, with(-1, 1), ir::Dims{5}), (ir::Dims{batch, 7, 5}));
  EXPECT_EQ(dims_of({batch, 7, 6}, {42, 5}, with(1, 0)), (ir::Dims{batch, 5}));
  EXPECT_EQ(dims_of({batch, 7, 6}, {5, 42}, with(-2, 1)), (ir::Dims{batch, 5}));
}

TEST(Linear, WhatDoesNotFitIsRefused) {
  EXPECT_THROW(dims_of({2, 7, 6}, {5, 6}), Error);
  EXPECT_THROW(dims_of({2, 7, 6}, {6, 5}, with(-1, 1)), Error);
  EXPECT_THROW(dims_of({2, 7, 6}, {6, 5}, with(1, 0)), Error);
  EXPECT_THROW(dims_of({42}, {42, 5}), Error);
  EXPECT_THROW(dims_of({7, 6}, {42, 5}, with(0, 0)), Error);
  EXPECT_THROW(dims_of({7, 6}, {6, 5}, with(2, 0)), Error);
  EXPECT_THROW(dims_of({7, 6}, {42, 5}, with(-3, 0)), Error);
  EXPECT_THROW(dims_of({7, 6}, {5, 6}, with(-1, 1), ir::Dims{6}), Error);
}

}  // namespace
}  // namespace tessera::ops::linear_test
