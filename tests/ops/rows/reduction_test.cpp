#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::reduction_test {
namespace {

Tensor axes(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

const Tensor kX = Tensor::from<float>({2, 3}, {1, -2, 3, 4, 5, 6});
const ir::Attributes kDrop{{"keepdims", std::int64_t{0}}};

TEST(Reduction, AlongAnAxis) {
  struct Case {
    const char* op;
    float first, second;
  };
  for (const Case& c : {Case{"ReduceL1", 6, 15},
                        {"ReduceL2", 3.7416575f, 8.774964f},
                        {"ReduceLogSum", 0.6931472f, 2.7080503f},
                        {"ReduceLogSumExp", 3.1328452f, 6.407606f},
                        {"ReduceMax", 3, 6},
                        {"ReduceMean", 0.6666667f, 5},
                        {"ReduceMin", -2, 4},
                        {"ReduceProd", -6, 120},
                        {"ReduceSum", 2, 15},
                        {"ReduceSumSquare", 14, 77}}) {
    EXPECT_TRUE(close_to(run_op_tensor({c.op, {kX, axes({-1})}}), Tensor::from<float>({2, 1}, {c.first, c.second}),
                         Tolerance::epsilons(DType::f32, 2)))
        << c.op;
  }
}

TEST(Reduction, OverAllAxesOrNone) {
  EXPECT_TRUE(identical(run_op_tensor({"ReduceSum", {kX}, kDrop}), Tensor::scalar(17.0f)));
  EXPECT_TRUE(identical(run_op_tensor({"ReduceSum", {kX, axes({})}}), Tensor::from<float>({1, 1}, {17})));
  EXPECT_TRUE(identical(run_op_tensor({"ReduceSumSquare", {kX, axes({})}, {{"noop_with_empty_axes", std::int64_t{1}}}}),
                        Tensor::from<float>({2, 3}, {1, 4, 9, 16, 25, 36})));
}

TEST(Reduction, OfNothingGivesTheNeutralElement) {
  const Tensor empty(DType::f32, {0, 2});
  const auto both = [](float value) { return Tensor::from<float>({2}, {value, value}); };
  const auto reduced = [&](const char* op) { return run_op_tensor({op, {empty, axes({0})}, kDrop}); };
  EXPECT_TRUE(identical(reduced("ReduceSum"), both(0)));
  EXPECT_TRUE(identical(reduced("ReduceProd"), both(1)));
  EXPECT_TRUE(identical(reduced("ReduceMax"), both(-INFINITY)));
  EXPECT_TRUE(identical(reduced("ReduceMin"), both(INFINITY)));
  EXPECT_TRUE(identical(reduced("ReduceLogSumExp"), both(-INFINITY)));
  EXPECT_TRUE(close_to(reduced("ReduceMean"), both(NAN)));
  EXPECT_TRUE(identical(run_op_tensor({"ReduceMax", {Tensor(DType::i32, {0})}, kDrop}),
                        Tensor::scalar(std::numeric_limits<std::int32_t>::min())));
}

TEST(Reduction, OfIntegersAndBools) {
  const Tensor x = Tensor::from<std::int32_t>({3}, {7, -2, 5});
  EXPECT_TRUE(identical(run_op_tensor({"ReduceMean", {x}, kDrop}), Tensor::scalar(std::int32_t{3})));
  EXPECT_TRUE(identical(run_op_tensor({"ReduceL1", {x}, kDrop}), Tensor::scalar(std::int32_t{14})));
  const Tensor b = Tensor::from<bool>({2, 2}, {true, false, false, false});
  EXPECT_TRUE(identical(run_op_tensor({"ReduceMax", {b, axes({1})}, kDrop}), Tensor::from<bool>({2}, {true, false})));
  EXPECT_TRUE(identical(run_op_tensor({"ReduceMin", {b, axes({1})}, kDrop}), Tensor::from<bool>({2}, {false, false})));
}

TEST(Reduction, LogSumExpSurvivesLargeValues) {
  EXPECT_TRUE(close_to(run_op_tensor({"ReduceLogSumExp", {Tensor::from<float>({2}, {1000, 1000})}, kDrop}),
                       Tensor::scalar(1000.6931f), Tolerance::epsilons(DType::f32, 1)));
}

TEST(Reduction, InfersWhatIsCertain) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 3, 4});
  const ir::ValueType two = ir::ValueType::tensor(DType::i64, Shape{2}), some = ir::ValueType::tensor(DType::i64);
  EXPECT_EQ(ir::to_string(infer_op("ReduceMean", {x, two}, kDrop, 1, {{}, axes({1, -1})})[0]), "f32[batch]");
  EXPECT_EQ(ir::to_string(infer_op("ReduceMean", {x}, {})[0]), "f32[1, 1, 1]");
  EXPECT_EQ(ir::to_string(infer_op("ReduceMean", {x, two}, kDrop)[0]), "f32[?]");
  EXPECT_EQ(ir::to_string(infer_op("ReduceMean", {x, some}, {})[0]), "f32[?, ?, ?]");
  EXPECT_EQ(ir::to_string(infer_op("ReduceMean", {x, some}, kDrop)[0]), "f32[*]");
}

TEST(Reduction, RefusesBadAxes) {
  expect_error(ErrorKind::invalid_model, "axis 2 is outside [-2, 2) of a tensor of rank 2",
               [] { run_op({"ReduceSum", {kX, axes({2})}}); });
  expect_error(ErrorKind::invalid_model, "axis -1 is listed more than once",
               [] { run_op({"ReduceSum", {kX, axes({1, -1})}}); });
}

}  // namespace
}  // namespace tessera::test::reduction_test
