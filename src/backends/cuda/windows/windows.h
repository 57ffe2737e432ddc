// Launches of convolutions and pooling over up to three axes.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> windows_kernel_table();

}  // namespace tessera::backends::cuda
