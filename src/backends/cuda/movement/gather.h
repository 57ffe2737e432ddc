// Launches of Gather, GatherND, GatherElements and of their inverses.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> gather_kernel_table();

}  // namespace tessera::backends::cuda
