// Conversions between numbers and text, independent of the process's locale.
#pragma once

#include <string>
#include <string_view>

#include "tessera/dtype.h"

namespace tessera::backends::reference {

// The shortest decimal that reads back as the same value of `type` (f64, f32, f16 …), in numpy's format: without
// exponent from 1e-4 to below 1e16, else with one ("1e-05"); an integer ends in ".0"; "inf", "-inf", "nan".
std::string float_to_text(double value, DType type);

// Reads decimal and scientific notation, "inf" and "nan" in any case, with a sign and surrounding spaces. Throws
// Error(failed) for anything else.
double text_to_float(std::string_view text);

// Reads an integer as T (int64_t or uint64_t); text with a fraction or exponent, or that does not fit, is read by
// text_to_float and truncated.
template <typename T>
T text_to_integer(std::string_view text);

}  // namespace tessera::backends::reference
