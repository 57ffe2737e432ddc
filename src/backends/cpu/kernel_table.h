// The CPU's own kernels in order of preference; reference kernels come after them.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> kernel_table();

}  // namespace tessera::backends::cpu
