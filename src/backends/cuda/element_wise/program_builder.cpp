#include "backends/cuda/element_wise/program_builder.h"

#include <algorithm>
#include <numbers>
#include <string_view>

namespace tessera::backends::cuda {

using tessera::cuda::ElementInstruction;
using Operation = ProgramBuilder::Operation;

int ProgramBuilder::load(int input) {
  lines_.push_back({Operation::load, {input, -1, -1}, 0});
  return static_cast<int>(lines_.size()) - 1;
}

int ProgramBuilder::constant(float value) {
  lines_.push_back({Operation::constant, {-1, -1, -1}, value});
  return static_cast<int>(lines_.size()) - 1;
}

int ProgramBuilder::add(Operation operation, int a, int b, int c) {
  lines_.push_back({operation, {a, b, c}, 0});
  return static_cast<int>(lines_.size()) - 1;
}

std::optional<std::vector<ElementInstruction>> ProgramBuilder::finish(int value) const {
  if (lines_.empty() || value != static_cast<int>(lines_.size()) - 1 ||
      lines_.size() > static_cast<std::size_t>(tessera::cuda::kProgramInstructions))
    return std::nullopt;
  std::vector<int> last_use(lines_.size(), -1), registers(lines_.size(), -1);
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i].operation == Operation::load) continue;
    for (const int operand : lines_[i].operands) {
      if (operand >= 0) last_use[static_cast<std::size_t>(operand)] = static_cast<int>(i);
    }
  }
  std::vector<bool> taken(static_cast<std::size_t>(tessera::cuda::kProgramRegisters), false);
  std::vector<ElementInstruction> instructions;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    ElementInstruction instruction{line.operation, 0, 0, 0, 0, line.value};
    std::uint8_t* const fields[] = {&instruction.a, &instruction.b, &instruction.c};
    for (std::size_t k = 0; k < 3; ++k) {
      const int operand = line.operands[k];
      if (operand < 0) continue;
      const bool is_input = line.operation == Operation::load;
      *fields[k] = static_cast<std::uint8_t>(is_input ? operand : registers[static_cast<std::size_t>(operand)]);
    }
    // The operands are read before the result is written, so that it may take their place.
    if (line.operation != Operation::load) {
      for (const int operand : line.operands) {
        if (operand >= 0 && last_use[static_cast<std::size_t>(operand)] == static_cast<int>(i))
          taken[static_cast<std::size_t>(registers[static_cast<std::size_t>(operand)])] = false;
      }
    }
    std::size_t place = 0;
    if (i + 1 < lines_.size()) {
      place = static_cast<std::size_t>(std::ranges::find(taken, false) - taken.begin());
      if (place == taken.size()) return std::nullopt;
      taken[place] = last_use[i] >= 0;
    }
    registers[i] = static_cast<int>(place);
    instruction.result = static_cast<std::uint8_t>(place);
    instructions.push_back(instruction);
  }
  return instructions;
}

