#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::conv_transpose_with_dynamic_pads_test {
namespace {

using ir::Dims;
using ir::ValueType;

const std::string kOp = "com.microsoft::ConvTransposeWithDynamicPads";

TEST(ConvTransposeWithDynamicPads, IsConvTransposeWithThesePads) {
  const Tensor x = random_tensor(DType::f32, {1, 2, 4}, 1), w = random_tensor(DType::f32, {2, 3, 3}, 2);
  const std::vector<std::int64_t> strides{2}, pads{1, 2};
  EXPECT_TRUE(close_to(run_op_tensor({kOp, {x, w, Tensor::from<std::int64_t>({2}, {1, 2})}, {{"strides", strides}}}),
                       run_op_tensor({"ConvTranspose", {x, w}, {{"strides", strides}, {"pads", pads}}})));
}

TEST(ConvTransposeWithDynamicPads, LeavesSpatialSizesOpen) {
  const ValueType x = ValueType::tensor(DType::f32, Shape{1, 2, 4}), w = ValueType::tensor(DType::f32, Shape{2, 3, 3}),
                  pads = ValueType::tensor(DType::i64, Shape{2});
  EXPECT_EQ(infer_op(kOp, {x, w, pads})[0], ValueType::tensor(DType::f32, Dims{1, 3, ir::Dim()}));
  expect_error(ErrorKind::invalid_model, "4 pads, expected 2",
               [&] { infer_op(kOp, {x, w, ValueType::tensor(DType::i64, Shape{4})}); });
}

}  // namespace
}  // namespace tessera::test::conv_transpose_with_dynamic_pads_test
