#include <gtest/gtest.h>

#include "support/run_op.h"

namespace tessera::test::shape_of_test {
namespace {

const Tensor kInput(DType::u4, {3, 4, 5});

TEST(Shape, GivesAllDimensions) {
  EXPECT_TRUE(identical(run_op_tensor({"Shape", {kInput}}), Tensor::from<std::int64_t>({3}, {3, 4, 5})));
}

TEST(Shape, ClampsStartAndEnd) {
  EXPECT_TRUE(identical(run_op_tensor({"Shape", {kInput}, {{"start", std::int64_t{-2}}, {"end", std::int64_t{-1}}}}),
                        Tensor::from<std::int64_t>({1}, {4})));
  EXPECT_EQ(run_op_tensor({"Shape", {kInput}, {{"start", std::int64_t{2}}, {"end", INT64_MIN}}}).shape(), (Shape{0}));
}

TEST(Shape, KnowsItsLengthForSymbolicDimensions) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 1});
  EXPECT_EQ(infer_op("Shape", {x})[0], ir::ValueType::tensor(DType::i64, Shape{2}));
  EXPECT_EQ(infer_op("Shape", {ir::ValueType::tensor(DType::f32)})[0].dims, ir::Dims(1));
}

TEST(Size, CountsElements) {
  EXPECT_TRUE(identical(run_op_tensor({"Size", {kInput}}), Tensor::scalar<std::int64_t>(60)));
}

}  // namespace
}  // namespace tessera::test::shape_of_test
