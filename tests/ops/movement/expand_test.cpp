#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::expand_test {
namespace {

Tensor list(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}
const Tensor kColumn = Tensor::from<std::string>({2, 1}, {"a", "b"});
const ir::ValueType kSymbolic = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 3});

TEST(Expand, BroadcastsBothWays) {
  EXPECT_TRUE(identical(run_op_tensor({"Expand", {kColumn, list({1, 3})}}),
                        Tensor::from<std::string>({2, 3}, {"a", "a", "a", "b", "b", "b"})));
  EXPECT_EQ(run_op_tensor({"Expand", {kColumn, list({2, 1, 0})}}).shape(), (Shape{2, 2, 0}));
}

TEST(Expand, KeepsSymbols) {
  const ir::ValueType request = ir::ValueType::tensor(DType::i64, Shape{3});
  EXPECT_EQ(infer_op("Expand", {kSymbolic, request}, {}, 1, {{}, list({2, 1, 3})})[0].dims,
            (ir::Dims{2, ir::Dim::symbol("batch"), 3}));
  EXPECT_EQ(infer_op("Expand", {kSymbolic, request})[0].dims, (ir::Dims{ir::Dim(), ir::Dim(), 3}));
}

TEST(Expand, RefusesWhatDoesNotFit) {
  expect_error(ErrorKind::invalid_model, "cannot expand [2, 1] to [3, 1]",
               [] { run_op({"Expand", {kColumn, list({3, 1})}}); });
  expect_error(ErrorKind::invalid_model, "dimension -1 in the requested shape",
               [] { run_op({"Expand", {kColumn, list({2, -1})}}); });
  expect_error(ErrorKind::over_budget, "shape [2, 4611686018427387904] has too many elements",
               [] { run_op({"Expand", {kColumn, list({1, std::int64_t{1} << 62})}}); });
}

TEST(Tile, RepeatsAxes) {
  const Tensor x = Tensor::from<std::int8_t>({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(identical(run_op_tensor({"Tile", {x, list({1, 2})}}),
                        Tensor::from<std::int8_t>({2, 4}, {1, 2, 1, 2, 3, 4, 3, 4})));
  EXPECT_EQ(
      infer_op("Tile", {kSymbolic, ir::ValueType::tensor(DType::i64, Shape{2})}, {}, 1, {{}, list({1, 2})})[0].dims,
      (ir::Dims{ir::Dim::symbol("batch"), 6}));
}

TEST(Tile, RefusesBadRepeats) {
  expect_error(ErrorKind::invalid_model, "axis 0 is repeated -1 times",
               [] { run_op({"Tile", {kColumn, list({-1, 1})}}); });
  expect_error(ErrorKind::invalid_model, "1 repeats for a tensor of rank 2",
               [] { run_op({"Tile", {kColumn, list({2})}}); });
  expect_error(ErrorKind::over_budget, "size overflow: 2 x 9223372036854775807",
               [] { run_op({"Tile", {kColumn, list({INT64_MAX, 1})}}); });
}

}  // namespace
}  // namespace tessera::test::expand_test
