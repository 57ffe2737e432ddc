// Random programs of element-wise steps against the reference, which runs them operator by operator.
#include "ops/element_wise/element_wise_program.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::element_wise_program_test {
namespace {

using Steps = std::vector<ops::ElementWiseStep>;

ops::ElementWiseStep step(std::string_view name, std::array<std::int64_t, 3> operands,
                          std::array<float, 2> parameters = {}) {
  return {ops::find_element_wise_form(name), operands, parameters};
}

OpCall call_of(std::vector<Value> inputs, const Steps& steps) {
  return {"tessera::ElementWise", std::move(inputs), ops::element_wise_attributes(steps)};
}

TEST(CpuElementWise, EveryStepMatchesTheReference) {
  const Tensor x = random_tensor(DType::f32, {5, 1031}, 1, -3, 3), y = random_tensor(DType::f32, {5, 1}, 2, 0.5, 2);
  for (const char* name : {"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"}) {
    SCOPED_TRACE(name);
    expect_matches_reference(call_of({x, y}, {step("Neg", {0, -1}), step(name, {2, 1})}),
                             Tolerance::epsilons(DType::f32, 4));
    if (std::string_view(name) == "PRelu") continue;  // its slope broadcasts to its data only
    expect_matches_reference(call_of({y, x}, {step("Neg", {0, -1}), step(name, {2, 1})}),
                             Tolerance::epsilons(DType::f32, 4));
  }
  for (const char* name : {"Abs",         "Ceil",
                           "Erf",         "Exp",
                           "Floor",       "Mish",
                           "Reciprocal",  "Round",
                           "Sign",        "Relu",
                           "Tanh",        "Sigmoid",
                           "Softplus",    "Softsign",
                           "HardSwish",   "Gelu",
                           "GeluTanh",    "LeakyRelu",
                           "Elu",         "Swish",
                           "Celu",        "ThresholdedRelu",
                           "HardSigmoid", "Selu"}) {
    SCOPED_TRACE(name);
    const bool scalar_differs = std::string_view(name) == "Ceil" || std::string_view(name) == "Floor" ||
                                std::string_view(name) == "Round" || std::string_view(name) == "Sign";
    // A constant sum would move numbers over the steps of the first.
    const Steps steps = scalar_differs ? Steps{step(name, {0, -1}), step("Mul", {2, 1})}
                                       : Steps{step("Add", {0, 1}), step(name, {2, -1}, {0.75f, 0.5f})};
    expect_matches_reference(call_of({x, y}, steps), Tolerance::epsilons(DType::f32, 32));
  }
  expect_matches_reference(
      call_of({x}, {step("Clip", {0, -1}, {-1, 0.5f}), step("Constant", {-1, -1}, {2, 0}), step("Sub", {2, 1})}),
      Tolerance::epsilons(DType::f32, 2));
  expect_matches_reference(call_of({x}, {step("Abs", {0, -1}), step("Sqrt", {1, -1})}),
                           Tolerance::epsilons(DType::f32, 2));
  expect_matches_reference(call_of({x}, {step("Abs", {0, -1}), step("Log", {1, -1})}),
                           Tolerance::epsilons(DType::f32, 16));
}

// Several at a time: lines behind one another, one line for all of them, and a single element.
TEST(CpuElementWise, ShortLines) {
  for (const Shape& shape : {Shape{3, 130}, Shape{29, 100}, Shape{2, 500, 40}, Shape{9, 700}}) {
    SCOPED_TRACE(to_string(shape));
    const Tensor x = random_tensor(DType::f32, shape, 1, -3, 3),
                 line = random_tensor(DType::f32, {shape.back()}, 2, -3, 3),
                 one = random_tensor(DType::f32, {}, 3, -3, 3);
    const Tensor bytes = random_tensor(DType::u8, shape, 4, 0, 255),
                 mask = random_tensor(DType::boolean, {shape.back()}, 5, 0, 1);
    expect_matches_reference(call_of({line, x, one}, {step("Add", {0, 1}), step("Mul", {3, 2}), step("Max", {4, 0})}));
    expect_matches_reference(
        call_of({bytes, mask, line}, {step("DequantizeLinear", {0}, {0.02f, 119}), step("Where", {1, 3, 2}),
                                      step("QuantizeU8", {4}, {0.02f, 131})}));
  }
}

// Each step with operands that move along lines and that repeat one element, among NaN and infinities.
TEST(CpuElementWise, ChoicesAndWhatTheyAreMadeOf) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const Shape& other : {Shape{5, 1031}, Shape{5, 1}, Shape{1031}, Shape{}}) {
    Tensor x = random_tensor(DType::f32, {5, 1031}, 1, -3, 3), y = random_tensor(DType::f32, other, 2, -3, 3);
    for (std::int64_t i = 0; i < x.elements(); i += 7)
      x.mutable_data<float>()[i] = i % 3 == 0 ? nan : i % 3 == 1 ? infinity : 0.0f;
    for (std::int64_t i = 0; i < y.elements(); i += 5) y.mutable_data<float>()[i] = i % 2 == 0 ? -0.0f : nan;
    const Tensor mask = random_tensor(DType::boolean, other, 3, 0, 1),
                 whole = random_tensor(DType::boolean, {5, 1031}, 4, 0, 1);
    for (const char* name : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
      SCOPED_TRACE(name);
      expect_matches_reference(call_of({x, y}, {step("Neg", {0}), step(name, {2, 1})}));
      expect_matches_reference(call_of({x, y}, {step("Neg", {0}), step(name, {1, 2}), step("Where", {3, 0, 1})}));
    }
    for (const char* name : {"And", "Or", "Xor"}) {
      SCOPED_TRACE(name);
      expect_matches_reference(call_of({whole, mask, x}, {step("Not", {0}), step(name, {3, 1}), step(name, {1, 4}),
                                                          step("ToBool", {2}), step("Xor", {5, 6})}));
    }
    expect_matches_reference(call_of({mask, x, y}, {step("Where", {0, 1, 2}), step("Abs", {3})}));
    expect_matches_reference(call_of({mask, x, y}, {step("Where", {0, 2, 1}), step("Abs", {3})}));
    expect_matches_reference(call_of({whole, x, y}, {step("Where", {0, 2, 1}), step("Where", {0, 3, 2})}));
    expect_matches_reference(call_of({x}, {step("IsNaN", {0}), step("Constant", {}, {-2, 0}), step("Where", {1, 2, 0}),
                                           step("IsNaN", {3}), step("ToReal", {4}), step("Sub", {3, 5})}));
    for (const DType type : {DType::boolean, DType::i32, DType::i64}) {
      const Tensor given = type == DType::boolean
                               ? mask
                               : random_tensor(type, other, 5, -(std::int64_t{1} << 30), std::int64_t{1} << 30);
      expect_matches_reference(call_of({given, x}, {step("ToReal", {0}), step("Less", {1, 2}), step("Not", {3})}));
    }
  }
  EXPECT_EQ(
      chosen_cpu_kernel(call_of({random_tensor(DType::f32, {40}, 1)}, {step("ToBool", {0}), step("ToReal", {1})})),
      "cpu_element_wise_f32");
}

