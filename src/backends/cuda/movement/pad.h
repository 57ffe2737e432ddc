// Launches of Pad.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> pad_kernel_table();

}  // namespace tessera::backends::cuda
