#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::element_wise_binary_test {
namespace {

template <typename T>
Tensor vector_of(std::initializer_list<T> values) {
  return Tensor::from<T>({static_cast<std::int64_t>(values.size())}, values);
}

TEST(ElementWiseBinary, Broadcasts) {
  const Tensor column = Tensor::from<float>({2, 1}, {1, 2}), row = vector_of<float>({10, 20, 30});
  EXPECT_TRUE(identical(run_op_tensor({"Add", {column, row}}), Tensor::from<float>({2, 3}, {11, 21, 31, 12, 22, 32})));
  EXPECT_TRUE(identical(run_op_tensor({"Sub", {row, column}}), Tensor::from<float>({2, 3}, {9, 19, 29, 8, 18, 28})));
  EXPECT_TRUE(identical(run_op_tensor({"Max", {column, row, Tensor::scalar(25.0f)}}),
                        Tensor::from<float>({2, 3}, {25, 25, 30, 25, 25, 30})));
  EXPECT_TRUE(identical(run_op_tensor({"Mul", {Tensor(DType::f32, {0, 3}), row}}), Tensor(DType::f32, {0, 3})));
}

TEST(ElementWiseBinary, InfersSymbols) {
  const auto type = [](ir::Dims dims) { return ir::ValueType::tensor(DType::f32, std::move(dims)); };
  const ir::Dim batch = ir::Dim::symbol("batch");
  EXPECT_EQ(infer_op("Add", {type({batch, 1, 3}), type({4, 1})})[0], type({batch, 4, 3}));
  EXPECT_EQ(ir::to_string(
                infer_op("Where", {ir::ValueType::tensor(DType::boolean, ir::Dims{batch}), type({1}), type({})})[0]),
            "f32[batch]");
  expect_error(ErrorKind::invalid_model, "shapes [2] and [3] do not broadcast",
               [&] { infer_op("Add", {type({2}), type({3})}); });
}

TEST(Div, OfIntegersTruncatesAndNeverTraps) {
  EXPECT_TRUE(identical(run_op_tensor({"Div", {vector_of<std::int32_t>({-7, 7}), vector_of<std::int32_t>({2, -2})}}),
                        vector_of<std::int32_t>({-3, -3})));
  const Tensor lowest = Tensor::scalar(std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(identical(run_op_tensor({"Div", {lowest, Tensor::scalar(std::int64_t{-1})}}), lowest));
  EXPECT_TRUE(identical(run_op_tensor({"Div", {Tensor::scalar(std::int8_t{-128}), Tensor::scalar(std::int8_t{-1})}}),
                        Tensor::scalar(std::int8_t{-128})));
  for (const char* op : {"Div", "Mod"}) {
    expect_error(ErrorKind::failed, "integer division by zero",
                 [&] { run_op({op, {lowest, Tensor::scalar(std::int64_t{0})}}); });
  }
}

TEST(Mod, FollowsTheDivisorOrTheDividend) {
  const Tensor x = vector_of<std::int32_t>({-4, 7, 5}), y = vector_of<std::int32_t>({3, -3, 8});
  EXPECT_TRUE(identical(run_op_tensor({"Mod", {x, y}}), vector_of<std::int32_t>({2, -2, 5})));
  EXPECT_TRUE(
      identical(run_op_tensor({"Mod", {x, y}, {{"fmod", std::int64_t{1}}}}), vector_of<std::int32_t>({-1, 1, 5})));
  expect_error(ErrorKind::invalid_model, "fmod is 0 with elements of type f32, expected 1 for floats",
               [] { run_op({"Mod", {Tensor::scalar(1.0f), Tensor::scalar(1.0f)}}); });
}

TEST(Pow, TakesMixedTypes) {
  EXPECT_TRUE(
      identical(run_op_tensor({"Pow", {vector_of<std::int64_t>({2, 3, -1}), vector_of<std::int32_t>({62, -1, -3})}}),
                vector_of<std::int64_t>({std::int64_t{1} << 62, 0, -1})));
  EXPECT_TRUE(identical(run_op_tensor({"Pow", {vector_of<std::int32_t>({4}), vector_of<float>({0.5f})}}),
                        vector_of<std::int32_t>({2})));
  EXPECT_TRUE(identical(run_op_tensor({"Pow", {vector_of<float>({2}), vector_of<std::int64_t>({-1})}}),
                        vector_of<float>({0.5f})));
  expect_error(ErrorKind::failed, "0 to the power of -1",
               [] { run_op({"Pow", {vector_of<std::int32_t>({0}), vector_of<std::int32_t>({-1})}}); });
}

TEST(PRelu, RefusesSlopesThatWouldGrowTheResult) {
  const Tensor x = Tensor::from<float>({2, 2}, {-1, 2, -3, 4});
  EXPECT_TRUE(identical(run_op_tensor({"PRelu", {x, vector_of<float>({0.5f, 1})}}),
                        Tensor::from<float>({2, 2}, {-0.5f, 2, -1.5f, 4})));
  expect_error(ErrorKind::invalid_model, "slope [3, 1, 1] does not broadcast to [2, 2]",
               [&] { run_op({"PRelu", {x, Tensor::from<float>({3, 1, 1}, {1, 2, 3})}}); });
}

TEST(BitShift, LosesBitsOutsideTheType) {
  const Tensor x = vector_of<std::uint8_t>({16, 255, 1}), y = vector_of<std::uint8_t>({1, 4, 200});
  EXPECT_TRUE(identical(run_op_tensor({"BitShift", {x, y}, {{"direction", std::string("LEFT")}}}),
                        vector_of<std::uint8_t>({32, 240, 0})));
  EXPECT_TRUE(identical(run_op_tensor({"BitShift", {x, y}, {{"direction", std::string("RIGHT")}}}),
                        vector_of<std::uint8_t>({8, 15, 0})));
}

TEST(Variadic, NaNWinsAndMeansDivide) {
  const Tensor a = vector_of<float>({1, NAN}), b = vector_of<float>({3, 1});
  EXPECT_TRUE(close_to(run_op_tensor({"Min", {a, b}}), vector_of<float>({1, NAN})));
  EXPECT_TRUE(close_to(run_op_tensor({"Max", {b, a}}), vector_of<float>({3, NAN})));
  EXPECT_TRUE(close_to(run_op_tensor({"Mean", {b, b, a}}), vector_of<float>({7.0f / 3, NAN}),
                       Tolerance::epsilons(DType::f32, 1)));
  EXPECT_TRUE(identical(run_op_tensor({"Sum", {b}}), b));
}

TEST(Where, TakesStrings) {
  const Tensor x = Tensor::from<std::string>({}, {"yes"}), y = Tensor::from<std::string>({2}, {"a", "b"});
  EXPECT_TRUE(identical(run_op_tensor({"Where", {vector_of<bool>({true, false}), x, y}}),
                        Tensor::from<std::string>({2}, {"yes", "b"})));
}

}  // namespace
}  // namespace tessera::test::element_wise_binary_test