// Where a bool dies and a real number is born, more room is taken than was freed; so many that every register is used
// again.
TEST(CpuElementWise, BoolsAndRealNumbersShareRoom) {
  Steps steps;
  const Tensor x = random_tensor(DType::f32, {3, 2500}, 1, -2, 2), y = random_tensor(DType::f32, {3, 2500}, 2, -2, 2);
  std::int64_t last = 0;
  for (int i = 0; i < 12; ++i) {
    const auto next = [&] { return static_cast<std::int64_t>(1 + steps.size()); };
    steps.push_back(step(i % 2 == 0 ? "Greater" : "LessOrEqual", {last, 1}));
    steps.push_back(step("ToReal", {next()}));
    steps.push_back(step("Where", {next() - 1, last, next()}));
    steps.push_back(step("Sub", {next(), 1}));
    last = next();
  }
  expect_matches_reference(call_of({x, y}, steps), Tolerance::epsilons(DType::f32, 8));
}

// A byte that depends on another one alone, by way of bools.
TEST(CpuElementWise, TablesHoldChoices) {
  const Tensor x = random_tensor(DType::u8, {3, 700}, 3, 0, 255), mask = random_tensor(DType::boolean, {700}, 4, 0, 1),
               row = random_tensor(DType::f32, {700}, 5);
  const Steps leaky{step("DequantizeLinear", {0, -1}, {0.03f, 120}),
                    step("Constant", {}, {0, 0}),
                    step("Less", {1, 2}),
                    step("Tanh", {1}),
                    step("Where", {3, 4, 1}),
                    step("QuantizeU8", {5, -1}, {0.02f, 60})};
  expect_matches_reference(call_of({x}, leaky));
  const Steps masked{step("DequantizeLinear", {0, -1}, {0.03f, 120}), step("Where", {1, 3, 2}),
                     step("QuantizeI8", {4, -1}, {0.02f, 6})};
  expect_matches_reference(call_of({x, mask, row}, masked));
}

