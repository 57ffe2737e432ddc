#include "ops/pooling/max_pool_gradient.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::max_pool_gradient_test {
namespace {

ir::ValueType f32(ir::Dims dims) {
  return ir::ValueType::tensor(DType::f32, std::move(dims));
}

TEST(MaxPoolGradient, HasTheShapeOfTheData) {
  const ir::Dim batch = ir::Dim::symbol("batch");
  const ir::Attributes pair{{"kernel_shape", std::vector<std::int64_t>{2, 2}}};
  const ir::ValueType x = f32({batch, 3, 5, 6}), y = f32({batch, 3, 4, 5});
  EXPECT_EQ(infer_op("tessera::MaxPoolGradient", {y, x, y}, pair)[0], x);
}

TEST(MaxPoolGradient, RefusesWhatDoesNotFit) {
  ir::Attributes attributes{{"kernel_shape", std::vector<std::int64_t>{2, 2}}};
  const ir::ValueType x = f32({1, 3, 5, 6}), y = f32({1, 3, 4, 5}), other = f32({1, 3, 4, 6});
  expect_error(ErrorKind::invalid_model, "'dY' has shape [1, 3, 4, 6], but pooling [1, 3, 5, 6] gives [1, 3, 4, 5]",
               [&] { infer_op("tessera::MaxPoolGradient", {other, x, y}, attributes); });
  attributes["channel_axis"] = std::int64_t{2};
  expect_error(ErrorKind::invalid_model, "channel_axis is 2, expected 1 or the last axis",
               [&] { infer_op("tessera::MaxPoolGradient", {y, x, y}, attributes); });
}

}  // namespace
}  // namespace tessera::test::max_pool_gradient_test
