#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::reference {

// The entries of this folder, grouped by the file that holds the kernels.
std::span<const KernelEntry> pooling_kernels();

}  // namespace tessera::backends::reference
