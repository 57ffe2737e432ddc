// The programs that the kernels of program.h interpret.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kProgramInputs = 8, kProgramRegisters = 16, kProgramInstructions = 64, kProgramAxes = 4;

enum class ElementOperation : std::uint8_t {
  load,      // input `a` at the element
  constant,  // `value`
  add,
  subtract,
  multiply,
  divide,
  minimum,
  maximum,
  power,  // of registers a and b
  less,
  equal,   // 1 or 0
  select,  // a where register c is not 0, else b
  negate,
  absolute,
  reciprocal,
  square_root,
  exponential,
  logarithm,
  error_function,
  sigmoid,
  tanh,
  relu,
  floor,
  round,
  ceil,
  sine,
  cosine,
};

struct ElementInstruction {
  ElementOperation operation;
  std::uint8_t result, a, b, c;  // registers; of load, a is the input
  float value;
};

// Outputs are contiguous; inputs are read by strides in elements, 0 along axes that they are broadcast over. Axes are
// ordered from the outermost; unused ones have size 1.
struct ElementProgram {
  ElementInstruction instructions[kProgramInstructions];
  const void* inputs[kProgramInputs];
  std::int64_t strides[kProgramInputs][kProgramAxes];
  std::int64_t sizes[kProgramAxes];
  void* output;  // register 0 after the last instruction; may be an input that is not broadcast
  std::int64_t count;
  int length;  // instructions
};

}  // namespace tessera::cuda
