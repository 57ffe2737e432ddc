// Launches of TopK along any axis.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> top_k_kernel_table();

}  // namespace tessera::backends::cuda
