// Lines of binary operators on all integer types, bools and f64, compiled for each instruction set.
#pragma once

#include <string_view>

#include "backends/cpu/element_wise/element_wise_binary.h"

namespace tessera::backends::cpu {

// Whether `type` is an integer of 8 to 64 bits or f64.
bool has_typed_lines(DType type);

// Returns the line z = x op y for such a type, or for f32 if `kind` is a remainder; null if the type does not have the
// operator. z may be the memory of an operand that advances. Integers wrap; integer division by zero throws
// ErrorKind::failed.
BinaryLine typed_arithmetic_line(Arithmetic kind, DType type, bool x_moves, bool y_moves);

// Returns the line of a comparison (Equal, Greater …) for such a type or bools, or of And, Or or Xor for bools.
BinaryLine typed_comparison_line(std::string_view op, DType type, bool x_moves, bool y_moves);

}  // namespace tessera::backends::cpu
