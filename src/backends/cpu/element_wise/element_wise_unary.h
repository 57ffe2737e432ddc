// Functions of one float on rows of them, for kernels that end with an activation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// The two numbers that a function may need: alpha and beta (or gamma), or the bounds of Clip.
struct UnaryParameters {
  float a = 0, b = 0;
};
// x and y may be the same memory.
using UnaryFunction = void (*)(const float* x, float* y, std::int64_t count, UnaryParameters parameters);

// What an activation is to a product, which can apply some of them before it stores its sums.
enum class FusedForm : std::uint8_t {
  function,    // of rows that were just written
  above_zero,  // a bound: at least 0
  bounds,      // two bounds: the parameters
  hard_swish,  // a function that some products have in registers
};

struct RowActivation {
  UnaryFunction function = nullptr;
  UnaryParameters parameters;
  FusedForm form = FusedForm::function;

  void operator()(float* row, std::int64_t count) const { function(row, row, count, parameters); }
};

// The function of that operator, or of that activation (ops/element_wise/fused_activation.h), with the values of its
// parameters; without a function when there is no vectorised one.
RowActivation row_activation(std::string_view name, std::span<const float> values);

// The entries of the kernel table for operators of one operand: one for each line of element_wise_unary.cpp's tables
// that names one.
std::vector<KernelEntry> unary_kernels();

}  // namespace tessera::backends::cpu
