#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// The entries of this room, in order of preference for each operator.
std::span<const KernelEntry> classical_kernels();

}  // namespace tessera::backends::cpu
