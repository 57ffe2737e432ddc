#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "support/run_op.h"

namespace tessera::test::comparison_test {
namespace {

Tensor bools(std::initializer_list<bool> values) {
  return Tensor::from<bool>({static_cast<std::int64_t>(values.size())}, values);
}

TEST(Comparison, OfFloats) {
  const Tensor a = Tensor::from<float>({4}, {1, 2, 3, NAN}), b = Tensor::scalar(2.0f);
  EXPECT_TRUE(identical(run_op_tensor({"Equal", {a, b}}), bools({false, true, false, false})));
  EXPECT_TRUE(identical(run_op_tensor({"Less", {a, b}}), bools({true, false, false, false})));
  EXPECT_TRUE(identical(run_op_tensor({"LessOrEqual", {a, b}}), bools({true, true, false, false})));
  EXPECT_TRUE(identical(run_op_tensor({"Greater", {a, b}}), bools({false, false, true, false})));
  EXPECT_TRUE(identical(run_op_tensor({"GreaterOrEqual", {a, b}}), bools({false, true, true, false})));
}

TEST(Comparison, KeepsAllBitsOfIntegers) {
  const std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  const Tensor a = Tensor::from<std::uint64_t>({2}, {top, 1}), b = Tensor::from<std::uint64_t>({2}, {top - 1, 1});
  EXPECT_TRUE(identical(run_op_tensor({"Greater", {a, b}}), bools({true, false})));
}

TEST(Comparison, EqualTakesStrings) {
  const Tensor a = Tensor::from<std::string>({2}, {"a", "b"}), b = Tensor::from<std::string>({1}, {"b"});
  EXPECT_TRUE(identical(run_op_tensor({"Equal", {a, b}}), bools({false, true})));
}

TEST(Comparison, Logic) {
  const Tensor a = bools({false, false, true, true}), b = bools({false, true, false, true});
  EXPECT_TRUE(identical(run_op_tensor({"And", {a, b}}), bools({false, false, false, true})));
  EXPECT_TRUE(identical(run_op_tensor({"Or", {a, b}}), bools({false, true, true, true})));
  EXPECT_TRUE(identical(run_op_tensor({"Xor", {a, b}}), bools({false, true, true, false})));
}

TEST(Comparison, InfersBool) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("n")});
  EXPECT_EQ(infer_op("Less", {x, x})[0], ir::ValueType::tensor(DType::boolean, ir::Dims{ir::Dim::symbol("n")}));
}

}  // namespace
}  // namespace tessera::test::comparison_test