// Of all shapes that broadcast to one, over lines shorter and longer than a block.
TEST(CpuElementWise, RandomProgramsMatchTheReference) {
  const Shape results[] = {{}, {1}, {3000}, {4, 7, 33}, {2, 3, 1500}, {6, 1, 5}, {0, 4}};
  const char* const binary[] = {"Add", "Sub", "Mul", "Max", "Min"};
  const char* const unary[] = {"Neg", "Abs", "Tanh", "Sigmoid", "Relu", "HardSwish"};
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    const Shape& shape = results[below(std::size(results))];
    const std::size_t count = 1 + below(8);
    std::vector<Value> inputs;
    std::vector<bool> used;
    for (std::size_t i = 0; i < count; ++i) {
      Shape own = shape;
      for (std::int64_t& size : own) size = i > 0 && below(3) == 0 ? 1 : size;
      if (i > 0 && below(3) == 0)
        own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(below(own.size() + 1)));
      inputs.emplace_back(random_tensor(DType::f32, own, seed * 10 + i));
      used.push_back(false);
    }
    Steps steps;
    const auto any = [&] {
      const auto value = static_cast<std::int64_t>(below(used.size()));
      used[static_cast<std::size_t>(value)] = true;
      return value;
    };
    for (std::size_t i = 0, wanted = below(6); i < wanted; ++i) {
      if (below(5) == 0) steps.push_back(step("Constant", {-1, -1}, {0.25f * static_cast<float>(below(8)), 0}));
      else if (below(2) == 0) steps.push_back(step(unary[below(std::size(unary))], {any(), -1}));
      else steps.push_back(step(binary[below(std::size(binary))], {any(), any()}));
      used.push_back(false);
    }
    // What nothing used yet, one after the other.
    std::vector<std::int64_t> left;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) left.push_back(static_cast<std::int64_t>(i));
    }
    std::int64_t last = left[0];
    for (std::size_t i = 1; i < left.size(); ++i) {
      steps.push_back(step(binary[below(std::size(binary))], {last, left[i]}));
      last = static_cast<std::int64_t>(count + steps.size() - 1);
    }
    steps.push_back(step("Neg", {last, -1}));
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_matches_reference(call_of(inputs, steps), Tolerance::epsilons(DType::f32, 64));
  }
}

TEST(CpuElementWise, BytesGoThroughTables) {
  for (const DType type : {DType::u8, DType::i8}) {
    const Tensor x =
        type == DType::u8 ? random_tensor(type, {3, 700}, 3, 0, 255) : random_tensor(type, {3, 700}, 3, -128, 127);
    const float zero = type == DType::u8 ? 120 : -5;
    // x · (erf(x / 1.4) + 1), each part quantised again; with a sum of a row before it and without.
    const Steps gelu{step("DequantizeLinear", {0, -1}, {0.03f, zero}),
                     step("Constant", {-1, -1}, {1.4142f, 0}),
                     step("Div", {1, 2}),
                     step("Erf", {3, -1}),
                     step("QuantizeI8", {4, -1}, {1.0f / 127, 0}),
                     step("DequantizeLinear", {5, -1}, {1.0f / 127, 0}),
                     step("Constant", {-1, -1}, {1, 0}),
                     step("Add", {6, 7}),
                     step("Mul", {1, 8}),
                     step("QuantizeU8", {9, -1}, {0.04f, 3})};
    const OpCall one = call_of({x}, gelu);
    EXPECT_EQ(chosen_cpu_kernel(one), "cpu_element_wise");
    expect_matches_reference(one);
    const Tensor row = random_tensor(DType::f32, {700}, 4);
    Steps sum{step("DequantizeLinear", {0, -1}, {0.02f, zero}), step("Add", {2, 1}),
              step("QuantizeU8", {3, -1}, {0.03f, 120})};
    for (ops::ElementWiseStep next : gelu) {
      if (next.form->name == "DequantizeLinear" && next.operands[0] == 0) next.parameters[1] = 120;
      for (std::size_t i = 0; i < next.operand_count(); ++i) next.operands[i] += 4;
      sum.push_back(next);
    }
    expect_matches_reference(call_of({x, row}, sum));
  }
}

