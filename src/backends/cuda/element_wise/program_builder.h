// Builds the programs that the kernels element_program_* interpret.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/kernels/element_wise/program_parameters.h"
#include "ops/element_wise/element_wise_program.h"

namespace tessera::backends::cuda {

// Instructions whose results are numbered in their order, each set once; finish() assigns registers.
class ProgramBuilder {
 public:
  using Operation = tessera::cuda::ElementOperation;

  int load(int input);
  int constant(float value);
  int add(Operation operation, int a, int b = -1, int c = -1);
  // The instructions, with the result of `value` in register 0 after the last; nothing where they need more registers
  // or instructions than the kernels have.
  std::optional<std::vector<tessera::cuda::ElementInstruction>> finish(int value) const;

 private:
  struct Line {
    Operation operation;
    int operands[3];
    float value;
  };
  std::vector<Line> lines_;
};

// The program of the steps; nothing where a kernel cannot hold it.
std::optional<std::vector<tessera::cuda::ElementInstruction>> compile_program(
    std::span<const ops::ElementWiseStep> steps, std::size_t inputs);

}  // namespace tessera::backends::cuda
