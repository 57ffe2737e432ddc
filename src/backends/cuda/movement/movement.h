// Launches of operators that move elements: transpositions, slices, concatenations, splits, broadcasts.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> movement_kernel_table();

}  // namespace tessera::backends::cuda
