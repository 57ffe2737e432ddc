// Numbers as text and back, independent of the process's locale.
#pragma once

#include <string>
#include <string_view>

#include "tessera/dtype.h"

namespace tessera::backends::reference {

// The shortest decimal that reads back as the same value of `type` (f64, f32, f16 …), laid out as numpy does: plain
// from 1e-4 to below 1e16, else with an exponent ("1e-05"); a whole number ends in ".0"; "inf", "-inf", "nan".
std::string float_to_text(double value, DType type);

// Reads plain and scientific notation, "inf" and "nan" with any case and sign, spaces around.
// Throws Error(failed) on anything else.
double text_to_float(std::string_view text);

// A whole number as T (int64_t or uint64_t); what has a fraction, an exponent or does not fit goes through
// text_to_float and is truncated.
template <typename T>
T text_to_integer(std::string_view text);

}  // namespace tessera::backends::reference
