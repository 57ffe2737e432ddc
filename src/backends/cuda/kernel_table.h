// The operators that GPUs compute, with the kernels for each.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> kernel_table();

}  // namespace tessera::backends::cuda
