#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::arg_max_test {
namespace {

const Tensor kX = Tensor::from<float>({2, 3}, {1, 5, 5, 2, 2, 9});

TEST(ArgMax, FirstOrLast) {
  EXPECT_TRUE(identical(run_op_tensor({"ArgMax", {kX}, {{"axis", std::int64_t{1}}}}),
                        Tensor::from<std::int64_t>({2, 1}, {1, 2})));
  EXPECT_TRUE(identical(
      run_op_tensor(
          {"ArgMax",
           {kX},
           {{"axis", std::int64_t{-1}}, {"select_last_index", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}}),
      Tensor::from<std::int64_t>({2}, {2, 2})));
  EXPECT_TRUE(identical(run_op_tensor({"ArgMin", {kX}, {{"axis", std::int64_t{1}}}}),
                        Tensor::from<std::int64_t>({2, 1}, {0, 0})));
}

TEST(ArgMax, InfersAndRefuses) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 3});
  EXPECT_EQ(ir::to_string(infer_op("ArgMax", {x}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}})[0]),
            "i64[batch]");
  expect_error(ErrorKind::invalid_model, "axis 0 of [0, 2] has no elements to choose from",
               [] { run_op({"ArgMax", {Tensor(DType::f32, {0, 2})}}); });
}

}  // namespace
}  // namespace tessera::test::arg_max_test
