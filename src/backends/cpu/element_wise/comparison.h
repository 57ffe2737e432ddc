// Lines of comparisons and of logic, for kernels that apply several operators. Bools are bytes 0 and 1.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/cpu/element_wise/element_wise_binary.h"

namespace tessera::backends::cpu {

// Returns the line of Equal, Greater, GreaterOrEqual, Less or LessOrEqual on float32, or of And, Or or Xor on bools;
// its results are bools. z may be the memory of an operand.
BinaryLine f32_comparison_line(std::string_view op, bool x_moves, bool y_moves);
BinaryLine logic_line(std::string_view op, bool x_moves, bool y_moves);

void not_line(const bool* x, bool* y, std::int64_t count);
void is_nan_line(const float* x, bool* y, std::int64_t count);

}  // namespace tessera::backends::cpu
