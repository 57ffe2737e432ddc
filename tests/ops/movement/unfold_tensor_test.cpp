#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::unfold_tensor_test {
namespace {

const std::string kOp = "com.microsoft::UnfoldTensor";

ir::Attributes attributes(std::int64_t dim, std::int64_t size, std::int64_t step) {
  return {{"dim", dim}, {"size", size}, {"step", step}};
}

TEST(UnfoldTensor, PutsSlicesOnANewLastAxis) {
  const Tensor x = Tensor::from<std::int32_t>({4, 2}, {0, 10, 1, 11, 2, 12, 3, 13});
  EXPECT_TRUE(close_to(run_op_tensor({kOp, {x}, attributes(0, 2, 2)}),
                       Tensor::from<std::int32_t>({2, 2, 2}, {0, 1, 10, 11, 2, 3, 12, 13})));
}

TEST(UnfoldTensor, CountsWholeSlices) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 8});
  EXPECT_EQ(infer_op(kOp, {x}, attributes(-1, 3, 2))[0],
            ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 3, 3}));
  expect_error(ErrorKind::invalid_model, "slices of 9 from axis 1 of [batch, 8]",
               [&] { infer_op(kOp, {x}, attributes(1, 9, 1)); });
  expect_error(ErrorKind::invalid_model, "size is 2 and step is 0, expected at least 1",
               [&] { infer_op(kOp, {x}, attributes(1, 2, 0)); });
}

}  // namespace
}  // namespace tessera::test::unfold_tensor_test
