// Lines of conversions between element types, for kernels that convert among other things.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::backends::cpu {

using CastLine = void (*)(const void* x, void* y, std::int64_t count);
// Null for types that the kernel of Cast does not convert.
CastLine cast_line(DType from, DType to);

}  // namespace tessera::backends::cpu
