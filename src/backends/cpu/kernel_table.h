// The CPU's own kernels; reference kernels come after them. Each room has a table of its own, with an operator's
// entries in order of preference.
#pragma once

#include <span>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

std::vector<std::span<const KernelEntry>> kernel_tables();

}  // namespace tessera::backends::cpu
