#include "ops/movement/slice.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::slice_test {
namespace {

Tensor list(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}
const Tensor kGrid = Tensor::from<std::uint8_t>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});

TEST(Slice, StepsForwardsAndBackwards) {
  EXPECT_TRUE(identical(run_op_tensor({"Slice", {kGrid, list({1, 0}), list({2, 3}), list({0, 1}), list({1, 2})}}),
                        Tensor::from<std::uint8_t>({1, 2}, {5, 7})));
  EXPECT_TRUE(identical(run_op_tensor({"Slice", {kGrid, list({-1}), list({INT64_MIN}), list({1}), list({-2})}}),
                        Tensor::from<std::uint8_t>({2, 2}, {4, 2, 8, 6})));
}

TEST(Slice, ExtremeValuesClamp) {
  using ops::slice_range;
  const auto count = [](std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step) {
    return slice_range(dim, start, end, step).count;
  };
  EXPECT_EQ(count(4, INT64_MIN, INT64_MAX, 1), 4);
  EXPECT_EQ(count(4, INT64_MAX, INT64_MIN, -1), 4);
  EXPECT_EQ(count(4, INT64_MAX, INT64_MIN, INT64_MIN), 1);
  EXPECT_EQ(count(4, 0, INT64_MAX, INT64_MAX), 1);
  EXPECT_EQ(count(4, 3, 1, 1), 0);
  EXPECT_EQ(count(0, -1, 5, -1), 0);
  EXPECT_EQ(count(10, 8, 1, -3), 3);
}

TEST(Slice, LeavesOtherAxesSymbolic) {
  const ir::ValueType x =
      ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("seq"), 8});
  const ir::ValueType one = ir::ValueType::tensor(DType::i64, Shape{1}),
                      two = ir::ValueType::tensor(DType::i64, Shape{2});
  EXPECT_EQ(
      infer_op("Slice", {x, two, two, two}, {}, 1, {{}, list({0, 1}), list({INT64_MAX, 3}), list({1, 2})})[0].dims,
      (ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("seq"), 2}));
  EXPECT_EQ(infer_op("Slice", {x, one, one, one}, {}, 1, {{}, {}, {}, list({1})})[0].dims,
            (ir::Dims{ir::Dim::symbol("batch"), ir::Dim(), 8}));
}

TEST(Slice, RefusesBadRequests) {
  expect_error(ErrorKind::invalid_model, "a slice with step 0",
               [] { run_op({"Slice", {kGrid, list({0}), list({1}), list({0}), list({0})}}); });
  expect_error(ErrorKind::invalid_model, "2 starts, 1 ends, 2 axes and 2 steps must be as many",
               [] { run_op({"Slice", {kGrid, list({0, 0}), list({1})}}); });
}

}  // namespace
}  // namespace tessera::test::slice_test
