// Conversions of lines between element types, for kernels that include conversions.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::backends::cpu {

using CastLine = void (*)(const void* x, void* y, std::int64_t count);
// Returns the conversion, or null for types that the kernel of Cast does not convert.
CastLine cast_line(DType from, DType to);

}  // namespace tessera::backends::cpu
