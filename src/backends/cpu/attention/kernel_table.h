#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// The kernel entries of this folder, in order of preference for each operator.
std::span<const KernelEntry> attention_kernels();

}  // namespace tessera::backends::cpu
