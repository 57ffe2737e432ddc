// Functions of one float applied to rows, for kernels that end with an activation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// The two parameters that a function may have: alpha and beta (or gamma), or the bounds of Clip.
struct UnaryParameters {
  float a = 0, b = 0;
};
// x and y may be the same memory.
using UnaryFunction = void (*)(const float* x, float* y, std::int64_t count, UnaryParameters parameters);

// The forms in which a matrix product can apply an activation.
enum class FusedForm : std::uint8_t {
  function,    // applied to rows that were just written
  above_zero,  // a lower bound of 0
  bounds,      // two bounds: the parameters
  hard_swish,  // a function that some products apply in registers
};

struct RowActivation {
  UnaryFunction function = nullptr;
  UnaryParameters parameters;
  FusedForm form = FusedForm::function;

  void operator()(float* row, std::int64_t count) const { function(row, row, count, parameters); }
};

// Returns the function of that operator or activation (ops/element_wise/fused_activation.h) with the values of its
// parameters; a null function if there is no vectorised one.
RowActivation row_activation(std::string_view name, std::span<const float> values);

// Returns the kernel entries of operators with one operand: one for each line of element_wise_unary.cpp's tables that
// names one.
std::vector<KernelEntry> unary_kernels();

}  // namespace tessera::backends::cpu