TEST(CpuElementWise, TakesAsManyOperandsAndValuesAsFit) {
  const Tensor x = random_tensor(DType::f32, {40}, 5);
  Steps sum, kept;
  for (std::int64_t i = 1; i < 9; ++i) sum.push_back(step("Add", {i == 1 ? 0 : 7 + i, i}));
  expect_error_containing(ErrorKind::unsupported, "takes up to 8 operands",
                          [&] { chosen_cpu_kernel(call_of(std::vector<Value>(9, x), sum)); });
  for (std::int64_t i = 0; i < 9; ++i) kept.push_back(step("Neg", {i == 0 ? 0 : i, -1}));
  for (std::int64_t i = 0; i < 8; ++i) kept.push_back(step("Add", {i == 0 ? 1 : 9 + i, 2 + i}));
  expect_error_containing(ErrorKind::unsupported, "keeps more than 8 values at once",
                          [&] { chosen_cpu_kernel(call_of({x}, kept)); });
}

// A byte that tables read again and again lives longer than it did without them: eight values at once, or nine.
TEST(CpuElementWise, TablesDoNotNeedMoreRoomThanThereIs) {
  std::vector<Value> inputs;
  for (int i = 0; i < 7; ++i) inputs.emplace_back(random_tensor(DType::f32, {70}, static_cast<std::uint64_t>(i)));
  Steps steps{step("Add", {0, 1}), step("QuantizeU8", {7, -1}, {0.02f, 128}),
              step("DequantizeLinear", {8, -1}, {0.02f, 128})};
  const auto add = [&](std::string_view name, std::array<std::int64_t, 3> operands,
                       std::array<float, 2> parameters = {}) {
    steps.push_back(step(name, operands, parameters));
    return static_cast<std::int64_t>(inputs.size() + steps.size() - 1);
  };
  const std::int64_t d = 9;
  std::vector<std::int64_t> products;
  for (std::int64_t i = 2; i < 7; ++i) products.push_back(add("Mul", {d, i}));
  const auto rounded = [&](std::string_view function) {
    return add("DequantizeLinear", {add("QuantizeU8", {add(function, {d, -1}), -1}, {0.01f, 3}), -1}, {0.01f, 3});
  };
  std::int64_t sum = add("Add", {rounded("Relu"), products[0]});
  sum = add("Add", {sum, rounded("Sigmoid")});
  for (std::size_t i = 1; i < products.size(); ++i) sum = add("Add", {sum, products[i]});
  add("Add", {sum, d});
  expect_matches_reference(call_of(inputs, steps), Tolerance::epsilons(DType::f32, 64));
}

TEST(CpuElementWise, ManyPathsThroughFewStepsAreNoWork) {
  Steps steps{step("DequantizeLinear", {0, -1}, {1.0f / 256, 0})};
  for (std::int64_t i = 1; i < 60; ++i) steps.push_back(step("Mul", {i, i}));
  steps.push_back(step("QuantizeU8", {60, -1}, {1, 0}));
  expect_matches_reference(call_of({random_tensor(DType::u8, {300}, 1, 0, 255)}, steps));
}

TEST(CpuElementWise, LeavesManyShortLinesToOthers) {
  const Tensor x = random_tensor(DType::f32, {20000, 2}, 1), y = random_tensor(DType::f32, {20000, 1}, 2);
  const Steps steps{step("Neg", {0, -1}), step("Add", {2, 1})};
  // No pass makes such a loop; a plan that has one nevertheless runs it, though everything is said against it.
  EXPECT_EQ(chosen_cpu_kernel(call_of({x, y}, steps)), "cpu_element_wise_f32");
  expect_matches_reference(call_of({x, y}, steps));
  EXPECT_EQ(chosen_cpu_kernel(call_of({x, x}, steps)), "cpu_element_wise_f32");
}

TEST(CpuElementWise, RunsShortLinesThatRepeatTogether) {
  const Steps steps{step("Neg", {0, -1}), step("Add", {2, 1})};
  for (const std::int64_t length : {2, 7}) {
    const test::OpCall call =
        call_of({random_tensor(DType::f32, {20000, length}, 1), random_tensor(DType::f32, {length}, 2)}, steps);
    EXPECT_EQ(chosen_cpu_kernel(call), "cpu_element_wise_f32");
    expect_matches_reference(call);
  }
}

}  // namespace
}  // namespace tessera::test::element_wise_program_test
