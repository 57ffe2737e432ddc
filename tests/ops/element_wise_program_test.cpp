// What programs of element-wise steps give, and which ones are refused.
#include "ops/element_wise_program.h"

#include <gtest/gtest.h>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::ops {
namespace {

using Steps = std::vector<ElementWiseStep>;

ElementWiseStep step(std::string_view name, std::array<std::int64_t, 2> operands, std::array<float, 2> parameters = {}) { return {find_element_wise_form(name), operands, parameters}; }

std::string error_of(const std::vector<Value>& inputs, const ir::Attributes& attributes) {
  try {
    test::run_op({"tessera::ElementWise", inputs, attributes});
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

const Tensor kReals = Tensor::from<float>({4}, {-2, -0.5, 1, 3});
const Tensor kBytes = Tensor::from<std::uint8_t>({2, 1}, {130, 100});

TEST(ElementWiseProgram, ComputesItsStepsInOrderAndBroadcasts) {
  // (0.5 (bytes - 128) + 3) · reals, clipped
  const Steps steps{step("DequantizeLinear", {1, -1}, {0.5f, 128}), step("Constant", {-1, -1}, {3, 0}), step("Add", {2, 3}), step("Mul", {4, 0}), step("Clip", {5, -1}, {-8, 11})};
  const Tensor y = test::run_op_tensor({"tessera::ElementWise", {kReals, kBytes}, element_wise_attributes(steps)});
  EXPECT_TRUE(test::close_to(y, Tensor::from<float>({2, 4}, {-8, -2, 4, 11, 11, 5.5, -8, -8})));
}

TEST(ElementWiseProgram, MayGiveBytes) {
  const Steps steps{step("Neg", {0, -1}), step("QuantizeI8", {1, -1}, {0.5f, -3})};
  EXPECT_TRUE(test::close_to(test::run_op_tensor({"tessera::ElementWise", {kReals}, element_wise_attributes(steps)}), Tensor::from<std::int8_t>({4}, {1, -2, -5, -9})));
}

TEST(ElementWiseProgram, RefusesWhatMakesNoSense) {
  const auto of = [](Steps steps) { return element_wise_attributes(steps); };
  EXPECT_EQ(error_of({kReals}, of({})), "has 0 steps, expected 1 to 64");
  EXPECT_EQ(error_of({kReals}, of({step("Neg", {1, -1})})), "step 0 ('Neg') takes value 1, expected an earlier one");
  EXPECT_EQ(error_of({kReals}, of({step("Neg", {0, -1}), step("Add", {1, -1})})), "step 1 ('Add') takes value -1, expected an earlier one");
  EXPECT_EQ(error_of({kReals, kReals}, of({step("Neg", {0, -1})})), "a value of the program is not used");
  EXPECT_EQ(error_of({kReals}, of({step("DequantizeLinear", {0, -1}, {1, 0})})), "step 0 ('DequantizeLinear') takes f32");
  EXPECT_EQ(error_of({kBytes}, of({step("Neg", {0, -1})})), "step 0 ('Neg') takes u8");
  EXPECT_EQ(error_of({kBytes}, of({step("DequantizeLinear", {0, -1}, {1, -1})})), "zero point -1 is no u8");
  EXPECT_EQ(error_of({kReals}, of({step("QuantizeI8", {0, -1}, {1, 0.5f})})), "zero point 0.5 is no i8");
  ir::Attributes attributes = of({step("Neg", {0, -1})});
  attributes["steps"] = std::vector<std::string>{"Nag"};
  EXPECT_EQ(error_of({kReals}, attributes), "step 'Nag' is not known");
  attributes["operands"] = std::vector<std::int64_t>{0};
  EXPECT_EQ(error_of({kReals}, attributes), "1 operands for 1 steps, expected two for each");
}

}  // namespace
}  // namespace tessera::ops
