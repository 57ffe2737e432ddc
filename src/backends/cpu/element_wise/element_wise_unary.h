// Functions of one float on rows of them, for kernels that end with an activation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tessera::backends::cpu {

// The two numbers that a function may need: alpha and beta (or gamma), or the bounds of Clip.
struct UnaryParameters {
  float a = 0, b = 0;
};
// x and y may be the same memory.
using UnaryFunction = void (*)(const float* x, float* y, std::int64_t count, UnaryParameters parameters);

struct RowActivation {
  UnaryFunction function = nullptr;
  UnaryParameters parameters;

  void operator()(float* row, std::int64_t count) const { function(row, row, count, parameters); }
};

// The function of that operator, or of that activation (ops/fused_activation.h), with the values of its parameters;
// without a function when there is no vectorised one.
RowActivation row_activation(std::string_view name, std::span<const float> values);

}  // namespace tessera::backends::cpu
