// What programs of element-wise steps give, and which ones are refused.
#include "ops/element_wise/element_wise_program.h"

#include <gtest/gtest.h>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::ops::element_wise_program_test {
namespace {

using Steps = std::vector<ElementWiseStep>;

ElementWiseStep step(std::string_view name, std::array<std::int64_t, 3> operands,
                     std::array<float, 2> parameters = {}) {
  return {find_element_wise_form(name), operands, parameters};
}

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
  const Steps steps{step("DequantizeLinear", {1, -1}, {0.5f, 128}), step("Constant", {-1, -1}, {3, 0}),
                    step("Add", {2, 3}), step("Mul", {4, 0}), step("Clip", {5, -1}, {-8, 11})};
  const Tensor y = test::run_op_tensor({"tessera::ElementWise", {kReals, kBytes}, element_wise_attributes(steps)});
  EXPECT_TRUE(test::close_to(y, Tensor::from<float>({2, 4}, {-8, -2, 4, 11, 11, 5.5, -8, -8})));
}

TEST(ElementWiseProgram, MayGiveBytes) {
  const Steps steps{step("Neg", {0, -1}), step("QuantizeI8", {1, -1}, {0.5f, -3})};
  EXPECT_TRUE(test::close_to(test::run_op_tensor({"tessera::ElementWise", {kReals}, element_wise_attributes(steps)}),
                             Tensor::from<std::int8_t>({4}, {1, -2, -5, -9})));
}

TEST(ElementWiseProgram, ComparesChoosesAndConverts) {
  // Positive numbers below 2.5 that the mask leaves, others -1; plus the mask and the count.
  const Tensor mask = Tensor::from<bool>({2, 1}, {true, false}),
               counts = Tensor::from<std::int64_t>({4}, {1, 2, 3, 1 << 25});
  const Steps steps{step("Constant", {}, {2.5f, 0}),
                    step("Less", {0, 3}),
                    step("ToBool", {2}),
                    step("Constant", {}, {0, 0}),
                    step("Greater", {0, 6}),
                    step("And", {4, 7}),
                    step("Not", {1}),
                    step("Or", {8, 9}),
                    step("IsNaN", {0}),
                    step("Xor", {10, 11}),
                    step("And", {12, 5}),
                    step("Constant", {}, {-1, 0}),
                    step("Where", {13, 0, 14}),
                    step("ToReal", {1}),
                    step("Add", {15, 16}),
                    step("Add", {17, 2})};
  ir::Attributes attributes = element_wise_attributes(steps);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(attributes.at("operands")).size(), 3 * steps.size());
  const Tensor weights = Tensor::from<float>({4}, {1, 0, 2, -3});
  const Tensor y = test::run_op_tensor({"tessera::ElementWise", {kReals, mask, weights}, attributes});
  EXPECT_TRUE(test::close_to(y, Tensor::from<float>({2, 4}, {1, 0, 4, -3, -1, -1, 3, 0})));
  const Steps widened{step("ToReal", {0}), step("Constant", {}, {3, 0}), step("LessOrEqual", {1, 2})};
  EXPECT_TRUE(test::close_to(test::run_op_tensor({"tessera::ElementWise", {counts}, element_wise_attributes(widened)}),
                             Tensor::from<bool>({4}, {true, true, true, false})));
}

TEST(ElementWiseProgram, RefusesWhatMakesNoSense) {
  const auto of = [](Steps steps) { return element_wise_attributes(steps); };
  EXPECT_EQ(error_of({kReals}, of({})), "has 0 steps, expected 1 to 64");
  EXPECT_EQ(error_of({kReals}, of({step("Neg", {1, -1})})), "step 0 ('Neg') takes value 1, expected an earlier one");
  EXPECT_EQ(error_of({kReals}, of({step("Neg", {0, -1}), step("Add", {1, -1})})),
            "step 1 ('Add') takes value -1, expected an earlier one");
  EXPECT_EQ(error_of({kReals, kReals}, of({step("Neg", {0, -1})})), "a value of the program is not used");
  EXPECT_EQ(error_of({kReals}, of({step("DequantizeLinear", {0, -1}, {1, 0})})),
            "step 0 ('DequantizeLinear') takes f32");
  EXPECT_EQ(error_of({kBytes}, of({step("Neg", {0, -1})})), "step 0 ('Neg') takes u8");
  EXPECT_EQ(error_of({kBytes}, of({step("DequantizeLinear", {0, -1}, {1, -1})})), "zero point -1 is no u8");
  EXPECT_EQ(error_of({kReals}, of({step("QuantizeI8", {0, -1}, {1, 0.5f})})), "zero point 0.5 is no i8");
  const Tensor bools = Tensor::from<bool>({1}, {true}), longs = Tensor::from<std::int64_t>({1}, {7});
  EXPECT_EQ(error_of({bools}, of({step("Neg", {0})})), "step 0 ('Neg') takes bool");
  EXPECT_EQ(error_of({kReals}, of({step("Not", {0})})), "step 0 ('Not') takes f32");
  EXPECT_EQ(error_of({kReals}, of({step("Where", {0, 0, 0})})), "step 0 ('Where') takes f32");
  EXPECT_EQ(error_of({kReals, bools}, of({step("Where", {1, 0, 1})})), "step 0 ('Where') takes bool");
  EXPECT_EQ(error_of({bools, longs}, of({step("Equal", {0, 1})})), "step 0 ('Equal') takes bool");
  EXPECT_EQ(error_of({longs}, of({step("Abs", {0})})), "step 0 ('Abs') takes i64");
  EXPECT_EQ(error_of({kReals}, of({step("ToReal", {0})})), "step 0 ('ToReal') takes f32");
  ir::Attributes attributes = of({step("Neg", {0, -1})});
  attributes["steps"] = std::vector<std::string>{"Nag"};
  EXPECT_EQ(error_of({kReals}, attributes), "step 'Nag' is not known");
  attributes["operands"] = std::vector<std::int64_t>{0};
  EXPECT_EQ(error_of({kReals}, attributes), "1 operands for 1 steps, expected two or three for each");
}

}  // namespace
}  // namespace tessera::ops::element_wise_program_test
