#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::transpose_test {
namespace {

const Tensor kMatrix = Tensor::from<std::int16_t>({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Transpose, ReversesByDefault) {
  EXPECT_TRUE(
      identical(run_op_tensor({"Transpose", {kMatrix}}), Tensor::from<std::int16_t>({3, 2}, {1, 4, 2, 5, 3, 6})));
}

TEST(Transpose, MovesPackedElements) {
  Tensor x(DType::i4, {2, 2}), expected(DType::i4, {2, 2});
  static_cast<std::uint8_t*>(x.mutable_raw())[0] = 0x21, static_cast<std::uint8_t*>(x.mutable_raw())[1] = 0x43;
  static_cast<std::uint8_t*>(expected.mutable_raw())[0] = 0x31,
  static_cast<std::uint8_t*>(expected.mutable_raw())[1] = 0x42;
  EXPECT_TRUE(identical(run_op_tensor({"Transpose", {x}}), expected));
}

TEST(Transpose, PermutesSymbols) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 2, 3});
  EXPECT_EQ(infer_op("Transpose", {x}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}})[0].dims,
            (ir::Dims{2, ir::Dim::symbol("batch"), 3}));
}

TEST(Transpose, RefusesWhatIsNoPermutation) {
  expect_error(ErrorKind::invalid_model, "axis 1 is listed more than once",
               [] { run_op({"Transpose", {kMatrix}, {{"perm", std::vector<std::int64_t>{1, 1}}}}); });
  expect_error(ErrorKind::invalid_model, "perm names 1 axes of a tensor of rank 2",
               [] { run_op({"Transpose", {kMatrix}, {{"perm", std::vector<std::int64_t>{0}}}}); });
}

// From the example in the ONNX description of DepthToSpace, one row of it.
TEST(DepthToSpace, BothModes) {
  const Tensor x = Tensor::from<float>({1, 8, 1, 2}, {0, 1, 9, 10, 18, 19, 27, 28, 36, 37, 45, 46, 54, 55, 63, 64});
  EXPECT_TRUE(
      identical(run_op_tensor({"DepthToSpace", {x}, {{"blocksize", std::int64_t{2}}}}),
                Tensor::from<float>({1, 2, 2, 4}, {0, 18, 1, 19, 36, 54, 37, 55, 9, 27, 10, 28, 45, 63, 46, 64})));
  EXPECT_TRUE(
      identical(run_op_tensor({"DepthToSpace", {x}, {{"blocksize", std::int64_t{2}}, {"mode", std::string("CRD")}}}),
                Tensor::from<float>({1, 2, 2, 4}, {0, 9, 1, 10, 18, 27, 19, 28, 36, 45, 37, 46, 54, 63, 55, 64})));
}

TEST(SpaceToDepth, UndoesDepthToSpace) {
  const Tensor x = Tensor::from<float>({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor deep = run_op_tensor({"SpaceToDepth", {x}, {{"blocksize", std::int64_t{2}}}});
  EXPECT_TRUE(identical(deep, Tensor::from<float>({1, 4, 1, 2}, {1, 3, 2, 4, 5, 7, 6, 8})));
  EXPECT_TRUE(identical(run_op_tensor({"DepthToSpace", {deep}, {{"blocksize", std::int64_t{2}}}}), x));
}

TEST(SpaceToDepth, RefusesBadBlocks) {
  const Tensor x(DType::f32, {1, 1, 2, 3});
  expect_error(ErrorKind::invalid_model, "width 3 is no multiple of 2",
               [&] { run_op({"SpaceToDepth", {x}, {{"blocksize", std::int64_t{2}}}}); });
  expect_error(ErrorKind::invalid_model, "blocksize is 0, expected a positive number",
               [&] { run_op({"SpaceToDepth", {x}, {{"blocksize", std::int64_t{0}}}}); });
}

}  // namespace
}  // namespace tessera::test::transpose_test
