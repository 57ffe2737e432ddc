// Launches of matrix products with weights that are constants, and their epilogues.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> product_kernel_table();

}  // namespace tessera::backends::cuda