namespace {

struct SimpleForm {
  std::string_view name;
  Operation operation;
};
// Steps that one instruction computes.
constexpr SimpleForm kSimple[] = {
    {"Add", Operation::add},          {"Sub", Operation::subtract},
    {"Mul", Operation::multiply},     {"Div", Operation::divide},
    {"Min", Operation::minimum},      {"Max", Operation::maximum},
    {"Pow", Operation::power},        {"Neg", Operation::negate},
    {"Abs", Operation::absolute},     {"Reciprocal", Operation::reciprocal},
    {"Sqrt", Operation::square_root}, {"Exp", Operation::exponential},
    {"Log", Operation::logarithm},    {"Erf", Operation::error_function},
    {"Sigmoid", Operation::sigmoid},  {"Tanh", Operation::tanh},
    {"Relu", Operation::relu},        {"Floor", Operation::floor},
    {"Round", Operation::round},      {"Ceil", Operation::ceil},
    {"Sin", Operation::sine},         {"Cos", Operation::cosine},
};

// x Φ(x), by the error function.
int add_gelu(ProgramBuilder& program, int x) {
  const int scaled = program.add(Operation::multiply, x, program.constant(1 / std::numbers::sqrt2_v<float>));
  const int normal = program.add(Operation::add, program.add(Operation::error_function, scaled), program.constant(1));
  return program.add(Operation::multiply, program.add(Operation::multiply, x, program.constant(0.5f)), normal);
}

// 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))). Hendrycks and Gimpel, arXiv:1606.08415.
int add_gelu_by_tanh(ProgramBuilder& program, int x) {
  const int square = program.add(Operation::multiply, x, x);
  const int cubic =
      program.add(Operation::multiply, program.add(Operation::multiply, square, x), program.constant(0.044715f));
  const int inner =
      program.add(Operation::multiply, program.add(Operation::add, x, cubic), program.constant(0.7978845608f));
  const int sum = program.add(Operation::add, program.add(Operation::tanh, inner), program.constant(1));
  return program.add(Operation::multiply, program.add(Operation::multiply, x, program.constant(0.5f)), sum);
}

// Returns the number of the result, or -1 for a step that no instruction of the kernels computes.
int add_step(ProgramBuilder& program, const ops::ElementWiseStep& step, const std::vector<int>& values) {
  const auto operand = [&](std::size_t i) { return values[static_cast<std::size_t>(step.operands[i])]; };
  const std::string_view name = step.form->name;
  const auto [first, second] = step.parameters;
  if (name == "Constant") return program.constant(first);
  if (const auto* const simple = std::ranges::find(kSimple, name, &SimpleForm::name); simple != std::end(kSimple))
    return program.add(simple->operation, operand(0), step.operand_count() > 1 ? operand(1) : -1);
  if (name == "Gelu") return add_gelu(program, operand(0));
  if (name == "GeluTanh") return add_gelu_by_tanh(program, operand(0));
  if (name == "Swish") {
    const int scaled = program.add(Operation::multiply, operand(0), program.constant(first));
    return program.add(Operation::multiply, operand(0), program.add(Operation::sigmoid, scaled));
  }
  if (name == "Clip") {
    const int low = program.add(Operation::maximum, operand(0), program.constant(first));
    return program.add(Operation::minimum, low, program.constant(second));
  }
  if (name == "LeakyRelu") {
    const int negative = program.add(Operation::multiply, operand(0), program.constant(first));
    const int is_negative = program.add(Operation::less, operand(0), program.constant(0));
    return program.add(Operation::select, negative, operand(0), is_negative);
  }
  if (name == "HardSigmoid" || name == "HardSwish") {
    const bool swish = name == "HardSwish";
    const int scaled = program.add(Operation::multiply, operand(0), program.constant(swish ? 1.0f / 6 : first));
    const int shifted = program.add(Operation::add, scaled, program.constant(swish ? 0.5f : second));
    const int low = program.add(Operation::maximum, shifted, program.constant(0));
    const int gate = program.add(Operation::minimum, low, program.constant(1));
    return swish ? program.add(Operation::multiply, operand(0), gate) : gate;
  }
  return -1;
}

}  // namespace

std::optional<std::vector<ElementInstruction>> compile_program(std::span<const ops::ElementWiseStep> steps,
                                                               std::size_t inputs) {
  if (inputs > static_cast<std::size_t>(tessera::cuda::kProgramInputs)) return std::nullopt;
  ProgramBuilder program;
  std::vector<int> values;
  for (std::size_t i = 0; i < inputs; ++i) values.push_back(program.load(static_cast<int>(i)));
  for (const ops::ElementWiseStep& step : steps) {
    const int value = add_step(program, step, values);
    if (value < 0) return std::nullopt;
    values.push_back(value);
  }
  return program.finish(values.back());
}

}  // namespace tessera::backends::cuda
