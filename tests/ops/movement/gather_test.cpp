#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::gather_test {
namespace {

const Tensor kData = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Gather, TakesRowsAndColumns) {
  EXPECT_TRUE(identical(run_op_tensor({"Gather", {kData, Tensor::scalar<std::int64_t>(-1)}}),
                        Tensor::from<float>({3}, {4, 5, 6})));
  EXPECT_TRUE(identical(
      run_op_tensor({"Gather", {kData, Tensor::from<std::int32_t>({1, 2}, {2, 0})}, {{"axis", std::int64_t{1}}}}),
      Tensor::from<float>({2, 1, 2}, {3, 1, 6, 4})));
}

TEST(Gather, JoinsSymbols) {
  const ir::ValueType table = ir::ValueType::tensor(DType::f32, Shape{1000, 16});
  const ir::ValueType indices =
      ir::ValueType::tensor(DType::i64, ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("seq")});
  EXPECT_EQ(infer_op("Gather", {table, indices})[0].dims,
            (ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("seq"), 16}));
}

TEST(Gather, RefusesIndicesOutside) {
  expect_error(ErrorKind::failed, "index 2 is outside [-2, 2)",
               [] { run_op({"Gather", {kData, Tensor::scalar<std::int64_t>(2)}}); });
  expect_error(ErrorKind::failed, "index -9223372036854775808 is outside [-2, 2)",
               [] { run_op({"Gather", {kData, Tensor::scalar<std::int64_t>(INT64_MIN)}}); });
}

TEST(GatherElements, PicksAlongAxis) {
  const Tensor indices = Tensor::from<std::int64_t>({1, 3}, {1, 0, -1});
  EXPECT_TRUE(identical(run_op_tensor({"GatherElements", {kData, indices}}), Tensor::from<float>({1, 3}, {4, 2, 6})));
  expect_error(ErrorKind::invalid_model, "data of rank 2 and indices of rank 1 must have the same rank",
               [] { run_op({"GatherElements", {kData, Tensor::from<std::int64_t>({1}, {0})}}); });
}

TEST(GatherND, PicksSlicesWithinBatches) {
  const Tensor data = Tensor::from<std::int32_t>({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_TRUE(identical(run_op_tensor({"GatherND", {data, Tensor::from<std::int64_t>({2, 2}, {0, 1, 1, 0})}}),
                        Tensor::from<std::int32_t>({2, 2}, {2, 3, 4, 5})));
  EXPECT_TRUE(identical(
      run_op_tensor(
          {"GatherND", {data, Tensor::from<std::int64_t>({2, 1}, {1, 0})}, {{"batch_dims", std::int64_t{1}}}}),
      Tensor::from<std::int32_t>({2, 2}, {2, 3, 4, 5})));
}

TEST(GatherND, RefusesTooLongIndices) {
  expect_error(ErrorKind::invalid_model, "an index has 3 parts, but 2 axes of data [2, 3] are left to it",
               [] { run_op({"GatherND", {kData, Tensor::from<std::int64_t>({1, 3}, {0, 0, 0})}}); });
}

}  // namespace
}  // namespace tessera::test::gather_test
