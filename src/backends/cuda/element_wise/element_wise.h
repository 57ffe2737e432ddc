// Launches of element-wise operators, and of programs of them.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> element_wise_kernel_table();

}  // namespace tessera::backends::cuda
