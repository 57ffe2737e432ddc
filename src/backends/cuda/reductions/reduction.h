// Launches of reductions over axes, and of ArgMax and ArgMin.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> reduction_kernel_table();

}  // namespace tessera::backends::cuda
