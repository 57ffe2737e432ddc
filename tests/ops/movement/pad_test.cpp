#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::pad_test {
namespace {

Tensor list(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}
Tensor line(std::initializer_list<std::int32_t> values) {
  return Tensor::from<std::int32_t>({static_cast<std::int64_t>(values.size())}, values);
}
ir::Attributes mode(const char* name) {
  return {{"mode", std::string(name)}};
}

TEST(Pad, Modes) {
  const Tensor x = line({1, 2, 3}), pads = list({4, 2});
  EXPECT_TRUE(
      identical(run_op_tensor({"Pad", {x, pads, Tensor::scalar<std::int32_t>(9)}}), line({9, 9, 9, 9, 1, 2, 3, 9, 9})));
  EXPECT_TRUE(identical(run_op_tensor({"Pad", {x, pads}, mode("reflect")}), line({1, 2, 3, 2, 1, 2, 3, 2, 1})));
  EXPECT_TRUE(identical(run_op_tensor({"Pad", {x, pads}, mode("edge")}), line({1, 1, 1, 1, 1, 2, 3, 3, 3})));
  EXPECT_TRUE(identical(run_op_tensor({"Pad", {x, pads}, mode("wrap")}), line({3, 1, 2, 3, 1, 2, 3, 1, 2})));
}

TEST(Pad, NegativePadsCropFirst) {
  EXPECT_TRUE(identical(run_op_tensor({"Pad", {line({1, 2, 3, 4}), list({-1, 1})}, mode("edge")}), line({2, 3, 4, 4})));
  EXPECT_TRUE(identical(run_op_tensor({"Pad", {line({1, 2, 3, 4}), list({2, -3})}}), line({0, 0, 1})));
}

TEST(Pad, GivenAxesLeaveOthers) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 4});
  const ir::ValueType two = ir::ValueType::tensor(DType::i64, Shape{2}),
                      one = ir::ValueType::tensor(DType::i64, Shape{1});
  const ir::ValueType value = ir::ValueType::tensor(DType::f32, Shape{});
  EXPECT_EQ(infer_op("Pad", {x, two, value, one}, {}, 1, {{}, list({1, 2}), {}, list({-1})})[0].dims,
            (ir::Dims{ir::Dim::symbol("batch"), 7}));
}

TEST(Pad, RefusesBadRequests) {
  expect_error(ErrorKind::invalid_model, "pads -2 and -2 remove more than a dimension of 3",
               [] { run_op({"Pad", {line({1, 2, 3}), list({-2, -2})}}); });
  expect_error(ErrorKind::invalid_model, "1 pads for 1 axes, expected two an axis",
               [] { run_op({"Pad", {line({1, 2, 3}), list({1})}}); });
  expect_error(ErrorKind::failed, "mode edge cannot pad axis 0, which has no elements",
               [] { run_op({"Pad", {line({}), list({1, 0})}, mode("edge")}); });
  expect_error(ErrorKind::over_budget, "size overflow: 9223372036854775807 + 9223372036854775807",
               [] { run_op({"Pad", {line({}), list({INT64_MAX, INT64_MAX})}}); });
}

TEST(CenterCropPad, CropsAndPadsAroundTheCentre) {
  EXPECT_TRUE(identical(run_op_tensor({"CenterCropPad", {line({1, 2, 3, 4, 5}), list({2})}}), line({2, 3})));
  EXPECT_TRUE(identical(run_op_tensor({"CenterCropPad", {line({1, 2}), list({5})}}), line({0, 1, 2, 0, 0})));
}

}  // namespace
}  // namespace tessera::test::pad_test
