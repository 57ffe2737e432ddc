// Launches of element-wise operators on bools and integers, of comparisons, choices and conversions.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> typed_kernel_table();

}  // namespace tessera::backends::cuda
