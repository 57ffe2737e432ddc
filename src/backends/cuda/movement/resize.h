// Launches of Resize.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> resize_kernel_table();

}  // namespace tessera::backends::cuda
