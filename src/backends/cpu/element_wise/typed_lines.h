// Lines of binary operators on every integer type, bools and f64, compiled for each instruction set.
#pragma once

#include <string_view>

#include "backends/cpu/element_wise/element_wise_binary.h"

namespace tessera::backends::cpu {

// Whether `type` is an integer of 8 to 64 bits or f64.
bool has_typed_lines(DType type);

// z = x op y for such a type, or f32 where `kind` is a remainder; z may be the memory of an operand that advances.
// Integers wrap; integer division by zero throws ErrorKind::failed. Null where the kind has no meaning in the type.
BinaryLine typed_arithmetic_line(Arithmetic kind, DType type, bool x_moves, bool y_moves);

// The line of a comparison (Equal, Greater …) of such a type or of bools, or of And, Or and Xor of bools.
BinaryLine typed_comparison_line(std::string_view op, DType type, bool x_moves, bool y_moves);

}  // namespace tessera::backends::cpu
